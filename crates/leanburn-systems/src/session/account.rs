//! Where the memory of a run went: its peak, by cause.

use leanburn_common::Bytes;
use leanburn_train::LearnerMemory;

use crate::shared::Source;

/// What a run held at its peak. The causes add up to the peak.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MemoryAccount {
    /// Each learner's name and what it holds between steps.
    pub learners: Vec<(&'static str, LearnerMemory)>,
    /// What the run is trained on.
    pub source: Source,
    /// Volumes or fields held in memory, and those that are read again.
    pub data: Bytes,
    /// Batches that wait for their step, beside the one of the step.
    pub batches: Bytes,
    /// The program itself.
    pub program: Bytes,
    /// The most that was held at once, if it was measured.
    pub peak: Option<Bytes>,
    /// The most that was [resident](crate::resident_peak) at once, code and libraries among it, if the system says so.
    pub resident: Option<Bytes>,
    /// The step's peak as it was planned.
    pub planned_step: Bytes,
}

/// One cause of memory use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryCause {
    /// What takes the memory, such as "weights".
    pub cause: String,
    /// How much it takes at the peak.
    pub size: Bytes,
    /// More about it, such as how to make it smaller.
    pub note: String,
}

impl MemoryAccount {
    /// The causes; the last is what is left of the peak: activations, and workspace of operations.
    pub fn causes(&self) -> Vec<MemoryCause> {
        let sum =
            |part: fn(&LearnerMemory) -> Bytes| self.learners.iter().map(|(_, memory)| part(memory)).sum::<Bytes>();
        let learners = self.learners.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" and ");
        let in_memory = format!("{} in memory", self.source.noun());
        let weights = sum(|memory| memory.weights);
        let causes = [
            ("weights", weights, format!("f32 masters of {learners}")),
            ("gradients", sum(|memory| memory.gradients), "accumulated over the micro-batches".to_string()),
            ("optimizer states", sum(|memory| memory.optimizer), states_note(sum(|memory| memory.optimizer), weights)),
            ("average of weights", sum(|memory| memory.average), "for validation and export".to_string()),
            ("target network", sum(|memory| memory.target), "an average that the loss compares with".to_string()),
            ("teacher", sum(|memory| memory.teacher), "frozen weights".to_string()),
            (&in_memory, self.data, format!("{} makes it smaller", self.source.cache_key())),
            ("batches that wait", self.batches, format!("{}.prefetch makes it smaller", self.source.section())),
            ("the program itself", self.program, "whatever the model".to_string()),
        ];
        let known: Bytes = causes.iter().map(|(_, size, _)| *size).sum();
        let rest = (
            "activations",
            self.peak.unwrap_or_default().saturating_sub(known),
            "and workspace: what is left of the peak".to_string(),
        );
        let causes = causes.into_iter().chain([rest]).filter(|(_, size, _)| *size > Bytes(0));
        causes.map(|(cause, size, note)| MemoryCause { cause: cause.into(), size, note }).collect()
    }

    /// The peak as it was planned: the step's, data in memory, batches that wait, and the program.
    pub fn planned(&self) -> Bytes {
        self.planned_step + self.data + self.batches + self.program
    }
}

/// What the states of optimizers are, of their size and that of the weights.
fn states_note(states: Bytes, weights: Bytes) -> String {
    match states == weights + weights {
        true => "two moments a weight".to_string(),
        false => format!("{:.2} times the weights", states.get() as f64 / weights.get().max(1) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_add_up_to_the_peak() {
        let memory = LearnerMemory {
            weights: Bytes(10),
            gradients: Bytes(10),
            optimizer: Bytes(20),
            ..LearnerMemory::default()
        };
        let account = MemoryAccount {
            learners: vec![("a", memory), ("b", memory)],
            source: Source::Volumes,
            data: Bytes(5),
            batches: Bytes(6),
            program: Bytes(7),
            peak: Some(Bytes(1000)),
            resident: None,
            planned_step: Bytes(900),
        };
        let causes = account.causes();
        assert_eq!(causes.iter().map(|cause| cause.size).sum::<Bytes>(), Bytes(1000));
        assert!(causes.iter().any(|cause| cause.cause == "optimizer states" && cause.size == Bytes(40)));
        assert!(causes.iter().all(|cause| cause.cause != "average of weights"), "nothing is said of what is not there");
        assert_eq!(account.planned(), Bytes(918));
    }
}
