//! Names of the parameters in files.

use super::model::Fno;
use crate::weights::MonaiWeights;

impl MonaiWeights for Fno {
    /// The authors' names. Their complex weights, one for each corner of the spectrum, are one real tensor here, and linear layers
    /// are convolutions: `scripts/fno_weights.py` converts files in both directions.
    fn monai_name(path: &str) -> String {
        let mut parts = path.splitn(3, '.');
        let (Some(first), Some(second), rest) = (parts.next(), parts.next(), parts.next()) else {
            return path.to_string();
        };
        let last = path.rsplit('.').next().unwrap_or_default();
        match (first, rest) {
            ("lift", _) => format!("fc0.{last}"),
            ("projection", _) => format!("fc1.{last}"),
            ("output", _) => format!("fc2.{last}"),
            ("layers", Some("spectral")) => format!("conv{second}.weights"),
            ("layers", Some(rest)) if rest.starts_with("pointwise.") => format!("w{second}.{last}"),
            ("layers", Some(rest)) if rest.starts_with("norm.") => format!("bn{second}.{last}"),
            _ => path.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_authors() {
        for (path, expected) in [
            ("lift.conv.weight", "fc0.weight"),
            ("layers.0.spectral", "conv0.weights"),
            ("layers.2.pointwise.conv.bias", "w2.bias"),
            ("layers.3.norm.running_mean", "bn3.running_mean"),
            ("projection.conv.weight", "fc1.weight"),
            ("output.conv.bias", "fc2.bias"),
        ] {
            assert_eq!(Fno::monai_name(path), expected);
        }
    }
}
