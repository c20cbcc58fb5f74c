//! Files of the guides that have all stages of a training: one stage of them as a configuration.
//!
//! The programs of two guides read one file, each the sections of its stage. Here a configuration is one stage. So what such a file says of a
//! stage is moved to where it belongs here, each value with its place; what has no meaning here is left out, with a note where somebody might
//! miss it. What nobody knows stays, and is an unknown key.
//!
//! - `volumes.rs`: `autoencoder` and `diffusion`, the files `ldm_config_*.yaml`.
//! - `radar.rs`: `vae`, `ldm` and `cd`.

mod radar;
mod volumes;

use leanburn_common::ValidationError;

use crate::yaml::{ConfigError, ConfigErrorKind, Entry, Node, Place, Value, put};

/// The key that chooses a stage.
const STAGE: &str = "stage";

/// What was found in a file of several stages.
#[derive(Debug, Default)]
pub(super) struct Staged {
    /// What is left out, for people.
    pub notes: Vec<String>,
    /// What two stages contradict each other in.
    pub contradictions: Vec<ValidationError>,
}

/// Makes one stage of a file that has several: the one that an override `stage=NAME` names, by its name or its number from 1, or else the last
/// one. Takes that override out of the others. Nothing changes in a file of one stage.
///
/// # Errors
///
/// A stage that the file does not have.
pub(super) fn settle(root: &mut Node, overrides: &mut Vec<String>) -> Result<Staged, Box<ConfigError>> {
    let has = |key: &str| at(root, key).is_some();
    let (stages, translate): (&[&str], fn(&mut Translation, &str)) = if has("autoencoder") && has("diffusion") {
        (&volumes::STAGES, volumes::translate)
    } else if has("ldm") {
        (&radar::STAGES, radar::translate)
    } else {
        return Ok(Staged::default());
    };
    let chosen = overrides.iter().position(|text| text.split('=').next().is_some_and(|key| key.trim() == STAGE));
    let chosen = chosen.map(|index| overrides.remove(index));
    let named = chosen.as_ref().and_then(|text| text.split_once('=')).map(|(_, name)| name.trim());
    let there: Vec<&str> = stages.iter().copied().filter(|stage| has(stage)).collect();
    let last = there.last().copied().unwrap_or_default();
    let numbered = named.and_then(|name| stages.get(name.parse::<usize>().ok()?.checked_sub(1)?).copied());
    let stage = numbered.or(named).unwrap_or(last);
    if !there.contains(&stage) {
        let (expected, place) =
            (format!("one of {}", there.join(", ")), Place::Override(chosen.clone().unwrap_or_default()));
        let help = format!("write `--set stage={last}`, or leave it out for the last one");
        return Err(ConfigError::without_key(ConfigErrorKind::Override, place, format!("`{stage}`"), &expected, &help));
    }
    let mut translation =
        Translation { old: std::mem::replace(root, Node::empty()), new: Node::empty(), found: Staged::default() };
    let others: Vec<&str> = there.iter().copied().filter(|other| *other != stage).collect();
    translation.note(&format!("this is the stage `{stage}`; for {} use `--set stage=...`", others.join(" and ")));
    translate(&mut translation, stage);
    let Translation { old, mut new, found } = translation;
    keep(old, &mut new, &mut Vec::new());
    *root = new;
    Ok(found)
}

/// A file, and what it becomes.
struct Translation {
    old: Node,
    new: Node,
    found: Staged,
}

impl Translation {
    fn note(&mut self, note: &str) {
        self.found.notes.push(note.to_owned());
    }

    /// The value of a key of the file, given with dots.
    fn at(&self, path: &str) -> Option<&Node> {
        at(&self.old, path)
    }

    fn text(&self, path: &str) -> Option<String> {
        match &self.at(path)?.value {
            Value::Text(text) if !text.is_empty() => Some(text.clone()),
            _ => None,
        }
    }

    fn integers(&self, path: &str) -> Option<Vec<i128>> {
        let integer = |node: &Node| match node.value {
            Value::Integer(value) => Some(value),
            _ => None,
        };
        match &self.at(path)?.value {
            Value::List(items) => items.iter().map(integer).collect(),
            Value::Integer(value) => Some(vec![*value]),
            _ => None,
        }
    }

    fn number(&self, path: &str) -> Option<f64> {
        match self.at(path)?.value {
            Value::Integer(value) => Some(value as f64),
            Value::Number(value) => Some(value),
            _ => None,
        }
    }

    fn is_on(&self, path: &str) -> bool {
        self.at(path).is_some_and(|node| matches!(node.value, Value::Boolean(true)))
    }

    /// Takes keys out of the file: they have no meaning here.
    fn leave_out(&mut self, paths: &[&str]) {
        paths.iter().for_each(|path| drop(take(&mut self.old, path)));
    }

    /// Takes a key out of the file that somebody might miss.
    fn leave_out_with(&mut self, path: &str, note: &str) {
        if take(&mut self.old, path).is_some() {
            self.note(&format!("`{path}` is left out: {note}"));
        }
    }

    /// Moves keys to where they belong, those that are there.
    fn move_all(&mut self, moves: &[(&str, &str)]) {
        for (from, to) in moves {
            if let Some(node) = take(&mut self.old, from) {
                self.put(to, node.value, &node.place);
            }
        }
    }

    /// A value that follows from what stands at a place.
    fn put(&mut self, path: &str, value: Value, place: &Place) {
        put(&mut self.new, path, Node { place: place.clone(), value });
    }

    /// A folder of volumes as a list of paths.
    fn move_folder(&mut self, from: &str) {
        if let Some(node) = take(&mut self.old, from) {
            let place = node.place.clone();
            self.put("data.paths", Value::List(vec![node]), &place);
        }
    }
}

/// The value of a key, given with dots; nothing where it is absent or null.
fn at<'a>(root: &'a Node, path: &str) -> Option<&'a Node> {
    path.split('.')
        .try_fold(root, |node, key| match &node.value {
            Value::Section(entries) => entries.iter().rev().find(|entry| entry.key == key).map(|entry| &entry.node),
            _ => None,
        })
        .filter(|node| !matches!(node.value, Value::Null))
}

/// Takes a key out, null or not.
fn take(root: &mut Node, path: &str) -> Option<Node> {
    let Value::Section(entries) = &mut root.value else { return None };
    match path.split_once('.') {
        Some((section, below)) => take(&mut entries.iter_mut().find(|entry| entry.key == section)?.node, below),
        None => {
            let position = entries.iter().position(|entry| entry.key == path)?;
            Some(entries.remove(position).node)
        }
    }
}

/// Puts what is left of a file where it stands, unless something has its place.
fn keep(old: Node, new: &mut Node, path: &mut Vec<String>) {
    match old.value {
        Value::Section(entries) => {
            for Entry { key, node, .. } in entries {
                path.push(key);
                keep(node, new, path);
                path.pop();
            }
        }
        _ => {
            let path = path.join(".");
            if !path.is_empty() && at(new, &path).is_none() {
                put(new, &path, old);
            }
        }
    }
}
