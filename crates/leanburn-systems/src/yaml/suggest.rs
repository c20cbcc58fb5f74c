//! The key that was probably meant.

use std::collections::BTreeSet;

use leanburn_common::nearest;

/// What to do about an unknown `key` of `section`, given all paths that the schema knows and the sections of the systems.
pub(crate) fn for_key(section: &str, key: &str, known: &BTreeSet<String>, systems: &[&str]) -> String {
    let path = join(section, key);
    if section.is_empty() && systems.contains(&key) {
        return format!("a run trains one system: keep one of the sections {}", systems.join(", "));
    }
    if section.is_empty() && key == "sequence" {
        return "it is what a forecaster is trained on: add `forecaster:`, or use `data:` for volumes".to_owned();
    }
    if let Some(advice) = foreign(key) {
        return advice.to_owned();
    }
    let homes: Vec<&str> = known.iter().filter(|path| leaf(path) == key).map(|path| parent(path)).collect();
    if !homes.is_empty() {
        let homes: Vec<String> = homes.into_iter().map(place_name).collect();
        return format!("`{key}` belongs in {}: move it there", homes.join(" or "));
    }
    let siblings = || known.iter().filter(|path| parent(path) == section).map(|path| leaf(path));
    if let Some(near) = nearest(key, siblings()) {
        return format!("did you mean `{near}`?");
    }
    let near =
        nearest(key, known.iter().map(|path| leaf(path))).and_then(|near| known.iter().find(|path| leaf(path) == near));
    match near {
        Some(near) => format!("did you mean `{}`? It belongs in {}", leaf(near), place_name(parent(near))),
        None => format!("remove `{path}`; the keys here are {}", siblings().collect::<Vec<_>>().join(", ")),
    }
}

/// Keys of PyTorch training scripts that have no meaning here, and what to do instead.
fn foreign(key: &str) -> Option<&'static str> {
    match key {
        "pin_memory" => Some("remove it: it belongs to PyTorch's data loader, and transfers need no such setting here"),
        "n_epochs" | "num_epochs" | "epochs" | "max_epochs" => {
            Some("set max_epochs, or max_steps in optimizer steps, in the section `training`")
        }
        "subset" => {
            Some("no part of the fields is drawn here: train on fewer by a larger `val_fraction`, or by another file")
        }
        "normalizer_type" => Some("write `PGN`, by which each place is normalized, or `GN`, by which each channel is"),
        "schedule" => {
            Some("the learning rate falls by `lr_schedule` of the section `training`: set it, to `constant` for none")
        }
        "downsample_factors" | "initial_downsample_factor" => {
            Some("remove it: levels here halve each axis; for a factor of 4 add a level to `num_channels`")
        }
        "spatial_dims" => Some("remove it: models here have three spatial dimensions"),
        _ => None,
    }
}

/// `section.key`, or the key alone at the top.
pub(crate) fn join(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

/// The path of the section that a key stands in.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(parent, _)| parent)
}

/// The key at the end of a path.
fn leaf(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, leaf)| leaf)
}

/// A section in words.
fn place_name(section: &str) -> String {
    if section.is_empty() { "the top level".into() } else { format!("`{section}`") }
}
