//! The guides' flat keys: what stands at the top there, moved to the sections here.

use super::mistake::Place;
use super::system::SYSTEMS;
use super::tree::{Entry, Node, Value};

/// Keys at the top, and where they belong; `*` is the section of the system.
const HOMES: [(&str, &str, &str); 11] = [
    ("vae_type", "vae3d", ""),
    ("model_type", "forecaster", ""),
    ("hidden_channels", "forecaster", ""),
    ("input_days", "sequence", ""),
    ("predict_days", "sequence", ""),
    ("use_channels", "sequence", ""),
    ("use_amp", "device", "mixed_precision"),
    ("batch_size", "*", "training"),
    ("gradient_accumulation_steps", "*", "training"),
    ("learning_rate", "*", "training"),
    ("max_steps", "*", "training"),
];

/// Moves the guides' flat keys of systems other than the autoencoder, each with its place, so that mistakes still point at it.
///
/// A key stays where it is if its section has it already, unless it is an override, which wins.
pub(super) fn settle(root: &mut Node) {
    let Value::Section(entries) = &root.value else { return };
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    let system = match (has("vae_type"), has("model_type") || has("input_days")) {
        _ if has("autoencoder") => return,
        (true, _) => "vae3d",
        (_, true) => "forecaster",
        _ => match SYSTEMS.into_iter().find(|system| has(system)) {
            Some(system) => system,
            None => return,
        },
    };
    let Value::Section(entries) = &mut root.value else { return };
    for (key, section, below) in HOMES {
        let Some(at) = entries.iter().rposition(|entry| entry.key == key) else { continue };
        let section = if section == "*" { system } else { section };
        let (path, name) = match (section, below) {
            ("device", name) => (vec![section], name),
            (_, "") => (vec![section], key),
            (_, below) => (vec![section, below], key),
        };
        let mut entry = entries[at].clone();
        entry.key = name.to_string();
        if put(entries, &path, entry) {
            entries.remove(at);
        }
    }
}

/// Puts an entry into a section below, which is made if it is not there; false if it may not.
fn put(entries: &mut Vec<Entry>, path: &[&str], entry: Entry) -> bool {
    let Some((first, below)) = path.split_first() else {
        let is_override = matches!(entry.place, Place::Override(_));
        match entries.iter().position(|there| there.key == entry.key) {
            Some(at) if is_override => entries[at] = entry,
            Some(_) => return false,
            None => entries.push(entry),
        }
        return true;
    };
    if !entries.iter().any(|there| there.key == *first) {
        let node = Node { place: entry.place.clone(), value: Value::Null };
        entries.push(Entry { key: first.to_string(), place: entry.place.clone(), node });
    }
    let section = entries.iter_mut().rfind(|there| there.key == *first).expect("it was just made");
    if matches!(section.node.value, Value::Null) {
        section.node.value = Value::Section(Vec::new());
    }
    match &mut section.node.value {
        Value::Section(entries) => put(entries, below, entry),
        _ => false,
    }
}
