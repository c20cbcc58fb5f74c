//! Names of the parameters as the guide's repository has them; those of the backbone are torchvision's.

use super::diffusion_head::BevDiffusionHead;
use super::lift::Lift;
use super::model::LiftSplatShoot;
use super::pyramid_head::PyramidHead;
use crate::models::SwinTransformer2d;
use crate::weights::{IntegerBuffer, MonaiWeights};

/// The backbone's are those of [`SwinTransformer2d`], behind `backbone.`.
impl MonaiWeights for LiftSplatShoot {
    fn monai_name(path: &str) -> String {
        match path.split_once('.') {
            Some(("backbone", rest)) => format!("backbone.{}", SwinTransformer2d::monai_name(rest)),
            Some(("lift", rest)) => format!("transformer.{}", Lift::monai_name(rest)),
            Some(("head", rest)) => format!("decode_head.{}", PyramidHead::monai_name(rest)),
            Some(("diffusion", rest)) => format!("decode_head.{}", BevDiffusionHead::monai_name(rest)),
            _ => path.to_string(),
        }
    }

    fn legacy_name(name: &str) -> Option<String> {
        let legacy = SwinTransformer2d::legacy_name(name.strip_prefix("backbone.")?)?;
        Some(format!("backbone.{legacy}"))
    }

    /// The frustum and the schedule of the noise follow from the configuration.
    fn is_spare(name: &str) -> bool {
        let backbone = name.strip_prefix("backbone.").is_some_and(SwinTransformer2d::is_spare);
        let buffer = ["transformer.dx", "transformer.bx", "transformer.nx", "transformer.frustum"].contains(&name);
        backbone || buffer || ["decode_head.betas", "decode_head.alphas_cumprod"].contains(&name)
    }

    fn integer_buffers(&self) -> Vec<IntegerBuffer> {
        let named = |buffer: IntegerBuffer| IntegerBuffer { name: format!("backbone.{}", buffer.name), ..buffer };
        self.backbone().integer_buffers().into_iter().map(named).collect()
    }
}

impl MonaiWeights for Lift {
    fn monai_name(path: &str) -> String {
        path.to_string()
    }
}

impl MonaiWeights for PyramidHead {
    fn monai_name(path: &str) -> String {
        path.to_string()
    }
}

/// Those of the modules that PyTorch puts one behind the other: a convolution, its norm, an activation.
impl MonaiWeights for BevDiffusionHead {
    fn monai_name(path: &str) -> String {
        if let Some(parameter) = path.strip_prefix("fuse_attn.in_proj.") {
            return format!("fuse_attn.in_proj_{parameter}");
        }
        match path.split('.').collect::<Vec<_>>()[..] {
            [encoder @ ("xt_encoder" | "cond_proj"), part, parameter] => {
                format!("{encoder}.{}.{parameter}", place(part))
            }
            ["noise_pred", "0", part, parameter] => format!("noise_pred.{}.{parameter}", place(part)),
            ["noise_pred", _, parameter] => format!("noise_pred.3.{parameter}"),
            _ => path.to_string(),
        }
    }
}

fn place(part: &str) -> usize {
    usize::from(part == "norm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_guides_repository() {
        for (path, expected) in [
            ("backbone.stages.0.blocks.1.attn.qkv.bias", "backbone.features.1.1.attn.qkv.bias"),
            ("lift.depthnet.weight", "transformer.depthnet.weight"),
            ("head.topdown.1.0.downsample.0.weight", "decode_head.topdown.1.0.downsample.0.weight"),
            ("head.classifier.bias", "decode_head.classifier.bias"),
            ("diffusion.xt_encoder.conv.weight", "decode_head.xt_encoder.0.weight"),
            ("diffusion.cond_proj.norm.bias", "decode_head.cond_proj.1.bias"),
            ("diffusion.fuse_attn.in_proj.weight", "decode_head.fuse_attn.in_proj_weight"),
            ("diffusion.fuse_attn.out_proj.bias", "decode_head.fuse_attn.out_proj.bias"),
            ("diffusion.noise_pred.0.norm.weight", "decode_head.noise_pred.1.weight"),
            ("diffusion.noise_pred.1.weight", "decode_head.noise_pred.3.weight"),
        ] {
            assert_eq!(LiftSplatShoot::monai_name(path), expected);
        }
        let authors = LiftSplatShoot::legacy_name("backbone.features.1.1.attn.qkv.bias");
        assert_eq!(authors.as_deref(), Some("backbone.layers.0.blocks.1.attn.qkv.bias"));
        assert!(
            LiftSplatShoot::is_spare("transformer.frustum") && !LiftSplatShoot::is_spare("transformer.depthnet.bias")
        );
    }
}
