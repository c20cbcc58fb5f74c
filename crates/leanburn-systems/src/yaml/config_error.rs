//! What is wrong with a configuration, and where.

use std::fmt;

use leanburn_common::ValidationError;
use thiserror::Error;

/// Where a value, or an error, stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Nowhere in particular: the file as a whole.
    Document,
    /// In the text of the file.
    Text {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// First byte.
        offset: usize,
        /// Bytes.
        length: usize,
    },
    /// In an override, given as `key=value`.
    Override(String),
}

/// The kinds of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ConfigErrorKind {
    /// The file cannot be read, or is no text, or too large.
    #[error("unreadable file")]
    File,
    /// The text is not YAML, or goes past what a configuration may hold.
    #[error("invalid YAML")]
    Syntax,
    /// A key that no section has, or that stands in the wrong section.
    #[error("unknown key")]
    UnknownKey,
    /// A key that is given twice.
    #[error("duplicate key")]
    DuplicateKey,
    /// A required key is absent.
    #[error("missing key")]
    MissingKey,
    /// A value of the wrong type or out of range.
    #[error("wrong value")]
    WrongValue,
    /// Values that are right one by one but not together.
    #[error("contradiction")]
    Contradiction,
    /// An override that is not of the form `section.key=value`.
    #[error("wrong override")]
    Override,
}

/// One error: where, what was found, what was expected, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The kind of error.
    pub kind: ConfigErrorKind,
    /// The path of the key, as in `autoencoder.training.batch_size`; empty for the whole file.
    pub key: String,
    /// Where it stands.
    pub place: Place,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
    /// What to do.
    pub help: String,
}

impl ConfigError {
    /// An error that belongs to no key.
    pub(crate) fn without_key(
        kind: ConfigErrorKind,
        place: Place,
        found: impl Into<String>,
        expected: impl Into<String>,
        help: impl Into<String>,
    ) -> Box<Self> {
        let (found, expected, help) = (found.into(), expected.into(), help.into());
        Box::new(Self { kind, key: String::new(), place, found, expected, help })
    }

    /// Line and column in the file, from 1, unless it stands in an override or nowhere.
    pub fn position(&self) -> Option<(usize, usize)> {
        match self.place {
            Place::Text { line, column, .. } => Some((line, column)),
            _ => None,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Place::Override(text) = &self.place {
            write!(out, "--set {}: ", text.escape_debug())?;
        }
        if !self.key.is_empty() {
            write!(out, "{}: ", self.key.escape_debug())?;
        }
        write!(out, "{}: expected {}, found {}", self.kind, self.expected, self.found)
    }
}

impl std::error::Error for ConfigError {}

/// Every error of a configuration, in the order of the file.
///
/// `{}` is a headline, `{:#}` the whole list with lines and columns as plain text.
#[derive(Debug, Clone)]
pub struct ConfigErrors {
    name: String,
    text: String,
    errors: Vec<ConfigError>,
    total: usize,
}

/// The most errors that are kept: a file with more is no configuration.
const MOST: usize = 100;

impl ConfigErrors {
    /// Sorts the errors of a text; `source_name` is usually its path.
    pub(crate) fn new(source_name: &str, text: &str, mut errors: Vec<ConfigError>) -> Self {
        errors.sort_by(|one, other| one.place.cmp(&other.place));
        let total = errors.len();
        errors.truncate(MOST);
        Self { name: source_name.to_owned(), text: text.to_owned(), errors, total }
    }

    /// The errors of a configuration that stands in no file.
    pub(crate) fn of(name: &str, errors: Vec<ValidationError>) -> Self {
        let of_validation = |error: ValidationError| {
            let ValidationError { key, expected, found, help, .. } = error;
            ConfigError { kind: ConfigErrorKind::Contradiction, key, place: Place::Document, found, expected, help }
        };
        Self::new(name, "", errors.into_iter().map(of_validation).collect())
    }

    /// The errors: those of the file as a whole, by line and column, then those of overrides.
    /// At most the first 100.
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// What the text is called, usually the path of its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text that the errors stand in.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, total) = (&self.name, self.total);
        let plural = if total == 1 { "" } else { "s" };
        write!(out, "{total} error{plural} in {name}")?;
        if total > MOST {
            write!(out, ", the first {MOST}")?;
        }
        if !out.alternate() {
            return Ok(());
        }
        for error in &self.errors {
            match error.position() {
                Some((line, column)) => write!(out, "\n{name}:{line}:{column}: {error}")?,
                None => write!(out, "\n{name}: {error}")?,
            }
            write!(out, "\n    {}", error.help)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
