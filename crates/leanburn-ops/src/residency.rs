//! Which segments of a model keep their intermediate results, which are recomputed in backward, and where what they save lives.
//!
//! A model is a tree of named segments (`encoder.level_0.res_0`). The policy is a plain value: it is set on the
//! model before training, printed by the planner and saved with the run. A residency never changes a result; a [`Storage`] that rounds
//! changes gradients.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;

use burn::module::Module;
use burn::tensor::Tensor;
use leanburn_common::{Validation, ValidationError, nearest};
use serde::{Deserialize, Serialize};

use crate::meanwhile::meanwhile;
use crate::recompute::{Tensors, keep, recompute};
use crate::recording::{in_segment, mark_streamable};
use crate::storage::{self, Scope, Storage};
use crate::stream::{Stages, StreamKeep, StreamSettings, Unstreamable, Volumes, stream};

/// Where the intermediate results of a segment live between forward and backward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Residency {
    /// In memory, as autodiff saves them: the segment is *kept*.
    #[default]
    Keep,
    /// Nowhere: only the segment's inputs are saved, and backward computes the rest again: the segment is *recomputed*.
    Recompute,
    /// Nowhere, and while the segment runs only in slabs along the depth, forward and backward: the segment is *streamed*.
    Stream(StreamSettings),
}

/// Gives the segments whose name matches `pattern` a residency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidencyRule {
    /// Name of a segment; `*` stands for any run of characters, dots included.
    pub pattern: String,
    /// What the matching segments do.
    pub residency: Residency,
}

/// Gives what the segments whose name matches `pattern` save a storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageRule {
    /// Name of a segment; `*` stands for any run of characters, dots included.
    pub pattern: String,
    /// Where it lives until backward.
    pub storage: Storage,
}

/// A residency for every segment of a model: a default, and rules of which the last that matches wins; and in the same way a storage.
///
/// # Example
///
/// ```
/// use leanburn_ops::{Residency, ResidencyPolicy};
///
/// let policy = ResidencyPolicy::keep().with_rule("decoder.*", Residency::Recompute);
/// assert_eq!(policy.of("decoder.level_2.res_0"), Residency::Recompute);
/// assert_eq!(policy.of("encoder.level_0.res_0"), Residency::Keep);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidencyPolicy {
    /// What a segment does that no rule names.
    pub default: Residency,
    /// Exceptions, later ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<ResidencyRule>,
    /// Where what segments save lives, later rules first. Segments inside one that is kept have its storage, unless a rule names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<StorageRule>,
    /// The folder of [offloaded](Storage::Offload) tensors' files. Default: the system's for temporary files, which may be memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload_folder: Option<PathBuf>,
}

impl ResidencyPolicy {
    /// Every segment keeps its intermediate results: plain autodiff.
    #[must_use]
    pub fn keep() -> Self {
        Self::default()
    }

    /// Every segment is computed again in backward.
    #[must_use]
    pub fn recompute_all() -> Self {
        Self { default: Residency::Recompute, ..Self::default() }
    }

    /// Adds a rule that goes before those already there.
    #[must_use]
    pub fn with_rule(mut self, pattern: impl Into<String>, residency: Residency) -> Self {
        self.rules.push(ResidencyRule { pattern: pattern.into(), residency });
        self
    }

    /// Adds a rule for what segments save that goes before those already there.
    ///
    /// # Example
    ///
    /// ```
    /// use leanburn_ops::{ResidencyPolicy, Storage};
    ///
    /// let policy = ResidencyPolicy::keep().with_storage("decoder.*", Storage::Offload).with_offload_folder("/var/tmp");
    /// assert_eq!(policy.storage_of("decoder.level_0"), Some(Storage::Offload));
    /// assert_eq!(policy.storage_of("encoder.level_0"), None);
    /// ```
    #[must_use]
    pub fn with_storage(mut self, pattern: impl Into<String>, storage: Storage) -> Self {
        self.storage.push(StorageRule { pattern: pattern.into(), storage });
        self
    }

    /// Sets the folder of offloaded tensors' files. It has to be there and to have room.
    #[must_use]
    pub fn with_offload_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.offload_folder = Some(folder.into());
        self
    }

    /// Where what the segment called `name` saves lives; that of the segment around it where no rule names it.
    #[must_use]
    pub fn storage_of(&self, name: &str) -> Option<Storage> {
        let rule = self.storage.iter().rev().find(|rule| matches(&rule.pattern, name));
        rule.map(|rule| rule.storage)
    }

    fn scope_of(&self, name: &str) -> Scope {
        let scope = |storage| Scope { storage, folder: self.offload_folder.as_deref().map(Into::into) };
        self.storage_of(name).map_or_else(storage::current, scope)
    }

    /// What the segment called `name` does.
    #[must_use]
    pub fn of(&self, name: &str) -> Residency {
        let rule = self.rules.iter().rev().find(|rule| matches(&rule.pattern, name));
        rule.map_or(self.default, |rule| rule.residency)
    }

    /// The policy for the segments inside the segment called `name`.
    ///
    /// A segment inside a recomputed one keeps its intermediate results during the second run, unless a rule names it
    /// and not the one around it: its own recomputation would be a third run. What it saves stays in memory: it is used at once.
    #[must_use]
    pub fn inside(&self, name: &str) -> Self {
        match self.of(name) {
            Residency::Keep => self.clone(),
            Residency::Recompute | Residency::Stream(_) => Self {
                default: Residency::Keep,
                rules: self.rules.iter().filter(|rule| !matches(&rule.pattern, name)).cloned().collect(),
                ..Self::default()
            },
        }
    }

    /// Every rule that matches none of the segments called `segments`, with the nearest name: those of a model are its `segments()`, those
    /// of a recorded step are the timeline's.
    ///
    /// # Example
    ///
    /// ```
    /// use leanburn_ops::{Residency, ResidencyPolicy};
    ///
    /// let policy = ResidencyPolicy::keep().with_rule("decodr.*", Residency::Recompute);
    /// let errors = policy.validate(["encoder.level_0", "decoder.level_0"]);
    /// assert_eq!(errors[0].found, "`decodr.*`, which names no segment");
    /// assert_eq!(errors[0].help, "did you mean `decoder.*`?");
    /// ```
    #[must_use]
    pub fn validate<S: AsRef<str>>(&self, segments: impl IntoIterator<Item = S>) -> Vec<ValidationError> {
        let segments: Vec<S> = segments.into_iter().collect();
        let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        let mut validation = Validation::default();
        let residencies = self.rules.iter().map(|rule| ("residency", &rule.pattern));
        for (key, pattern) in residencies.chain(self.storage.iter().map(|rule| ("storage", &rule.pattern))) {
            if segments.iter().any(|name| matches(pattern, name)) {
                continue;
            }
            let expected = format!("names of segments: {}", segments.join(", "));
            let found = format!("`{pattern}`, which names no segment");
            validation.check(false, key, &expected, found, meant(pattern, &segments));
        }
        validation.errors()
    }

    /// Runs the segment called `name` as the policy says: [`run`](Self::run), or streamed as the stages that `stages` gives, which compute
    /// what `forward` does.
    ///
    /// # Panics
    ///
    /// Panics if the segment is to be streamed and cannot be, with what stands against it; and as [`stream`].
    pub fn run_stages<M, I, F>(
        &self,
        name: &str,
        module: &M,
        inputs: I,
        forward: F,
        stages: impl FnOnce(&M) -> Result<Stages, Unstreamable>,
    ) -> Tensor<5>
    where
        M: Module + Sync + 'static,
        I: Volumes,
        F: Fn(&M, I) -> Tensor<5> + Send + Sync + 'static,
    {
        if let Residency::Stream(_) = self.of(name) {
            return self.run_joined(&[name], module, inputs, stages);
        }
        if let Some(device) = &inputs.device() {
            mark_streamable(name, device, || stages(module).and_then(Stages::streamable).is_ok());
        }
        self.run(name, module, inputs, forward)
    }

    /// How many of these neighbouring segments, from the first on, run as one: those that are streamed alike with
    /// [`StreamKeep::Joined`]; else one.
    ///
    /// # Example
    ///
    /// ```
    /// use leanburn_ops::{Residency, ResidencyPolicy, StreamKeep, StreamSettings};
    ///
    /// let settings = StreamSettings::default().with_keep(StreamKeep::Joined);
    /// let policy = ResidencyPolicy::keep().with_rule("level_*", Residency::Stream(settings));
    /// assert_eq!(policy.joined(["level_1", "level_0", "out"]), 2);
    /// assert_eq!(policy.joined(["out"]), 1);
    /// ```
    #[must_use]
    pub fn joined<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> usize {
        let mut residencies = names.into_iter().map(|name| self.of(name));
        match residencies.next() {
            Some(first @ Residency::Stream(StreamSettings { keep: StreamKeep::Joined, .. })) => {
                1 + residencies.take_while(|residency| *residency == first).count()
            }
            first => usize::from(first.is_some()),
        }
    }

    /// Runs neighbouring segments that are to be streamed as one, which has the name and the storage of the first.
    ///
    /// # Panics
    ///
    /// Panics if there is none, the first is not to be streamed, or they cannot be, with what stands against it; and as [`stream`].
    pub fn run_joined<M, I>(
        &self,
        names: &[&str],
        module: &M,
        inputs: I,
        stages: impl FnOnce(&M) -> Result<Stages, Unstreamable>,
    ) -> Tensor<5>
    where
        M: Module + Sync + 'static,
        I: Volumes,
    {
        let name = *names.first().expect("run_joined: expected at least one segment, found none");
        let Residency::Stream(settings) = self.of(name) else { panic!("run_joined: `{name}` is not to be streamed") };
        let device = inputs.device();
        for name in names {
            observe(self, name);
            if let Some(device) = &device {
                mark_streamable(name, device, || true);
            }
        }
        let stages = stages(module).and_then(Stages::streamable);
        let stages = stages.unwrap_or_else(|error| panic!("{}", error.in_segment(name)));
        let forward = |_: &M, inputs: I| in_segment(name, device.as_ref(), || stream(inputs, stages.clone(), settings));
        storage::within(self.scope_of(name), || keep(module, inputs, forward))
    }

    /// Runs `forward` as the segment called `name`, kept or recomputed as the policy says.
    ///
    /// Both residencies give the same result bit for bit, random layers included where [`random::seed`](crate::random::seed) has been
    /// called before (a trainer does), unless the storage rounds.
    ///
    /// # Panics
    ///
    /// Panics if the segment is to be streamed: it has no stages. Here or in backward, if what is offloaded cannot be written or read;
    /// inside [`or_storage_error`](crate::or_storage_error) that is an error.
    pub fn run<M, I, O, F>(&self, name: &str, module: &M, inputs: I, forward: F) -> O
    where
        M: Module + Sync + 'static,
        I: Tensors,
        O: Tensors,
        F: Fn(&M, I) -> O + Send + Sync + 'static,
    {
        observe(self, name);
        let segment = name.to_string();
        let forward = move |module: &M, inputs: I| {
            let device = inputs.device();
            in_segment(&segment, device.as_ref(), || forward(module, inputs))
        };
        storage::within(self.scope_of(name), || match self.of(name) {
            Residency::Keep => keep(module, inputs, forward),
            Residency::Recompute => recompute(module, inputs, forward),
            Residency::Stream(_) => panic!("{}", Unstreamable::default().in_segment(name)),
        })
    }
}

/// Policies that have run segments, and the names of the segments.
#[derive(Default)]
struct Observed {
    rules: Vec<ResidencyRule>,
    storage: Vec<StorageRule>,
    segments: BTreeSet<String>,
}

thread_local! {
    static OBSERVED: RefCell<Option<Observed>> = const { RefCell::new(None) };
}

fn observe(policy: &ResidencyPolicy, segment: &str) {
    OBSERVED.with_borrow_mut(|observed| {
        let Some(Observed { rules, storage, segments }) = observed else { return };
        segments.insert(segment.to_string());
        let new = policy.rules.iter().filter(|rule| !rules.contains(rule)).cloned().collect::<Vec<_>>();
        rules.extend(new);
        let new = policy.storage.iter().filter(|rule| !storage.contains(rule)).cloned().collect::<Vec<_>>();
        storage.extend(new);
    });
}

/// Runs `step` on this thread; the rules that match none of its segments, of all policies that have [run](ResidencyPolicy::run) one
/// of them, as [`ResidencyPolicy::validate`] gives them.
pub fn with_rules_validated<T>(step: impl FnOnce() -> T) -> (T, Vec<ValidationError>) {
    let replace = |observed| OBSERVED.replace(observed);
    let (result, observed) = meanwhile(replace, Some(Observed::default()), || (step(), OBSERVED.take()));
    let Observed { rules, storage, segments } = observed.unwrap_or_default();
    (result, ResidencyPolicy { rules, storage, ..ResidencyPolicy::default() }.validate(segments))
}

/// What to do about a pattern that matches none of the segments.
fn meant(pattern: &str, segments: &[&str]) -> String {
    let groups = segments.iter().flat_map(|name| name.match_indices('.').map(|(dot, _)| format!("{}.*", &name[..dot])));
    let groups: Vec<String> = groups.collect();
    match nearest(pattern, segments.iter().copied().chain(groups.iter().map(String::as_str))) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`*` stands for any text, as in `decoder.*`".into(),
    }
}

/// Whether `name` fits `pattern`, in which `*` stands for any run of characters.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            let starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            starts.into_iter().any(|at| matches(tail, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rule_that_matches_wins() {
        let policy = ResidencyPolicy::recompute_all()
            .with_rule("encoder.*", Residency::Keep)
            .with_rule("encoder.level_1.*", Residency::Recompute);
        assert_eq!(policy.of("decoder.conv_in"), Residency::Recompute);
        assert_eq!(policy.of("encoder.level_0.res_0"), Residency::Keep);
        assert_eq!(policy.of("encoder.level_1.res_0"), Residency::Recompute);
    }

    #[test]
    fn inside_a_recomputed_segment_only_rules_of_its_own_count() {
        let all = ResidencyPolicy::recompute_all();
        assert_eq!(all.inside("decoder.level_0"), ResidencyPolicy::keep());
        let nested = all.with_rule("decoder.*", Residency::Recompute).with_rule("*.res_*", Residency::Recompute);
        let inside = nested.inside("decoder.level_0");
        assert_eq!(inside.of("decoder.level_0.res_0"), Residency::Recompute);
        assert_eq!(inside.of("decoder.level_0.attention_0"), Residency::Keep);
        let kept = nested.with_rule("decoder.level_0", Residency::Keep);
        assert_eq!(kept.inside("decoder.level_0"), kept);
    }

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        for (pattern, name, expected) in [
            ("a.b", "a.b", true),
            ("a.b", "a.b.c", false),
            ("*", "", true),
            ("*.res_*", "encoder.level_0.res_0", true),
            ("*.res_*", "encoder.level_0.conv", false),
            ("a*b*c", "a--b--c", true),
            ("a*b*c", "a--c--b", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_rule_that_matches_nothing_is_named_with_the_nearest_segment() {
        let policy = ResidencyPolicy::keep()
            .with_rule("encoder.*", Residency::Recompute)
            .with_rule("decoder.levl_0", Residency::Recompute)
            .with_rule("nothing", Residency::Keep);
        let errors = policy.validate(["encoder.level_0", "decoder.level_0"]);
        let found: Vec<_> = errors.iter().map(|error| (error.found.as_str(), error.help.as_str())).collect();
        let expected = [
            ("`decoder.levl_0`, which names no segment", "did you mean `decoder.level_0`?"),
            ("`nothing`, which names no segment", "`*` stands for any text, as in `decoder.*`"),
        ];
        assert_eq!(found, expected);
        assert_eq!(errors[0].expected, "names of segments: encoder.level_0, decoder.level_0");
    }

    #[test]
    fn a_policy_reads_back_as_it_was_written() {
        let policy = ResidencyPolicy::keep().with_rule("decoder.*", Residency::Recompute);
        let policy = policy.with_storage("*", Storage::Int8).with_offload_folder("scratch");
        let text = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<ResidencyPolicy>(&text).unwrap(), policy);
    }
}
