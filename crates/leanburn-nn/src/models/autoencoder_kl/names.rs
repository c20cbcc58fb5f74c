//! MONAI's names of the parameters, present and past.

use super::model::AutoencoderKl;
use crate::weights::MonaiWeights;

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
