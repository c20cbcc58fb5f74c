//! Entries of a tree by their paths.

use crate::yaml::{Entry, Node, Place, Value};

/// Puts an entry into a section below, which is made if it is not there; false if it may not.
pub(super) fn put(entries: &mut Vec<Entry>, path: &[&str], entry: Entry) -> bool {
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

/// The entry at a path, the last one where a key is given twice.
pub(super) fn find<'a>(entries: &'a [Entry], path: &[&str]) -> Option<&'a Entry> {
    let (first, below) = path.split_first()?;
    let entry = entries.iter().rfind(|entry| entry.key == *first)?;
    match (&entry.node.value, below) {
        (_, []) => Some(entry),
        (Value::Section(entries), below) => find(entries, below),
        _ => None,
    }
}

/// Removes the entry at a path, and the sections above it that have nothing else.
pub(super) fn remove(entries: &mut Vec<Entry>, path: &[&str]) {
    let Some((first, below)) = path.split_first() else { return };
    let Some(at) = entries.iter().rposition(|entry| entry.key == *first) else { return };
    let is_empty = match (&mut entries[at].node.value, below) {
        (_, []) => true,
        (Value::Section(entries), below) => {
            remove(entries, below);
            entries.is_empty()
        }
        _ => false,
    };
    if is_empty {
        entries.remove(at);
    }
}
