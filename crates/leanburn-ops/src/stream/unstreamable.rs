//! Why a segment cannot be streamed, and what to do.

use std::fmt;

/// Why a segment cannot be streamed; by default because it is not described in [`Stages`](super::Stages).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unstreamable(String);

impl Default for Unstreamable {
    fn default() -> Self {
        Self::new("what it computes is not described in stages")
    }
}

impl fmt::Display for Unstreamable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Unstreamable {
    /// The reason, as in "attention sees the whole volume".
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// The message about a segment, with what to do.
    #[must_use]
    pub fn in_segment(&self, name: &str) -> String {
        format!("the segment `{name}` cannot be streamed: {}; recompute it instead", self.0)
    }
}
