//! The name that was probably meant.

/// How alike two names must be, of 1, to be taken for a slip of the pen.
const ALIKE: f64 = 0.7;

/// How alike two names are, of 1, if one may be a slip of the pen for the other. Letter case, `-` and blanks do not count.
///
/// # Example
///
/// ```
/// use leanburn_common::likeness;
///
/// assert_eq!(likeness("batch-size", "batch_size"), Some(1.0));
/// assert!(likeness("bach_size", "batch_size").is_some());
/// assert_eq!(likeness("momentum", "batch_size"), None);
/// ```
#[must_use]
pub fn likeness(name: &str, other: &str) -> Option<f64> {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    // Names are short; a long one is no slip, and comparing it would be slow.
    let name = plain(name.get(..name.len().min(64)).unwrap_or(""));
    Some(strsim::normalized_damerau_levenshtein(&name, &plain(other))).filter(|likeness| *likeness >= ALIKE)
}

/// The candidate that is most [alike](likeness), if any is.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let alike = candidates.into_iter().filter_map(|candidate| Some((likeness(name, candidate)?, candidate)));
    alike.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, candidate)| candidate)
}
