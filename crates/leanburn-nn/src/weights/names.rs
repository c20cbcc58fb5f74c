//! From the names of our parameters to MONAI's, present and past.

use burn::module::Module;

use crate::models::{AutoencoderKl, MultiScalePatchDiscriminator, PatchDiscriminator};

/// A model that MONAI, or another implementation in PyTorch, has too.
pub trait MonaiWeights: Module {
    /// That implementation's name of the parameter at `path` (names of fields, joined by dots).
    fn monai_name(path: &str) -> String;

    /// The name the parameter had in GenerativeModels, if another; given MONAI's name.
    fn legacy_name(_monai_name: &str) -> Option<String> {
        None
    }

    /// Whether files hold this name, the other implementation's, and the model has no use for it.
    fn is_spare(_name: &str) -> bool {
        false
    }
}

impl MonaiWeights for AutoencoderKl {
    /// Our names are MONAI's but for the last norm and convolution, two blocks there and one segment here.
    fn monai_name(path: &str) -> String {
        if let Some((block, parameter)) = path.split_once(".final_norm.") {
            return format!("{block}.{parameter}");
        }
        match path.split_once(".final_conv.").and_then(|(block, parameter)| Some((block.rsplit_once('.')?, parameter)))
        {
            Some(((blocks, index), parameter)) => {
                let next = index.parse::<usize>().map_or(0, |index| index + 1);
                format!("{blocks}.{next}.{parameter}")
            }
            None => path.to_string(),
        }
    }

    fn legacy_name(monai_name: &str) -> Option<String> {
        let renamed = [(".attn.to_", ".to_"), (".attn.out_proj.", ".proj_attn."), (".postconv.", ".conv.")];
        let (today, before) = renamed.into_iter().find(|(today, _)| monai_name.contains(today))?;
        Some(monai_name.replace(today, before))
    }
}

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
            ("encoder.blocks.9.final_norm.weight", "encoder.blocks.9.weight"),
            ("encoder.blocks.9.final_conv.conv.bias", "encoder.blocks.10.conv.bias"),
            ("decoder.blocks.3.norm.weight", "decoder.blocks.3.norm.weight"),
            ("quant_conv_mu.conv.weight", "quant_conv_mu.conv.weight"),
        ] {
            assert_eq!(AutoencoderKl::monai_name(path), expected);
        }
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

    #[test]
    fn legacy_names_are_those_of_generative_models() {
        for (name, expected) in [
            ("encoder.blocks.5.attn.to_q.weight", Some("encoder.blocks.5.to_q.weight")),
            ("encoder.blocks.5.attn.out_proj.bias", Some("encoder.blocks.5.proj_attn.bias")),
            ("decoder.blocks.6.postconv.conv.weight", Some("decoder.blocks.6.conv.conv.weight")),
            ("decoder.blocks.6.conv1.conv.weight", None),
        ] {
            assert_eq!(AutoencoderKl::legacy_name(name).as_deref(), expected);
        }
    }
}
