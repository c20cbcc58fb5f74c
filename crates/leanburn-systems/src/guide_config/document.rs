//! A parsed file, asked for keys.

use serde_json::Value;

/// A parsed file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'a>(pub &'a Value);

impl<'a> Document<'a> {
    /// The value of a key, given with dots; nothing where it is absent or empty.
    pub(super) fn at(self, key: &str) -> Option<&'a Value> {
        key.split('.').try_fold(self.0, |node, name| node.get(name)).filter(|value| !value.is_null())
    }

    /// Whether a key is there, and not empty.
    pub(super) fn has(self, key: &str) -> bool {
        self.at(key).is_some()
    }

    /// The text under the first of the keys that has any.
    pub(super) fn text(self, keys: &[&str]) -> Option<&'a str> {
        keys.iter().find_map(|key| self.at(key)?.as_str())
    }

    /// How many entries a list has; one number has one.
    pub(super) fn count(self, key: &str) -> usize {
        self.at(key).map_or(0, |value| value.as_array().map_or(1, Vec::len))
    }
}
