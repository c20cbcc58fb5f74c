//! Overrides on the command line: `--set autoencoder.training.batch_size=2`.

use super::config_error::{ConfigError, ConfigErrorKind, Place};
use super::tree::{Entry, Node, Value};

/// Sets `section.key=value`, the value being YAML, in the tree; sections are made as needed.
///
/// A later override wins over an earlier one and over the file.
pub(crate) fn apply(root: &mut Node, text: &str) -> Result<(), Box<ConfigError>> {
    let place = Place::Override(text.to_owned());
    let help = "write the key with its sections and a YAML value, as in autoencoder.training.batch_size=2";
    let wrong = |found: String, expected: &str| {
        ConfigError::without_key(ConfigErrorKind::Override, place.clone(), found, expected, help)
    };
    let (path, value) = text.split_once('=').ok_or_else(|| wrong("no `=`".into(), "the form section.key=value"))?;
    let keys: Vec<&str> = path.split('.').map(str::trim).collect();
    if keys.contains(&"") {
        return Err(wrong("an empty key".into(), "the form section.key=value"));
    }
    let mut node = Node::parse(value).map_err(|error| wrong(error.found, "a YAML value"))?;
    node.relocate(&place);
    set(root, &keys, node, &place).map_err(|found| wrong(found, "a path of sections that ends in a key"))
}

/// Puts a node where a path leads, given with dots; sections are made as needed. Does nothing where a value stands above it.
pub(crate) fn put(root: &mut Node, path: &str, node: Node) {
    let (keys, place): (Vec<&str>, _) = (path.split('.').collect(), node.place.clone());
    drop(set(root, &keys, node, &place));
}

/// Walks down to the key and sets it; fails with what stood where a section was expected.
fn set(root: &mut Node, keys: &[&str], node: Node, place: &Place) -> Result<(), String> {
    let Some((key, below)) = keys.split_first() else {
        *root = node;
        return Ok(());
    };
    if matches!(root.value, Value::Null) {
        root.value = Value::Section(Vec::new());
    }
    let Value::Section(entries) = &mut root.value else {
        return Err(format!("{} above `{key}`", root.value));
    };
    let position = entries.iter().rposition(|entry| entry.key == *key).unwrap_or_else(|| {
        let node = Node { place: place.clone(), value: Value::Null };
        entries.push(Entry { key: (*key).to_owned(), place: place.clone(), node });
        entries.len() - 1
    });
    if below.is_empty() {
        entries[position].place = place.clone();
    }
    set(&mut entries[position].node, below, node, place)
}
