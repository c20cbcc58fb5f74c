//! What is wrong with a configuration, field by field.

use std::fmt;

use thiserror::Error;

/// One wrong value of a configuration.
///
/// A library finds it and knows the field; the reader of a file adds file, line and column.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{key}: expected {expected}, found {found}")]
pub struct ValidationError {
    /// The field, with dots where it is a field of a field: `phantom.shape`.
    pub key: String,
    /// Other fields that take part, where values are right one by one and not together.
    pub with: Vec<&'static str>,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
    /// What to do.
    pub help: String,
}

/// Collects every error of a configuration.
#[derive(Debug, Default)]
pub struct Validation(Vec<ValidationError>);

impl Validation {
    /// An error of `key` unless the value is sound.
    pub fn check(&mut self, sound: bool, key: &str, expected: &str, found: impl fmt::Display, help: impl Into<String>) {
        self.check_together(sound, &[], key, expected, found, help);
    }

    /// An error of `key` unless it goes together with the fields `with`.
    pub fn check_together(
        &mut self,
        sound: bool,
        with: &[&'static str],
        key: &str,
        expected: &str,
        found: impl fmt::Display,
        help: impl Into<String>,
    ) {
        if !sound {
            self.0.push(ValidationError {
                key: key.to_string(),
                with: with.to_vec(),
                expected: expected.to_string(),
                found: found.to_string(),
                help: help.into(),
            });
        }
    }

    /// The errors of a part, whose fields are fields of `key` here.
    pub fn extend_below(&mut self, key: &str, errors: Vec<ValidationError>) {
        self.0.extend(errors.into_iter().map(|error| ValidationError { key: format!("{key}.{}", error.key), ..error }));
    }

    /// All errors, in the order they were found.
    pub fn errors(self) -> Vec<ValidationError> {
        self.0
    }
}

/// Stops a programmer who builds from a configuration that is not valid.
///
/// # Panics
///
/// Panics with every error and what to do about it, if there are any.
pub fn panic_if_invalid(what: &str, errors: &[ValidationError]) {
    assert!(
        errors.is_empty(),
        "{what}: {}",
        errors.iter().map(|error| format!("{error} ({})", error.help)).collect::<Vec<_>>().join("; ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_collected_and_named() {
        let mut validation = Validation::default();
        validation.check(true, "fine", "anything", 1, "");
        validation.check(false, "channels", "at least 1", 0, "give 1");
        let mut outer = Validation::default();
        outer.extend_below("model", validation.errors());
        outer.check_together(false, &["groups"], "width", "a multiple of groups", 9, "use 8");
        let errors = outer.errors();
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            ["model.channels: expected at least 1, found 0", "width: expected a multiple of groups, found 9"]
        );
        assert_eq!(errors[1].with, ["groups"]);
    }

    #[test]
    #[should_panic = "Model: width: expected 8, found 9 (use 8)"]
    fn building_from_errors_panics_with_them() {
        let mut validation = Validation::default();
        validation.check(false, "width", "8", 9, "use 8");
        panic_if_invalid("Model", &validation.errors());
    }
}
