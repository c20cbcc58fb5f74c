//! Errors of a model's configuration, as errors of the section that the model is made from.

use leanburn_common::ValidationError;

use super::source::Context;
use crate::error::Result;
use crate::yaml::ConfigErrors;

/// The errors of a configuration whose fields are read from the section at the path `section`.
///
/// `names` says which fields, or fields of fields, are read from keys with other names: full paths.
pub(crate) fn of_section(
    errors: Vec<ValidationError>,
    section: &str,
    names: &[(&str, &'static str)],
) -> Vec<ValidationError> {
    let exact = |field: &str| names.iter().find(|(name, _)| *name == field).map(|(_, key)| *key);
    let key = |field: &str| match (exact(field), field.split_once('.')) {
        (Some(key), _) => key.to_string(),
        (None, Some((part, rest))) => exact(part).map_or(format!("{section}.{field}"), |key| format!("{key}.{rest}")),
        (None, None) => format!("{section}.{field}"),
    };
    let placed = |error: ValidationError| ValidationError {
        key: key(&error.key),
        with: error.with.iter().filter_map(|field| exact(field)).collect(),
        ..error
    };
    errors.into_iter().map(placed).collect()
}

/// Rejects a configuration with everything that is wrong with it.
///
/// # Errors
///
/// [`SystemError::Config`](crate::SystemError::Config).
pub(crate) fn reject(context: &Context<'_>, errors: Vec<ValidationError>) -> Result<()> {
    match errors.is_empty() {
        true => Ok(()),
        false => Err(ConfigErrors::of(context.name, errors).into()),
    }
}
