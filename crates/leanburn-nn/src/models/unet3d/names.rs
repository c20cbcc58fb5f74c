//! MONAI's names of the parameters.

use super::model::UNet3d;
use crate::weights::MonaiWeights;

impl MonaiWeights for UNet3d {
    /// There a level is three modules: encoder, next level and decoder; here levels are numbered.
    fn monai_name(path: &str) -> String {
        let mut parts = path.splitn(4, '.');
        let (Some("levels"), Some(level), Some(side), Some(parameter)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return path.to_string();
        };
        let levels = ".1.submodule".repeat(level.parse().unwrap_or_default());
        let (side, parameter) = match (side, parameter.split_once('.')) {
            ("encoder", _) => (".0", parameter),
            ("decoder", Some(("upsample", parameter))) => (".2.0", parameter),
            ("decoder", Some(("unit", parameter))) => (".2.1", parameter),
            ("decoder", _) => (".2", parameter),
            _ => ("", parameter),
        };
        let renamed = [
            ("units.", "conv.unit"),
            ("conv.conv.", "conv."),
            ("residual.conv.", "residual."),
            ("adn.prelu.", "adn.A."),
            ("adn.norm.", "adn.N."),
        ];
        let parameter = renamed.iter().fold(parameter.to_string(), |name, (here, there)| name.replace(here, there));
        format!("model{levels}{side}.{parameter}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_monai() {
        for (path, expected) in [
            ("levels.0.encoder.conv.conv.weight", "model.0.conv.weight"),
            ("levels.1.encoder.adn.prelu.weight", "model.1.submodule.0.adn.A.weight"),
            ("levels.0.encoder.units.1.conv.conv.bias", "model.0.conv.unit1.conv.bias"),
            ("levels.0.encoder.residual.conv.weight", "model.0.residual.weight"),
            ("levels.2.bottom.units.0.adn.norm.bias", "model.1.submodule.1.submodule.conv.unit0.adn.N.bias"),
            ("levels.1.decoder.conv.weight", "model.1.submodule.2.conv.weight"),
            ("levels.0.decoder.upsample.conv.weight", "model.2.0.conv.weight"),
            ("levels.0.decoder.unit.units.0.conv.conv.weight", "model.2.1.conv.unit0.conv.weight"),
        ] {
            assert_eq!(UNet3d::monai_name(path), expected);
        }
    }
}
