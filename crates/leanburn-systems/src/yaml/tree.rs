//! YAML as a tree in which every value knows its place.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{
    Error as YamlError, Location, MergeKeyPolicy, MessageFormatter, NonFiniteFloatPolicy, Options, Spanned,
    UserMessageFormatter,
};

use super::config_error::{ConfigError, ConfigErrorKind, Place};

/// The most bytes a configuration may have; ours have a few thousand.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// The most bytes a line may have: errors are shown with their lines.
const MAX_LINE_BYTES: usize = 10_000;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where it stands.
    pub place: Place,
    /// The value.
    pub value: Value,
}

/// The values of YAML that a configuration is made of.
#[derive(Debug, Clone)]
pub enum Value {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i128),
    /// Another number.
    Number(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys and values.
    Section(Vec<Entry>),
}

/// One `key: value` of a section. A key that is given twice has two entries.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub place: Place,
    /// The value.
    pub node: Node,
}

impl Node {
    /// Parses one YAML document. Anything but UTF-8 text of a sane size, depth and expansion is
    /// rejected with one error.
    pub(crate) fn parse(text: &str) -> Result<Self, Box<ConfigError>> {
        const HELP: &str = "correct the YAML here: indent with spaces, close brackets and quotes, \
            and quote text that holds special characters";
        const ONE: &str = "remove this line and what is below it, or move it into a file of its own";
        if text.len() > MAX_BYTES {
            return Err(too_large(format!("{} bytes", text.len())));
        }
        if let Some(number) = text.lines().position(|line| line.len() > MAX_LINE_BYTES) {
            let expected = format!("lines of at most {MAX_LINE_BYTES} bytes");
            let found = format!("a longer one, line {}", number + 1);
            let help = "break the line, one entry of a list a line";
            return Err(ConfigError::without_key(ConfigErrorKind::File, Place::Document, found, expected, help));
        }
        serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
            let place = error.location().map_or(Place::Document, |location| place_in(text, location));
            let (found, help) = match error.without_snippet() {
                YamlError::Budget { breach: BudgetBreach::Documents { .. }, .. } => ("a second one".into(), ONE),
                other => (one_line(&UserMessageFormatter.format_message(other)), HELP),
            };
            let expected = "one YAML document of keys and values";
            ConfigError::without_key(ConfigErrorKind::Syntax, place, found, expected, help)
        })
    }

    /// A document without content.
    pub(crate) fn empty() -> Self {
        Self { place: Place::Document, value: Value::Null }
    }

    /// Moves this node and all it holds to one place, such as an override.
    pub(crate) fn relocate(&mut self, place: &Place) {
        self.place = place.clone();
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.relocate(place)),
            Value::Section(entries) => entries.iter_mut().for_each(|entry| {
                entry.place = place.clone();
                entry.node.relocate(place);
            }),
            _ => {}
        }
    }
}

/// The error of a file past [`MAX_BYTES`].
pub(crate) fn too_large(found: String) -> Box<ConfigError> {
    let expected = format!("a configuration of at most {MAX_BYTES} bytes");
    let help = "check that this is the configuration and not a data file";
    ConfigError::without_key(ConfigErrorKind::File, Place::Document, found, expected, help)
}

/// Limits against hostile input; duplicates and non-finite numbers are kept to be reported by key.
fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 24,
            flow_nesting_limit: 24,
            max_nodes: 20_000,
            max_events: 60_000,
            max_aliases: 100,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 20_000 },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        merge_keys: MergeKeyPolicy::Error,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    }
}

/// Text without line breaks or control characters, so that a hostile file cannot paint the terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        let span = location.span();
        match span.byte_offset() {
            Some(offset) if location != Location::UNKNOWN => Self::Text {
                line: location.line() as usize,
                column: location.column() as usize,
                offset: offset as usize,
                length: span.byte_len().unwrap_or(0) as usize,
            },
            _ => Self::Document,
        }
    }
}

/// A place in a text; errors of the YAML scanner know their line and column but not their byte.
fn place_in(text: &str, location: Location) -> Place {
    let (line, column) = (location.line() as usize, location.column() as usize);
    let place = Place::from(location);
    if place != Place::Document || line == 0 {
        return place;
    }
    let before: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let inside: usize = text[before..].chars().take(column.saturating_sub(1)).map(char::len_utf8).sum();
    Place::Text { line, column, offset: before + inside, length: 0 }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        match self {
            Self::Null => out.write_str("nothing"),
            Self::Boolean(value) => write!(out, "{value}"),
            Self::Integer(value) => write!(out, "{value}"),
            Self::Number(value) => write!(out, "{value:?}"),
            Self::Text(text) if text.chars().count() <= SHOWN => write!(out, "the text {text:?}"),
            Self::Text(text) => {
                let start: String = text.chars().take(SHOWN).collect();
                write!(out, "the text {start:?}...")
            }
            Self::List(items) => write!(out, "a list of {}", items.len()),
            Self::Section(_) => out.write_str("a section"),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { place: spanned.referenced.into(), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, node)) = access.next_entry::<Spanned<String>, Node>()? {
            entries.push(Entry { key: key.value, place: key.referenced.into(), node });
        }
        Ok(Value::Section(entries))
    }
}
