//! Which segments are recomputed: one value, which YAML spells with two keys.

use leanburn_ops::{Residency, ResidencyPolicy};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::yaml::Section;

/// The segments that run again in the backward pass instead of saving their activations.
///
/// A list of patterns, with `*` for any text. In YAML `use_gradient_checkpointing: true` is the pattern that every name
/// matches, `recompute: [...]` any other list; the first wins where both are given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recompute(Vec<String>);

/// The pattern that every name matches.
const EVERYTHING: &str = "*";

impl Recompute {
    /// No segment: plain autodiff.
    pub fn none() -> Self {
        Self::default()
    }

    /// Every segment: gradient checkpointing.
    pub fn all() -> Self {
        Self(vec![EVERYTHING.into()])
    }

    /// The segments whose names match one of the patterns, as in `decoder.level_0.*`.
    pub fn segments<P: Into<String>>(patterns: impl IntoIterator<Item = P>) -> Self {
        let patterns: Vec<String> = patterns.into_iter().map(Into::into).collect();
        match patterns.iter().any(|pattern| pattern == EVERYTHING) {
            true => Self::all(),
            false => Self(patterns),
        }
    }

    /// The patterns.
    pub fn patterns(&self) -> &[String] {
        &self.0
    }

    /// Whether every segment is recomputed.
    pub fn is_all(&self) -> bool {
        *self == Self::all()
    }

    /// The policy for models.
    pub fn policy(&self) -> ResidencyPolicy {
        match self.is_all() {
            true => ResidencyPolicy::recompute_all(),
            false => self
                .0
                .iter()
                .fold(ResidencyPolicy::keep(), |policy, pattern| policy.with_rule(pattern, Residency::Recompute)),
        }
    }

    pub(crate) fn read(section: &mut Section<'_>) -> Self {
        let all = section.get("use_gradient_checkpointing", false);
        let listed = Self::segments(section.get("recompute", Vec::<String>::new()));
        if all { Self::all() } else { listed }
    }
}

/// As the two keys of the configuration.
impl Serialize for Recompute {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let listed: &[String] = if self.is_all() { &[] } else { &self.0 };
        let mut keys = serializer.serialize_struct("Recompute", 2)?;
        keys.serialize_field("use_gradient_checkpointing", &self.is_all())?;
        keys.serialize_field("recompute", listed)?;
        keys.end()
    }
}

impl From<&Recompute> for ResidencyPolicy {
    fn from(recompute: &Recompute) -> Self {
        recompute.policy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_becomes_one_policy() {
        assert_eq!(Recompute::none().policy(), ResidencyPolicy::keep());
        assert_eq!(Recompute::all().policy(), ResidencyPolicy::recompute_all());
        assert_eq!(Recompute::segments(["a", "*"]).policy(), ResidencyPolicy::recompute_all());
        let some = Recompute::segments(["decoder.*"]).policy();
        assert_eq!((some.of("decoder.level_0"), some.of("encoder.level_0")), (Residency::Recompute, Residency::Keep));
    }

    #[test]
    fn it_is_written_as_two_keys() {
        let written = |recompute: Recompute| serde_json::to_string(&recompute).unwrap();
        assert_eq!(written(Recompute::all()), r#"{"use_gradient_checkpointing":true,"recompute":[]}"#);
        assert_eq!(written(Recompute::segments(["a"])), r#"{"use_gradient_checkpointing":false,"recompute":["a"]}"#);
    }
}
