//! Which segments of a chain to recompute: dynamic programming.
//!
//! In backward of a segment, memory holds the saved activations of those before it and its own need. Given both for every
//! option of running a segment, the search finds the fastest choice within a budget exactly. It goes along the chain and
//! drops each beginning that another one beats in both memory and time.

/// One option of running a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Choice {
    /// Saved activations, in bytes, seen by all later segments.
    pub saved: u64,
    /// The most bytes while the segment runs, forward or backward, without what other segments have saved.
    pub own: u64,
    /// Seconds.
    pub seconds: f64,
}

/// The beginning of a chain with a choice for each segment so far.
struct Beginning {
    saved: u64,
    seconds: f64,
    choices: Vec<usize>,
}

/// The fastest choices whose peak is within the budget; `None` if there are none.
pub(crate) fn fastest(stages: &[Vec<Choice>], budget: u64) -> Option<Vec<usize>> {
    let mut beginnings = vec![Beginning { saved: 0, seconds: 0.0, choices: Vec::new() }];
    for stage in stages {
        let mut longer: Vec<Beginning> = Vec::new();
        for beginning in &beginnings {
            for (index, choice) in stage.iter().enumerate().filter(|(_, choice)| beginning.saved + choice.own <= budget)
            {
                let mut choices = beginning.choices.clone();
                choices.push(index);
                let (saved, seconds) = (beginning.saved + choice.saved, beginning.seconds + choice.seconds);
                longer.push(Beginning { saved, seconds, choices });
            }
        }
        beginnings = best_of(longer);
    }
    beginnings.into_iter().min_by(|one, other| one.seconds.total_cmp(&other.seconds)).map(|found| found.choices)
}

/// Those of which no other keeps at most as much in at most the time.
fn best_of(mut beginnings: Vec<Beginning>) -> Vec<Beginning> {
    beginnings.sort_by(|one, other| one.saved.cmp(&other.saved).then(one.seconds.total_cmp(&other.seconds)));
    let mut best: Vec<Beginning> = Vec::new();
    for beginning in beginnings {
        if best.last().is_none_or(|last| beginning.seconds < last.seconds) {
            best.push(beginning);
        }
    }
    best
}

/// The peak of a choice for each segment.
pub(crate) fn peak(stages: &[Vec<Choice>], choices: &[usize]) -> u64 {
    let (mut saved, mut peak) = (0, 0);
    for (stage, &choice) in stages.iter().zip(choices) {
        peak = peak.max(saved + stage[choice].own);
        saved += stage[choice].saved;
    }
    peak
}

/// The smallest peak that any choice has, to the byte.
pub(crate) fn smallest_peak(stages: &[Vec<Choice>]) -> u64 {
    let most: u64 = stages.iter().flatten().map(|choice| choice.saved + choice.own).sum();
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low) / 2;
        match fastest(stages, middle) {
            Some(_) => high = middle,
            None => low = middle + 1,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn choices() -> impl Strategy<Value = Vec<Vec<Choice>>> {
        let choice = (0u64..50, 0u64..100, 1u32..20);
        let choice = choice.prop_map(|(saved, own, seconds)| Choice { saved, own, seconds: f64::from(seconds) });
        prop::collection::vec(prop::collection::vec(choice, 1..4), 1..6)
    }

    fn seconds(stages: &[Vec<Choice>], choices: &[usize]) -> f64 {
        stages.iter().zip(choices).map(|(stage, &choice)| stage[choice].seconds).sum()
    }

    /// Every assignment.
    fn all(stages: &[Vec<Choice>]) -> Vec<Vec<usize>> {
        stages.iter().fold(vec![Vec::new()], |beginnings, stage| {
            let longer = |beginning: &Vec<usize>| {
                (0..stage.len()).map(|choice| [beginning.as_slice(), &[choice]].concat()).collect::<Vec<_>>()
            };
            beginnings.iter().flat_map(longer).collect()
        })
    }

    proptest! {
        #[test]
        fn nothing_within_the_budget_is_faster(stages in choices(), budget in 0u64..300) {
            let within = all(&stages).into_iter().filter(|choices| peak(&stages, choices) <= budget);
            let best = within.map(|choices| seconds(&stages, &choices)).min_by(f64::total_cmp);
            let found = fastest(&stages, budget);
            prop_assert!(found.iter().all(|choices| peak(&stages, choices) <= budget));
            prop_assert_eq!(found.map(|choices| seconds(&stages, &choices)), best);
        }

        #[test]
        fn the_smallest_peak_is_that_of_some_choice(stages in choices()) {
            let smallest = all(&stages).iter().map(|choices| peak(&stages, choices)).min();
            prop_assert_eq!(Some(smallest_peak(&stages)), smallest);
        }
    }
}
