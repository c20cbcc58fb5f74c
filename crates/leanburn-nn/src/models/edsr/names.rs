//! DiffSR's names of the parameters.

use super::model::Edsr;
use crate::weights::MonaiWeights;

impl MonaiWeights for Edsr {
    /// Those of DiffSR's `EDSR_net`, in which modules are numbered: every second one of the tail
    /// shuffles.
    fn monai_name(path: &str) -> String {
        match path.split('.').collect::<Vec<_>>()[..] {
            ["head", parameter] => format!("head.0.{parameter}"),
            ["body", block, "first", parameter] => format!("body.{block}.body.0.{parameter}"),
            ["body", block, "second", parameter] => format!("body.{block}.body.2.{parameter}"),
            ["tail", layer, "conv", parameter] => {
                format!("tail.0.{}.{parameter}", 2 * layer.parse::<usize>().unwrap_or_default())
            }
            ["last", parameter] => format!("tail.1.{parameter}"),
            _ => path.to_string(),
        }
    }
}
