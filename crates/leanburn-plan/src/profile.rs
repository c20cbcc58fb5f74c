//! What each segment of a recorded step keeps, needs and takes: the numbers that [`chain`](crate::chain) plans with.

use crate::chain::Choice;
use crate::{Cause, Rates, Timeline};

/// The outermost segments of a step, each run by one option.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    /// Each segment's name and numbers, in the order in which they first ran.
    pub segments: Vec<(String, Choice)>,
    /// The most bytes while no segment runs, without what segments have saved.
    pub outside: u64,
}

impl Profile {
    pub fn of(timeline: &Timeline, rates: &Rates) -> Self {
        let tops: Vec<usize> =
            (0..timeline.segments.len()).filter(|&index| timeline.parents[index].is_none()).collect();
        let place = |segment: usize| tops.iter().position(|&top| top == timeline.outermost(segment));
        let events = timeline.events.len();
        let mut saved = vec![vec![0i64; events + 1]; tops.len()];
        for block in timeline.blocks.iter().filter(|block| block.cause == Cause::SavedActivations) {
            if let Some(segment) = block.segment.and_then(place) {
                saved[segment][block.born.min(events)] += block.bytes.get() as i64;
                saved[segment][(block.last + 1).min(events)] -= block.bytes.get() as i64;
            }
        }
        for changes in &mut saved {
            let mut sum = 0;
            changes.iter_mut().for_each(|change| {
                sum += *change;
                *change = sum;
            });
        }
        let mut choices = vec![Choice::default(); tops.len()];
        let mut outside = 0;
        for (at, event) in timeline.events.iter().enumerate() {
            let running = event.segment.and_then(place);
            let others = |segment: &usize| Some(*segment) != running;
            let around: i64 = (0..tops.len()).filter(others).map(|segment| saved[segment][at]).sum();
            let own = event.during.get().saturating_sub(around as u64);
            match running {
                None => outside = outside.max(own),
                Some(segment) => {
                    choices[segment].own = choices[segment].own.max(own);
                    choices[segment].seconds += rates.seconds_of(event);
                }
            }
            for segment in (0..tops.len()).filter(others) {
                choices[segment].saved = choices[segment].saved.max(saved[segment][at] as u64);
            }
        }
        let names = tops.iter().map(|&top| timeline.segments[top].clone());
        Self { segments: names.zip(choices).collect(), outside }
    }

    /// The numbers of the segment called `name`.
    pub fn choice(&self, name: &str) -> Option<Choice> {
        self.segments.iter().find(|(segment, _)| segment == name).map(|(_, choice)| *choice)
    }
}
