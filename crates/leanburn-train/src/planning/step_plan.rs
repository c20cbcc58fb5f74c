//! What a step will need, and where.

use std::fmt;

use leanburn_common::Bytes;
use leanburn_plan::Timeline;

/// What a training step will need; printed, one line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepPlan {
    /// What lives when: operations, blocks of memory, segments. Of several micro-batches two are in it.
    pub timeline: Timeline,
    /// The most that the step may hold: its planned peak with a [margin](leanburn_plan::bound), on a card the gaps in the
    /// pool's pages, and other bytes.
    pub needed: Bytes,
    /// Seconds of the step, by the device's rates.
    pub seconds: f64,
    /// What there is, where that is known.
    pub budget: Option<Bytes>,
}

impl StepPlan {
    /// The most that the step is planned to hold at once, without margin and other bytes.
    pub fn peak(&self) -> Bytes {
        self.timeline.peak()
    }

    /// Whether it fits; `None` without a budget.
    pub fn fits(&self) -> Option<bool> {
        self.budget.map(|budget| self.needed <= budget)
    }
}

impl fmt::Display for StepPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.fits(), self.budget) {
            (Some(fits), Some(budget)) => {
                write!(f, "{}: needs {} of {budget}", if fits { "fits" } else { "does not fit" }, self.needed)?;
            }
            _ => write!(f, "needs {}", self.needed)?,
        }
        if let Some(event) = self.timeline.events.get(self.timeline.peak_index()) {
            let segment = event.segment.map(|segment| format!(" of {}", self.timeline.segments[segment]));
            write!(f, ", most in {}, {}{}", event.phase, event.operation, segment.unwrap_or_default())?;
        }
        write!(f, "; about {:.3} s a step", self.seconds)
    }
}
