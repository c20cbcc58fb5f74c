//! MONAI's names of the parameters, and the buffers that its files have besides.

use super::model::SwinUnetr;
use crate::blocks::{SwinBlock, UnetUpBlock};
use crate::weights::{IntegerBuffer, MonaiWeights};

/// MONAI's names of the encoders and decoders, in our order.
const ENCODERS: [&str; 4] = ["encoder1", "encoder2", "encoder3", "encoder4"];
const DECODERS: [&str; 5] = ["decoder5", "decoder4", "decoder3", "decoder2", "decoder1"];

/// A buffer that follows from the size of the window.
const INDEX: &str = ".relative_position_index";

impl MonaiWeights for SwinUnetr {
    fn monai_name(path: &str) -> String {
        let mut parts = path.splitn(3, '.');
        let (Some(module), Some(place), Some(parameter)) = (parts.next(), parts.next(), parts.next()) else {
            return path.to_string();
        };
        let number = place.parse::<usize>().unwrap_or_default();
        match module {
            "swin_vit" => format!("swinViT.{}", of_transformer(&format!("{place}.{parameter}"))),
            "encoders" => format!("{}.layer.{parameter}", ENCODERS[number]),
            "bottom" => format!("encoder10.layer.{place}.{parameter}"),
            "decoders" => format!("{}.{}", DECODERS[number], UnetUpBlock::monai_name(parameter)),
            "out" => format!("out.conv.{place}.{parameter}"),
            _ => path.to_string(),
        }
    }

    fn is_spare(name: &str) -> bool {
        name.ends_with(INDEX)
    }

    /// Where each pair of positions of a window has its bias; MONAI's strict loading asks for it.
    fn integer_buffers(&self) -> Vec<IntegerBuffer> {
        let buffer = |(path, block): (String, &SwinBlock)| {
            let values = block.attention().relative_positions();
            let tokens = values.len().isqrt();
            let name = format!("swinViT.{}.attn{INDEX}", of_transformer(&path));
            IntegerBuffer { name, shape: vec![tokens, tokens], values }
        };
        self.transformer().blocks().map(buffer).collect()
    }
}

impl MonaiWeights for UnetUpBlock {
    fn monai_name(path: &str) -> String {
        path.replace("transp_conv.", "transp_conv.conv.")
    }
}

/// The name of a parameter of the transformer.
fn of_transformer(path: &str) -> String {
    if let Some(parameter) = path.strip_prefix("patch_embed.conv.") {
        return format!("patch_embed.proj.{parameter}");
    }
    let mut parts = path.splitn(3, '.');
    let (Some("stages"), Some(stage), Some(parameter)) = (parts.next(), parts.next(), parts.next()) else {
        return path.to_string();
    };
    let number = stage.parse::<usize>().unwrap_or_default() + 1;
    match parameter.strip_prefix("entry.") {
        Some(parameter) => format!("layers{number}c.0.layer.{parameter}"),
        None => format!("layers{number}.0.{parameter}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_monai() {
        for (path, expected) in [
            ("swin_vit.patch_embed.conv.weight", "swinViT.patch_embed.proj.weight"),
            ("swin_vit.stages.0.blocks.1.attn.qkv.weight", "swinViT.layers1.0.blocks.1.attn.qkv.weight"),
            ("swin_vit.stages.3.downsample.norm.bias", "swinViT.layers4.0.downsample.norm.bias"),
            ("swin_vit.stages.1.entry.conv2.conv.weight", "swinViT.layers2c.0.layer.conv2.conv.weight"),
            ("encoders.3.conv1.conv.weight", "encoder4.layer.conv1.conv.weight"),
            ("bottom.conv1.conv.weight", "encoder10.layer.conv1.conv.weight"),
            ("decoders.0.transp_conv.weight", "decoder5.transp_conv.conv.weight"),
            ("decoders.4.conv_block.conv3.conv.weight", "decoder1.conv_block.conv3.conv.weight"),
            ("out.conv.weight", "out.conv.conv.weight"),
        ] {
            assert_eq!(SwinUnetr::monai_name(path), expected);
        }
    }
}
