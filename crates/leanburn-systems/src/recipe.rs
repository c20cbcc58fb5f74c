//! Configurations to start from.

/// A configuration to start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// Its name, that of its file without `.yaml`.
    pub name: &'static str,
    /// What it is for, in a line.
    pub about: &'static str,
    /// The YAML, with comments.
    pub text: &'static str,
}
