//! MONAI's names of the parameters, present and past.

use super::model::DiffusionUNet3d;
use crate::weights::MonaiWeights;

impl MonaiWeights for DiffusionUNet3d {
    /// Our names are MONAI's but for lists that are structs here.
    fn monai_name(path: &str) -> String {
        let renamed = [
            ("time_embed.first.", "time_embed.0."),
            ("time_embed.second.", "time_embed.2."),
            ("out.final_norm.", "out.0."),
            ("out.final_conv.", "out.2."),
            (".downsampler.conv.conv.", ".downsampler.op.conv."),
        ];
        renamed.iter().fold(path.to_string(), |name, (here, there)| name.replace(here, there))
    }

    fn legacy_name(monai_name: &str) -> Option<String> {
        let renamed = [
            (".attn1.out_proj.", ".attn1.to_out.0."),
            (".attn2.out_proj.", ".attn2.to_out.0."),
            (".attn.to_", ".to_"),
            (".attn.out_proj.", ".proj_attn."),
            (".postconv.", ".conv."),
        ];
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
            ("time_embed.first.weight", "time_embed.0.weight"),
            ("time_embed.second.bias", "time_embed.2.bias"),
            ("out.final_norm.weight", "out.0.weight"),
            ("out.final_conv.conv.bias", "out.2.conv.bias"),
            ("down_blocks.0.downsampler.conv.conv.weight", "down_blocks.0.downsampler.op.conv.weight"),
            ("down_blocks.0.downsampler.conv1.conv.weight", "down_blocks.0.downsampler.conv1.conv.weight"),
            ("up_blocks.1.attentions.0.attn.out_proj.bias", "up_blocks.1.attentions.0.attn.out_proj.bias"),
        ] {
            assert_eq!(DiffusionUNet3d::monai_name(path), expected);
        }
    }

    #[test]
    fn legacy_names_are_those_of_generative_models() {
        for (name, expected) in [
            ("down_blocks.1.attentions.0.attn.to_q.weight", Some("down_blocks.1.attentions.0.to_q.weight")),
            ("middle_block.attention.attn.out_proj.bias", Some("middle_block.attention.proj_attn.bias")),
            ("a.transformer_blocks.0.attn1.out_proj.bias", Some("a.transformer_blocks.0.attn1.to_out.0.bias")),
            ("a.transformer_blocks.0.attn2.out_proj.bias", Some("a.transformer_blocks.0.attn2.to_out.0.bias")),
            ("up_blocks.0.upsampler.postconv.conv.weight", Some("up_blocks.0.upsampler.conv.conv.weight")),
            ("a.transformer_blocks.0.attn2.to_q.weight", None),
        ] {
            assert_eq!(DiffusionUNet3d::legacy_name(name).as_deref(), expected);
        }
    }
}
