//! Whether a step fits, in words.

use leanburn_common::Bytes;

use super::at_peak::share;
use crate::report::memory::size_text;

/// Whether the step fits.
pub(super) struct FitCheck {
    /// How it looks.
    pub class: &'static str,
    pub word: &'static str,
    pub detail: String,
}

impl FitCheck {
    pub fn new(need: u64, budget: Option<Bytes>) -> Self {
        let needs = format!("The step needs {}", size_text(Bytes(need)));
        let Some(budget) = budget else {
            return Self { class: "open", word: "No budget given", detail: format!("{needs}.") };
        };
        let (size, budget) = (size_text(budget), budget.get());
        let margin = budget.abs_diff(need);
        let margin = format!("{} ({} of the budget)", size_text(Bytes(margin)), share(margin, budget));
        match need <= budget {
            true => Self { class: "fits", word: "Fits", detail: format!("{needs} of {size}; {margin} to spare.") },
            false => {
                Self { class: "over", word: "Does not fit", detail: format!("{needs} of {size}; {margin} too much.") }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PlanPage;
    use super::super::tests::plain;
    use super::*;

    #[test]
    fn the_verdict_counts_what_is_beyond_and_says_the_margin() {
        let fit_check = |budget, other_bytes| {
            let other_bytes = vec![("context".to_string(), Bytes(other_bytes))];
            let page = PlanPage { budget, other_bytes, ..plain() };
            let fit_check = FitCheck::new(page.at_peak().need(), page.budget);
            assert!(
                page.render().unwrap().contains(&format!("<strong>{}</strong>{}", fit_check.word, fit_check.detail))
            );
            (fit_check.word, fit_check.detail)
        };
        let fits = "The step needs 200 B of 250 B; 50 B (20.0 % of the budget) to spare.";
        assert_eq!(fit_check(Some(Bytes(250)), 10), ("Fits", fits.to_string()));
        let over = "The step needs 260 B of 250 B; 10 B (4.0 % of the budget) too much.";
        assert_eq!(fit_check(Some(Bytes(250)), 70), ("Does not fit", over.to_string()));
        assert_eq!(fit_check(Some(Bytes(190)), 0).0, "Fits");
        assert_eq!(fit_check(None, 0), ("No budget given", "The step needs 190 B.".to_string()));
    }
}
