//! What the ranks of a run do next.

use leanburn_train::Group;

/// What all ranks do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The run does not get better.
    Over,
    /// The run was asked to stop.
    Interrupted,
    /// The leading rank saves, and asks the others for their states.
    Save,
    /// A step.
    Step,
}

impl Next {
    /// What this rank and the others come to: the first of what any of them says, a step if none says anything.
    pub fn of<const N: usize>(group: &Group, here: [(Self, bool); N]) -> Self {
        let all = [Self::Save, Self::Over, Self::Interrupted];
        let bits = |next: Self| here.iter().any(|(what, is_said)| *what == next && *is_said);
        let here = all.map(|next| u8::from(bits(next)));
        let there = group.ranks().gather(&here);
        let is_said = |index: usize| there.iter().any(|rank| rank.get(index) == Some(&1));
        all.into_iter().enumerate().find(|(index, _)| is_said(*index)).map_or(Self::Step, |(_, next)| next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_save_comes_first_and_a_step_last() {
        let of = |save, over, stopped| {
            let said = [(Next::Interrupted, stopped), (Next::Save, save), (Next::Over, over)];
            Next::of(&Group::default(), said)
        };
        assert_eq!(of(false, false, false), Next::Step);
        assert_eq!(of(false, true, true), Next::Over);
        assert_eq!(of(false, false, true), Next::Interrupted);
        assert_eq!(of(true, true, true), Next::Save);
    }
}
