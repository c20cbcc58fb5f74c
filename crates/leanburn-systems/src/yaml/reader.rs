//! Reads sections of the tree by asking for keys; what nobody asked for is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;

use leanburn_common::ValidationError;

use super::choice::Choice;
use super::config_error::{ConfigError, ConfigErrorKind, Place};
use super::limits::Limits;
use super::suggest::{for_key, join, parent};
use super::tree::{Entry, Node, Value};
use super::values::Read;

/// Collects the errors of a whole configuration.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The names of the systems' sections, of which a configuration has one.
    systems: &'static [&'static str],
    /// The path of every key that the schema knows, present or not.
    known: BTreeSet<String>,
    /// Where the keys that are present stand.
    places: BTreeMap<String, Place>,
    /// Keys that are missing or wrong, whose values are stand-ins.
    unsound: BTreeSet<String>,
    /// Keys that nobody asked for: section, key, place, value.
    unknown: Vec<(String, String, Place, String)>,
    errors: Vec<ConfigError>,
}

impl Reader {
    /// A reader of configurations that have one of the sections `systems`.
    pub(crate) fn new(systems: &'static [&'static str]) -> Self {
        Self { systems, ..Self::default() }
    }

    /// The top level of a document.
    pub(crate) fn root<'a>(&'a mut self, node: &'a Node) -> Section<'a> {
        Section::open(self, String::new(), Some(node), true)
    }

    /// Reports each key that a section has twice.
    pub(crate) fn report_duplicates(&mut self, node: &Node, path: &str) {
        match &node.value {
            Value::Section(entries) => {
                let mut seen = BTreeMap::new();
                for Entry { key, place, node } in entries {
                    let path = join(path, key);
                    match seen.insert(key, place) {
                        Some(first) => self.report_duplicate(&path, first, place),
                        None => self.report_duplicates(node, &path),
                    }
                }
            }
            Value::List(items) => items.iter().for_each(|item| self.report_duplicates(item, path)),
            _ => {}
        }
    }

    fn report_duplicate(&mut self, path: &str, first: &Place, place: &Place) {
        let line = match first {
            Place::Text { line, .. } => format!("a second one; the first is on line {line}"),
            _ => "a second one".into(),
        };
        self.report(ConfigErrorKind::DuplicateKey, path, place.clone(), line, "each key once", "keep one of them");
    }

    /// Reports what a library finds wrong, at the first of its keys that is present, unless one of them is wrong by itself.
    ///
    /// A key that the schema does not have (a field that is computed) stands for the section above it.
    pub(crate) fn reject(&mut self, error: ValidationError) {
        let known = |mut key: &str| loop {
            match key.is_empty() || self.known.contains(key) {
                true => break key.to_owned(),
                false => key = parent(key),
            }
        };
        let keys: Vec<String> = std::iter::once(error.key.as_str()).chain(error.with).map(known).collect();
        if !keys.iter().all(|key| self.is_sound(key)) {
            return;
        }
        let above = || std::iter::successors(Some(keys[0].as_str()), |key| (!key.is_empty()).then(|| parent(key)));
        let place = keys.iter().map(String::as_str).chain(above()).find_map(|key| self.places.get(key));
        let place = place.cloned().unwrap_or(Place::Document);
        let kind = ConfigErrorKind::Contradiction;
        self.report(kind, &error.key, place, error.found, &error.expected, &error.help);
    }

    /// Whether neither a key nor any section above it is wrong.
    fn is_sound(&self, key: &str) -> bool {
        !self.unsound.contains(key) && (key.is_empty() || self.is_sound(parent(key)))
    }

    /// The errors, unknown keys among them.
    pub(crate) fn finish(mut self) -> Vec<ConfigError> {
        for (section, key, place, found) in std::mem::take(&mut self.unknown) {
            let help = for_key(&section, &key, &self.known, self.systems);
            let path = join(&section, &key);
            self.report(ConfigErrorKind::UnknownKey, &path, place, found, "a key of this section", &help);
        }
        self.errors
    }

    fn report(&mut self, kind: ConfigErrorKind, key: &str, place: Place, found: String, expected: &str, help: &str) {
        self.unsound.insert(key.to_owned());
        self.errors.push(ConfigError {
            kind,
            key: key.to_owned(),
            place,
            found,
            expected: expected.to_owned(),
            help: help.to_owned(),
        });
    }
}

/// One section being read. An absent section reads as one without keys.
#[derive(Debug)]
pub struct Section<'a> {
    reader: &'a mut Reader,
    path: String,
    place: Place,
    entries: &'a [Entry],
    asked: BTreeSet<&'static str>,
    /// Other names: alias, key.
    aliases: Vec<(&'static str, &'static str)>,
    /// Whether missing keys are errors: not in an optional section that is absent.
    wanted: bool,
    /// Whether it is known which keys there are: not after a wrong [variant](Self::variant).
    is_certain: bool,
}

impl<'a> Section<'a> {
    fn open(reader: &'a mut Reader, path: String, node: Option<&'a Node>, mut wanted: bool) -> Self {
        let place = node.map_or(Place::Document, |node| node.place.clone());
        let entries: &[Entry] = match node.map(|node| &node.value) {
            Some(Value::Section(entries)) => entries,
            None | Some(Value::Null) => &[],
            Some(value) => {
                let help = "write keys and values below, each `key: value` on a line of its own";
                reader.report(ConfigErrorKind::WrongValue, &path, place.clone(), value.to_string(), "a section", help);
                wanted = false;
                &[]
            }
        };
        Self { reader, path, place, entries, asked: BTreeSet::new(), aliases: Vec::new(), wanted, is_certain: true }
    }

    /// Whether a key is there, regardless of its value.
    pub fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Whether the value of a key is text.
    pub fn is_text(&self, key: &str) -> bool {
        self.find(key).is_some_and(|entry| matches!(entry.node.value, Value::Text(_)))
    }

    /// The value of a key, or its default.
    pub fn get<T: Read>(&mut self, key: &'static str, default: T) -> T {
        self.number(key, default, ..)
    }

    /// The value of a key whose numbers must lie in a range, or its default.
    pub fn number<T: Read>(&mut self, key: &'static str, default: T, range: impl RangeBounds<i32>) -> T {
        self.read(key, &Limits::new(range)).unwrap_or(default)
    }

    /// A key of other programs, one value of which has no place here: where it is written, `expected` and `help` say why not.
    pub fn reject_if(&mut self, key: &'static str, value: bool, expected: &str, help: &str) {
        let is_written = self.get(key, !value) == value;
        if let Some(entry) = self.find(key).filter(|_| is_written) {
            let (path, place, found) = (join(&self.path, key), entry.place.clone(), entry.node.value.to_string());
            self.reader.report(ConfigErrorKind::Contradiction, &path, place, found, expected, help);
        }
    }

    /// The name a key chooses, or its default.
    pub fn choice<T>(&mut self, key: &'static str, default: T) -> T
    where
        Choice<T>: Read,
    {
        self.get(key, Choice(default)).0
    }

    /// The name a key chooses, or its default, where it decides which other keys there are: after a wrong name no key of the section is
    /// missing or unknown.
    pub fn variant<T>(&mut self, key: &'static str, default: T) -> T
    where
        Choice<T>: Read,
    {
        let chosen = self.choice(key, default);
        if self.reader.unsound.contains(&join(&self.path, key)) {
            (self.wanted, self.is_certain) = (false, false);
        }
        chosen
    }

    /// The value of a key that must be there.
    pub fn required<T: Read + Default>(&mut self, key: &'static str, range: impl RangeBounds<i32>) -> T {
        let limits = Limits::new(range);
        if !self.is_certain {
            self.reader.unsound.insert(join(&self.path, key)); // its default says nothing
        }
        if self.find(key).is_none() && self.wanted {
            let path = join(&self.path, key);
            let help = format!("add `{key}:` to this section");
            let place = self.place.clone();
            self.reader.report(
                ConfigErrorKind::MissingKey,
                &path,
                place,
                "no such key".into(),
                &T::expected(&limits),
                &help,
            );
        }
        self.read(key, &limits).unwrap_or_default()
    }

    /// Gives a key another name, under which it is found as well; both together are an error.
    pub fn alias(&mut self, alias: &'static str, key: &'static str) {
        let place_of = |name| self.find(name).map(|entry| entry.place.clone());
        // An override wins over the file under either name.
        if let (Some(place @ Place::Text { .. }), Some(Place::Text { .. })) = (place_of(alias), place_of(key)) {
            let (path, found) = (join(&self.path, alias), format!("`{alias}` and `{key}`"));
            let help = format!("keep `{key}`");
            self.reader.report(
                ConfigErrorKind::DuplicateKey,
                &path,
                place,
                found,
                "one of two names of one key",
                &help,
            );
        }
        self.asked.insert(alias);
        self.aliases.push((alias, key));
    }

    /// Reads a section below this one; if it is absent, its defaults.
    pub fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let wanted = self.wanted;
        self.below(key, wanted, read)
    }

    /// Reads a section below this one, if it is there.
    pub fn optional<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'_>) -> T) -> Option<T> {
        let present = self.find(key).is_some_and(|entry| !matches!(entry.node.value, Value::Null));
        // An absent one is read as well, so that its keys are known.
        let value = self.below(key, present, read);
        present.then_some(value)
    }

    fn below<T>(&mut self, key: &'static str, wanted: bool, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let path = self.ask(key);
        let entry = self.find(key);
        let place = entry.map_or(self.place.clone(), |entry| entry.place.clone());
        let node = entry.map(|entry| &entry.node);
        let mut section = Section::open(self.reader, path, node, wanted);
        section.place = place;
        let value = read(&mut section);
        section.close();
        value
    }

    /// Ends the reading: whatever was not asked for is unknown.
    pub fn close(self) {
        if !self.is_certain {
            return;
        }
        for entry in self.entries.iter().filter(|entry| !self.asked.contains(entry.key.as_str())) {
            let found = format!("`{}`", entry.key.escape_debug());
            self.reader.unknown.push((self.path.clone(), entry.key.clone(), entry.place.clone(), found));
        }
    }

    fn read<T: Read>(&mut self, key: &'static str, limits: &Limits) -> Option<T> {
        let path = self.ask(key);
        let entry = self.find(key)?;
        let wrongs = match T::read(&entry.node, limits) {
            Ok(value) => return Some(value),
            Err(wrongs) => wrongs,
        };
        for wrong in wrongs {
            let help = wrong.help.unwrap_or_else(|| format!("write {}", wrong.expected));
            self.reader.report(ConfigErrorKind::WrongValue, &path, wrong.place, wrong.found, &wrong.expected, &help);
        }
        None
    }

    /// Records that the schema knows a key, and where it stands; returns its path.
    fn ask(&mut self, key: &'static str) -> String {
        let path = join(&self.path, key);
        self.asked.insert(key);
        self.reader.known.insert(path.clone());
        if let Some(entry) = self.find(key) {
            self.reader.places.insert(path.clone(), entry.place.clone());
        }
        path
    }

    /// The entry of a key; of two the later, which an override always is.
    fn find(&self, key: &str) -> Option<&'a Entry> {
        let is_alias = |name: &str| self.aliases.contains(&(name, key));
        self.entries.iter().rev().find(|entry| entry.key == key || is_alias(&entry.key))
    }
}
