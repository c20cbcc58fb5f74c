//! Whether a configuration asks for half precision.

use serde_json::Value;

use super::document::Document;
use crate::shared::LossScale;

/// Where the switch may stand.
const SWITCHES: [&str; 7] =
    ["fp16.enabled", "fp16", "use_fp16", "amp", "train.fp16", "training.fp16", "device.mixed_precision"];

/// Where the scale of the loss may stand.
const SCALES: [&str; 7] = [
    "fp16.loss_scale",
    "loss_scale",
    "train.loss_scale",
    "training.loss_scale",
    "model.loss_scale",
    "optimize.loss_scale",
    "device.loss_scale",
];

/// Whether anything is said of half precision outside of our own `device` section.
pub(super) fn is_named(document: Document<'_>) -> bool {
    SWITCHES.iter().chain(&SCALES).any(|key| !key.starts_with("device.") && document.has(key))
}

/// Whether half precision is on, and what the loss is multiplied by in f16.
pub(super) fn read(document: Document<'_>) -> (bool, Option<LossScale>) {
    let name = document.text(&["device.precision"]);
    let switch = SWITCHES.iter().find_map(|key| document.at(key)?.as_bool());
    let scale = SCALES.iter().find_map(|key| scale(document.at(key)?));
    let by_name = name.map(|name| matches!(name, "f16" | "bf16"));
    let is_on = by_name.or(switch).unwrap_or(scale.is_some() || document.has("fp16"));
    // bf16 has the range of f32 and no use for a scale
    (is_on, scale.filter(|_| is_on && name != Some("bf16")))
}

fn scale(value: &Value) -> Option<LossScale> {
    match value.as_f64() {
        // how DeepSpeed writes it; Apex and we write the word
        Some(0.0) => Some(LossScale::Dynamic),
        Some(scale) => (scale > 0.0).then_some(LossScale::Static(scale)),
        None => (value.as_str() == Some("dynamic")).then_some(LossScale::Dynamic),
    }
}
