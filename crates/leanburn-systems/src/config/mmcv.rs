//! The keys of MMSegmentation's configurations, as the guide to nuScenes has them, moved to the sections here.

use super::entries::{find, put, remove};
use crate::bev::BevSection;
use crate::system::System;
use crate::table::NAMES;
use crate::yaml::{Entry, Node, Value};

/// What is trained where no system is named.
const SYSTEM: &str = BevSection::NAME;

/// The keys there, and where they belong here; `*` is the section of the system.
const KEYS: [(&[&str], &[&str]); 12] = [
    (&["data", "samples_per_gpu"], &["*", "training", "batch_size"]),
    (&["data", "workers_per_gpu"], &["scenes", "num_workers"]),
    (&["data_root"], &["scenes", "data_root"]),
    (&["optimizer", "type"], &["*", "training", "optimizer"]),
    (&["optimizer", "lr"], &["*", "training", "learning_rate"]),
    (&["optimizer", "betas"], &["*", "training", "betas"]),
    (&["optimizer", "weight_decay"], &["*", "training", "weight_decay"]),
    (&["optimizer_config", "grad_clip", "max_norm"], &["*", "training", "max_grad_norm"]),
    (&["lr_config", "warmup_iters"], &["*", "training", "warmup_steps"]),
    (&["runner", "max_iters"], &["*", "training", "max_steps"]),
    (&["runner", "accumulative_counts"], &["*", "training", "gradient_accumulation_steps"]),
    (&["fp16", "loss_scale"], &["device", "loss_scale"]),
];

/// Keys that say what is so anyway, and their values.
const SELF_EVIDENT: [(&[&str], &str); 1] = [(&["runner", "type"], "IterBasedRunner")];

/// Keys of which one tells such a configuration.
pub(crate) const TELLING: [&str; 2] = ["data.samples_per_gpu", "runner.max_iters"];

/// Moves the keys, each with its place, so that errors still point at it. What has no place here stays, and is then reported.
pub(super) fn settle(entries: &mut Vec<Entry>) {
    let named = NAMES.iter().find(|name| entries.iter().any(|entry| entry.key == **name));
    if named.is_none() && TELLING.iter().all(|key| find(entries, &key.split('.').collect::<Vec<_>>()).is_none()) {
        return;
    }
    let system = named.copied().unwrap_or(SYSTEM);
    if find(entries, &["fp16", "loss_scale"]).is_some() && !asks_for_a_precision(entries) {
        let place = find(entries, &["fp16"]).expect("it has a key").place.clone();
        let node = Node { place: place.clone(), value: Value::Boolean(true) };
        put(entries, &["device"], Entry { key: "mixed_precision".into(), place, node });
    }
    for (path, value) in SELF_EVIDENT {
        if find(entries, path).is_some_and(|entry| matches!(&entry.node.value, Value::Text(text) if text == value)) {
            remove(entries, path);
        }
    }
    for (path, place) in KEYS {
        let Some(mut entry) = find(entries, path).cloned() else { continue };
        let (name, sections) = place.split_last().expect("each has a name");
        let sections: Vec<&str> = sections.iter().map(|part| if *part == "*" { system } else { part }).collect();
        entry.key = name.to_string();
        if let (Value::Text(text), "optimizer") = (&mut entry.node.value, *name) {
            *text = text.to_lowercase();
        }
        if put(entries, &sections, entry) {
            remove(entries, path);
        }
    }
}

fn asks_for_a_precision(entries: &[Entry]) -> bool {
    ["precision", "mixed_precision"].iter().any(|key| find(entries, &["device", key]).is_some())
}
