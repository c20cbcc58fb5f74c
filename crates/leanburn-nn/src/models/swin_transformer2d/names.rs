//! torchvision's names of the parameters, those of the authors, and the buffers that files have besides.

use super::model::SwinTransformer2d;
use crate::weights::{IntegerBuffer, MonaiWeights};

/// A buffer that follows from the size of the window.
const INDEX: &str = ".relative_position_index";

/// The names are torchvision's, as MONAI has no such model. Files with the names of the
/// [authors' repository](https://github.com/microsoft/Swin-Transformer) are read too, and MMSegmentation's by way of `scripts/swin_weights.py`. The classifier of a file is left out.
impl MonaiWeights for SwinTransformer2d {
    fn monai_name(path: &str) -> String {
        match path.split('.').collect::<Vec<_>>()[..] {
            ["patch_embed", ref rest @ ..] => format!("features.0.0.{}", rest.join(".")),
            ["patch_norm", ref rest @ ..] => format!("features.0.2.{}", rest.join(".")),
            ["stages", stage, "blocks", block, ref rest @ ..] => {
                let rest = rest.join(".").replace("linear1", "0").replace("linear2", "3");
                format!("features.{}.{block}.{rest}", 2 * number(stage) + 1)
            }
            ["stages", stage, "merging", ref rest @ ..] => {
                format!("features.{}.{}", 2 * number(stage) + 2, rest.join("."))
            }
            _ => path.to_string(),
        }
    }

    /// The name in the authors' repository.
    fn legacy_name(name: &str) -> Option<String> {
        let (place, rest) = name.strip_prefix("features.")?.split_once('.')?;
        let stage = number(place).saturating_sub(1) / 2;
        Some(match (place, rest.split_once('.')?) {
            ("0", ("0", parameter)) => format!("patch_embed.proj.{parameter}"),
            ("0", (_, parameter)) => format!("patch_embed.norm.{parameter}"),
            (place, (block, parameter)) if number(place) % 2 == 1 => {
                let parameter = parameter.replace("mlp.0", "mlp.fc1").replace("mlp.3", "mlp.fc2");
                format!("layers.{stage}.blocks.{block}.{parameter}")
            }
            _ => format!("layers.{stage}.downsample.{rest}"),
        })
    }

    fn is_spare(name: &str) -> bool {
        name.ends_with(INDEX) || name.ends_with(".attn_mask") || name.starts_with("head.")
    }

    fn integer_buffers(&self) -> Vec<IntegerBuffer> {
        let buffer = |(path, block): (String, &crate::blocks::SwinBlock)| {
            let values = block.attention().relative_positions();
            let name = Self::monai_name(&format!("{path}.attn{INDEX}"));
            IntegerBuffer { name, shape: vec![values.len()], values }
        };
        self.blocks().map(buffer).collect()
    }
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_torchvision_and_of_the_authors() {
        for (path, torchvision, authors) in [
            ("patch_embed.weight", "features.0.0.weight", "patch_embed.proj.weight"),
            ("patch_norm.bias", "features.0.2.bias", "patch_embed.norm.bias"),
            ("stages.0.blocks.1.norm1.weight", "features.1.1.norm1.weight", "layers.0.blocks.1.norm1.weight"),
            ("stages.2.blocks.5.attn.qkv.bias", "features.5.5.attn.qkv.bias", "layers.2.blocks.5.attn.qkv.bias"),
            ("stages.1.blocks.0.mlp.linear1.weight", "features.3.0.mlp.0.weight", "layers.1.blocks.0.mlp.fc1.weight"),
            ("stages.1.blocks.0.mlp.linear2.weight", "features.3.0.mlp.3.weight", "layers.1.blocks.0.mlp.fc2.weight"),
            (
                "stages.1.merging.reduction.weight",
                "features.4.reduction.weight",
                "layers.1.downsample.reduction.weight",
            ),
        ] {
            assert_eq!(SwinTransformer2d::monai_name(path), torchvision);
            assert_eq!(SwinTransformer2d::legacy_name(torchvision).as_deref(), Some(authors));
        }
        assert_eq!(SwinTransformer2d::monai_name("norm.weight"), "norm.weight");
        assert_eq!(SwinTransformer2d::legacy_name("norm.weight"), None);
    }
}
