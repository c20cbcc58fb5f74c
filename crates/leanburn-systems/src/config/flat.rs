//! The guides' flat keys: what stands at the top there, moved to the sections here.

use super::entries::put;
use super::{diffsr, diffsr_networks, mmcv};
use crate::table::SYSTEMS;
use crate::yaml::{Entry, Node, Value};

/// Keys of every guide, the section that each belongs in (`*` is that of the system), and its path or name there.
const SHARED: [(&str, &str, &str); 6] = [
    ("use_amp", "device", "mixed_precision"),
    ("batch_size", "*", "training"),
    ("gradient_accumulation_steps", "*", "training"),
    ("learning_rate", "*", "training"),
    ("max_steps", "*", "training"),
    ("max_epochs", "*", "training"),
];

/// Moves the guides' flat keys of systems other than the autoencoder, each with its place, so that errors still point at it.
///
/// A key stays where it is if its section has it already, unless it is an override, which wins.
pub(super) fn settle(root: &mut Node) {
    diffsr::settle(root);
    diffsr_networks::settle(root);
    let Value::Section(entries) = &mut root.value else { return };
    mmcv::settle(entries);
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    if has("autoencoder") {
        return;
    }
    let is_told = |system: &&crate::table::Entry| system.flat_keys.iter().any(|flat| flat.is_telling && has(flat.key));
    let Some(system) = SYSTEMS.iter().find(is_told).or(SYSTEMS.iter().find(|system| has(system.name))) else { return };
    for flat in SYSTEMS.iter().flat_map(|system| system.flat_keys) {
        relocate(entries, flat.key, &[flat.section], flat.key);
    }
    for (key, section, below) in SHARED {
        match section {
            "*" => relocate(entries, key, &[system.name, below], key),
            section => relocate(entries, key, &[section], below),
        }
    }
}

/// Moves a key at the top, if it is there, into a section under another name.
fn relocate(entries: &mut Vec<Entry>, key: &str, path: &[&str], name: &str) {
    let Some(at) = entries.iter().rposition(|entry| entry.key == key) else { return };
    let mut entry = entries[at].clone();
    entry.key = name.to_string();
    if put(entries, path, entry) {
        entries.remove(at);
    }
}
