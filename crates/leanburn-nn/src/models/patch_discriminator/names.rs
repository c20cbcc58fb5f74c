//! MONAI's names of the parameters.

use super::model::PatchDiscriminator;
use super::multi_scale::MultiScalePatchDiscriminator;
use crate::weights::MonaiWeights;

impl MonaiWeights for PatchDiscriminator {
    fn monai_name(path: &str) -> String {
        let path = path.strip_prefix("layers.").unwrap_or(path);
        path.replace(".conv.conv.", ".conv.").replace(".norm.", ".adn.N.")
    }
}

impl MonaiWeights for MultiScalePatchDiscriminator {
    fn monai_name(path: &str) -> String {
        let scale = path.strip_prefix("discriminators.").and_then(|rest| rest.split_once('.'));
        match scale {
            Some((scale, path)) => format!("discriminator_{scale}.{}", PatchDiscriminator::monai_name(path)),
            None => path.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_monai() {
        for (path, expected) in [
            ("layers.1.conv.conv.weight", "1.conv.weight"),
            ("layers.0.norm.running_mean", "0.adn.N.running_mean"),
            ("initial_conv.conv.conv.bias", "initial_conv.conv.bias"),
            ("final_conv.conv.bias", "final_conv.conv.bias"),
        ] {
            assert_eq!(PatchDiscriminator::monai_name(path), expected);
            let scaled = MultiScalePatchDiscriminator::monai_name(&format!("discriminators.2.{path}"));
            assert_eq!(scaled, format!("discriminator_2.{expected}"));
        }
    }
}
