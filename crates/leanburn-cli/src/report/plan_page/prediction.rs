//! What was predicted beside what was measured.

use leanburn_common::Bytes;

use crate::report::memory::size_text;

/// A predicted size and what was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredictionRow {
    /// What was measured, such as `peak of the backward pass`.
    pub name: String,
    /// The planner's prediction.
    pub predicted: Bytes,
    /// What a real step needed.
    pub measured: Bytes,
}

/// A row of the table of predictions.
pub(super) struct Difference<'a> {
    pub name: &'a str,
    pub predicted: String,
    pub measured: String,
    /// Of the prediction from the measurement, in percent of the measurement.
    pub difference: String,
}

impl<'a> Difference<'a> {
    pub fn new(row: &'a PredictionRow) -> Self {
        let (predicted, measured) = (row.predicted.get() as f64, row.measured.get() as f64);
        let percent = 100.0 * (predicted - measured) / measured;
        Self {
            name: &row.name,
            predicted: size_text(row.predicted),
            measured: size_text(row.measured),
            difference: if measured > 0.0 { format!("{percent:+.2} %") } else { String::new() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_percent_of_the_measurement() {
        let difference = |predicted, measured| {
            let (predicted, measured) = (Bytes(predicted), Bytes(measured));
            Difference::new(&PredictionRow { name: String::new(), predicted, measured }).difference
        };
        let found = [difference(198, 200), difference(203, 200), difference(5, 0)];
        assert_eq!(found, ["-1.00 %", "+1.50 %", ""]);
    }
}
