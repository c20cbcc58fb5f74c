//! Names of the parameters in files.

use super::model::Fno;
use crate::weights::MonaiWeights;

impl MonaiWeights for Fno {
    /// Our own: the networks it can be have names that differ, and complex weights, which are pairs here. `scripts/fno_weights.py`
    /// converts their files in both directions.
    fn monai_name(path: &str) -> String {
        path.replace(".convolutions.", ".").replace(".conv.", ".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short() {
        for (path, expected) in [
            ("lift.convolutions.0.conv.weight", "lift.0.weight"),
            ("layers.0.spectral.values", "layers.0.spectral.values"),
            ("layers.2.pointwise.conv.bias", "layers.2.pointwise.bias"),
            ("projection.convolutions.1.conv.bias", "projection.1.bias"),
        ] {
            assert_eq!(Fno::monai_name(path), expected);
        }
    }
}
