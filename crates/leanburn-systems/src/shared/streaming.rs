//! Which segments are streamed, and how: one value, which YAML spells with four keys.

use leanburn_common::ValidationError;
use leanburn_ops::{Residency, ResidencyPolicy, StreamKeep, StreamSettings, Unstreamable};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::yaml::{MANY, Section};

/// The segments that run in slabs along the depth, forward and backward.
///
/// In YAML `stream: [...]` with patterns, `*` for any text, `slab_planes`, `stream_keep` and `cached_percent`. A segment that is both
/// recomputed and streamed is streamed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Streaming {
    patterns: Vec<String>,
    settings: StreamSettings,
}

impl Streaming {
    /// No segment.
    pub fn none() -> Self {
        Self::default()
    }

    /// The segments whose names match one of the patterns, as in `decoder.level_0`.
    pub fn segments<P: Into<String>>(patterns: impl IntoIterator<Item = P>, settings: StreamSettings) -> Self {
        Self { patterns: patterns.into_iter().map(Into::into).collect(), settings }
    }

    /// The patterns.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// How they are streamed.
    pub fn settings(&self) -> StreamSettings {
        self.settings
    }

    /// Adds the rules to a policy.
    pub fn added_to(&self, policy: ResidencyPolicy) -> ResidencyPolicy {
        let stream =
            |policy: ResidencyPolicy, pattern: &String| policy.with_rule(pattern, Residency::Stream(self.settings));
        self.patterns.iter().fold(policy, stream)
    }

    /// What is wrong with the patterns for a model with these segments, of which `chains` says what stands against streaming them: a
    /// pattern that names none, a segment that cannot be streamed.
    pub(crate) fn validate(
        &self,
        segments: &[String],
        chains: &[(String, Option<Unstreamable>)],
        key: &str,
    ) -> Vec<ValidationError> {
        let policy = self.added_to(ResidencyPolicy::keep());
        let streamed = segments.iter().filter(|name| policy.of(name) != Residency::Keep);
        let cannot = streamed.filter_map(|name| {
            let reason = match chains.iter().find(|(segment, _)| segment == name) {
                Some((_, reason)) => reason.clone()?,
                None => Unstreamable::default(),
            };
            Some(ValidationError {
                key: String::new(),
                with: Vec::new(),
                expected: "segments of norms, activations, convolutions and enlargements by whole factors".into(),
                found: format!("`{name}`: {reason}"),
                help: "name it under `recompute` instead, or name the levels that can be streamed one by one".into(),
            })
        });
        let errors = policy.validate(segments).into_iter().chain(cannot);
        errors.map(|error| ValidationError { key: key.to_string(), ..error }).collect()
    }

    pub(crate) fn read(section: &mut Section<'_>) -> Self {
        let settings = StreamSettings {
            slab_planes: section.number("slab_planes", StreamSettings::SLAB_PLANES, 1..=MANY),
            keep: section.choice("stream_keep", StreamKeep::default()),
            cached_percent: section.number("cached_percent", 0, 0..=100),
        };
        Self { patterns: section.get("stream", Vec::new()), settings }
    }
}

/// As the keys of the configuration, the last where something is cached; as none where nothing is streamed.
impl Serialize for Streaming {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == Self::none() {
            return serializer.serialize_struct("Streaming", 0)?.end();
        }
        let mut keys = serializer.serialize_struct("Streaming", 4)?;
        keys.serialize_field("stream", &self.patterns)?;
        keys.serialize_field("slab_planes", &self.settings.slab_planes)?;
        keys.serialize_field("stream_keep", &self.settings.keep)?;
        match self.settings.cached_percent {
            0 => keys.skip_field("cached_percent")?,
            percent => keys.serialize_field("cached_percent", &percent)?,
        }
        keys.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_keys_or_none() {
        let written = |streaming: Streaming| serde_json::to_string(&streaming).unwrap();
        assert_eq!(written(Streaming::none()), "{}");
        let some = Streaming::segments(["decoder.level_0"], StreamSettings::default().with_keep(StreamKeep::None));
        assert_eq!(written(some), r#"{"stream":["decoder.level_0"],"slab_planes":8,"stream_keep":"none"}"#);
        let cached = Streaming::segments(["decoder.level_0"], StreamSettings::default().with_cached_percent(30));
        let keys = r#"{"stream":["decoder.level_0"],"slab_planes":8,"stream_keep":"two","cached_percent":30}"#;
        assert_eq!(written(cached), keys);
    }

    #[test]
    fn a_streamed_segment_is_not_recomputed() {
        let streaming = Streaming::segments(["decoder.*"], StreamSettings::default());
        let policy = streaming.added_to(ResidencyPolicy::recompute_all());
        assert_eq!(policy.of("decoder.level_0"), Residency::Stream(StreamSettings::default()));
        assert_eq!(policy.of("encoder.level_0"), Residency::Recompute);
    }

    #[test]
    fn what_cannot_be_streamed_is_named_with_the_reason() {
        let segments = ["decoder.level_0", "decoder.middle", "quantizer"].map(String::from);
        let chains = [
            (segments[0].clone(), None),
            (segments[1].clone(), Some(Unstreamable::new("it has attention, which sees the whole volume"))),
        ];
        let errors = |patterns: &[&str]| {
            let streaming = Streaming::segments(patterns.iter().copied(), StreamSettings::default());
            let errors = streaming.validate(&segments, &chains, "autoencoder.training.stream");
            errors.into_iter().map(|error| error.found).collect::<Vec<_>>()
        };
        assert_eq!(errors(&["decoder.level_0"]), [""; 0]);
        assert_eq!(errors(&["decoder.levl_0"]), ["`decoder.levl_0`, which names no segment"]);
        assert_eq!(errors(&["decoder.*"]), ["`decoder.middle`: it has attention, which sees the whole volume"]);
        assert_eq!(errors(&["quantizer"]), ["`quantizer`: what it computes is not described in stages"]);
    }
}
