//! MONAI's names of the parameters.

use super::model::DynUnet;
use crate::blocks::UnetUpBlock;
use crate::weights::MonaiWeights;

impl MonaiWeights for DynUnet {
    fn monai_name(path: &str) -> String {
        match path.split_once('.') {
            Some(("upsamples", parameter)) => format!("upsamples.{}", UnetUpBlock::monai_name(parameter)),
            Some(("output_block", parameter)) => format!("output_block.conv.{parameter}"),
            _ => path.to_string(),
        }
    }

    /// MONAI has each parameter once more under the layer that joins encoder and decoder, and heads for training.
    fn is_spare(name: &str) -> bool {
        name.starts_with("skip_layers.") || name.starts_with("deep_supervision_heads.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_monai() {
        for (path, expected) in [
            ("input_block.conv1.conv.weight", "input_block.conv1.conv.weight"),
            ("downsamples.1.norm2.bias", "downsamples.1.norm2.bias"),
            ("upsamples.0.transp_conv.weight", "upsamples.0.transp_conv.conv.weight"),
            ("upsamples.1.conv_block.conv1.conv.weight", "upsamples.1.conv_block.conv1.conv.weight"),
            ("output_block.conv.bias", "output_block.conv.conv.bias"),
        ] {
            assert_eq!(DynUnet::monai_name(path), expected);
        }
        assert!(DynUnet::is_spare("skip_layers.downsample.conv1.conv.weight"));
        assert!(DynUnet::is_spare("deep_supervision_heads.0.conv.conv.weight"));
    }
}
