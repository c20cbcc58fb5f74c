//! DiffSR's names of the parameters.

use super::model::Sr3UNet;
use crate::weights::MonaiWeights;

impl MonaiWeights for Sr3UNet {
    /// Those of DiffSR's `SR3`, as MONAI has no such model. Lists of modules are structs here.
    fn monai_name(path: &str) -> String {
        let renamed = [
            (".conv.", "."),
            (".resample.", ".conv."),
            ("noise_level_mlp.first.", "noise_level_mlp.1."),
            ("noise_level_mlp.second.", "noise_level_mlp.3."),
            (".noise_func.", ".noise_func.noise_func.0."),
            ("block1.norm.", "block1.block.0."),
            ("block1.last.", "block1.block.3."),
            ("block2.norm.", "block2.block.0."),
            ("block2.last.", "block2.block.3."),
            ("final_conv.norm.", "final_conv.block.0."),
            ("final_conv.last.", "final_conv.block.3."),
        ];
        renamed.iter().fold(path.to_string(), |name, (here, there)| name.replace(here, there))
    }

    /// The name in its `DDPM`.
    fn legacy_name(name: &str) -> Option<String> {
        let renamed = [("noise_level_mlp.", "time_mlp."), (".noise_func.noise_func.0.", ".mlp.1.")];
        let (sr3, ddpm) = renamed.into_iter().find(|(sr3, _)| name.contains(sr3))?;
        Some(name.replace(sr3, ddpm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_diffsr() {
        for (path, expected) in [
            ("downs.0.weight", "downs.0.weight"),
            ("downs.0.conv.weight", "downs.0.weight"),
            ("downs.3.resample.bias", "downs.3.conv.bias"),
            ("downs.3.resample.conv.bias", "downs.3.conv.bias"),
            ("downs.1.res_block.noise_func.weight", "downs.1.res_block.noise_func.noise_func.0.weight"),
            ("mid.0.res_block.block1.last.weight", "mid.0.res_block.block1.block.3.weight"),
            ("mid.0.attn.qkv.conv.weight", "mid.0.attn.qkv.weight"),
            ("ups.2.res_block.block2.norm.bias", "ups.2.res_block.block2.block.0.bias"),
            ("noise_level_mlp.second.bias", "noise_level_mlp.3.bias"),
            ("final_conv.last.conv.weight", "final_conv.block.3.weight"),
        ] {
            assert_eq!(Sr3UNet::monai_name(path), expected);
        }
        let of_time = Sr3UNet::legacy_name("downs.1.res_block.noise_func.noise_func.0.weight");
        assert_eq!(of_time.as_deref(), Some("downs.1.res_block.mlp.1.weight"));
        assert_eq!(Sr3UNet::legacy_name("noise_level_mlp.1.bias").as_deref(), Some("time_mlp.1.bias"));
        assert_eq!(Sr3UNet::legacy_name("downs.0.weight"), None);
    }
}
