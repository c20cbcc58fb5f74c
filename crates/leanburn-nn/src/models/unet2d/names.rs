//! DiffSR's names of the parameters.

use super::config::LEVELS;
use super::model::UNet2d;
use crate::weights::MonaiWeights;

impl MonaiWeights for UNet2d {
    /// Those of DiffSR's `UNet2d`, which counts levels from 1.
    fn monai_name(path: &str) -> String {
        let number = |level: &str| level.parse::<usize>().unwrap_or_default() + 1;
        match path.split('.').collect::<Vec<_>>()[..] {
            ["encoders", level, layer, parameter] if number(level) > LEVELS => {
                format!("bottleneck.bottleneck{layer}.{parameter}")
            }
            ["encoders", level, layer, parameter] => {
                let level = number(level);
                format!("encoder{level}.enc{level}{layer}.{parameter}")
            }
            ["decoders", level, "upconv", parameter] => format!("upconv{}.{parameter}", number(level)),
            ["decoders", level, "block", layer, parameter] => {
                let level = number(level);
                format!("decoder{level}.dec{level}{layer}.{parameter}")
            }
            ["out", parameter] => format!("conv.{parameter}"),
            _ => path.to_string(),
        }
    }
}
