//! The networks of [DiffSR](https://github.com/lizhihao2022/DiffSR) that are no operators: what `super::diffsr` has moved for a neural
//! operator, moved on to the system `super_resolution`, and the keys of their networks.

use super::diffsr::{at, list, put, take, text, with};
use crate::yaml::{Entry, Node, Value};

/// The system that these networks belong to.
const SYSTEM: &str = "super_resolution";

/// Names of networks.
pub(crate) const NAMES: [&str; 4] = ["SR3", "DDPM", "EDSR", "UNet2d"];

/// Keys of `model` that have a place in `super_resolution` under another name.
const MOVED: [(&str, &str); 9] = [
    ("in_channels", "in_channels"),
    ("init_features", "init_features"),
    ("hidden_channels", "hidden_channels"),
    ("n_res_blocks", "num_res_blocks"),
    ("upscale_factor", "upscale_factor"),
    ("inner_channel", "inner_channels"),
    ("res_blocks", "num_res_blocks"),
    ("norm_groups", "norm_num_groups"),
    ("dropout", "dropout"),
];

/// Keys of `model` that change no result: they follow from the others.
const WITHOUT_MEANING: [&str; 6] = ["out_channels", "out_channel", "channels", "n_iter", "conditional", "image_size"];

/// What DiffSR takes where a key is not written.
const INNER_CHANNEL: i128 = 32;
const IMAGE_SIZE: i128 = 128;

/// Moves the keys of a file whose network is one of these.
pub(super) fn settle(root: &mut Node) {
    let is_one = |name: &Node| NAMES.contains(&text(name));
    if !at(root, &["operator", "model"]).is_some_and(is_one) || at(root, &["model"]).is_none() {
        return;
    }
    if let Some(Entry { node: Node { value: Value::Section(entries), .. }, .. }) = take(root, &[], "operator") {
        entries.into_iter().for_each(|entry| {
            let key = entry.key.clone();
            put(root, &[SYSTEM, &key], entry);
        });
    }
    move_channels(root);
    move_noise(root);
    for (key, name) in MOVED {
        if let Some(entry) = take(root, &["model"], key) {
            put(root, &[SYSTEM, name], entry);
        }
    }
    let is_conditional =
        at(root, &["model", "conditional"]).is_none_or(|node| matches!(node.value, Value::Boolean(true)));
    for key in WITHOUT_MEANING.iter().filter(|key| **key != "conditional" || is_conditional) {
        take(root, &["model"], key);
    }
    let is_empty =
        at(root, &["model"]).is_some_and(|model| matches!(&model.value, Value::Section(keys) if keys.is_empty()));
    if is_empty {
        take(root, &[], "model");
    }
}

/// Multiples of the first channels become channels, resolutions with attention levels with it. `in_channel` counts the noisy field too.
fn move_channels(root: &mut Node) {
    let inner = at(root, &["model", "inner_channel"]).and_then(integer).unwrap_or(INNER_CHANNEL);
    let size = at(root, &["model", "image_size"]).and_then(integer).unwrap_or(IMAGE_SIZE);
    let resolutions = take(root, &["model"], "attn_res");
    if let Some(mut entry) = take(root, &["model"], "channel_mults") {
        let levels = list(&entry.node).len();
        if let (Some(resolutions), true) = (resolutions, levels > 0) {
            let attends = |level: usize| {
                let resolution = size.checked_shr(level as u32).unwrap_or(0);
                list(&resolutions.node).iter().any(|node| integer(node) == Some(resolution))
            };
            let attends = |level| Node { place: resolutions.node.place.clone(), value: Value::Boolean(attends(level)) };
            let levels = Value::List((0..levels).map(attends).collect());
            put(root, &[SYSTEM, "attention_levels"], with(&resolutions, levels));
        }
        if let Value::List(multiples) = &mut entry.node.value {
            multiples.iter_mut().for_each(|multiple| scale(multiple, inner));
        }
        put(root, &[SYSTEM, "num_channels"], entry);
    }
    if let Some(entry) = take(root, &["model"], "in_channel") {
        let value = integer(&entry.node)
            .map_or(entry.node.value.clone(), |channels| Value::Integer(channels.saturating_sub(1)));
        put(root, &[SYSTEM, "in_channels"], with(&entry, value));
    }
}

/// The loss, and the betas of training; those of validation are the same.
fn move_noise(root: &mut Node) {
    if let Some(entry) = take(root, &["model"], "loss_type") {
        let name =
            if text(&entry.node) == "lploss" { Value::Text("relative_l2".into()) } else { entry.node.value.clone() };
        put(root, &[SYSTEM, "training", "loss"], with(&entry, name));
    }
    if let Some(entry) = take(root, &["beta_schedule", "train"], "schedule") {
        let name =
            if text(&entry.node) == "linear" { Value::Text("linear_beta".into()) } else { entry.node.value.clone() };
        put(root, &[SYSTEM, "scheduler", "schedule"], with(&entry, name));
    }
    for (key, name) in
        [("n_timestep", "num_train_timesteps"), ("linear_start", "beta_start"), ("linear_end", "beta_end")]
    {
        if let Some(entry) = take(root, &["beta_schedule", "train"], key) {
            put(root, &[SYSTEM, "scheduler", name], entry);
        }
    }
    take(root, &[], "beta_schedule");
}

/// Multiplies an integer, where it is one.
fn scale(node: &mut Node, factor: i128) {
    if let Some(number) = integer(node) {
        node.value = Value::Integer(number.saturating_mul(factor));
    }
}

fn integer(node: &Node) -> Option<i128> {
    match node.value {
        Value::Integer(number) => Some(number),
        _ => None,
    }
}
