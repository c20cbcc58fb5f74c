//! The ranges that numbers must lie in.

use std::ops::{Bound, RangeBounds};

/// The largest count of anything (voxels on an axis, channels, steps kept) that makes sense.
pub const MANY: i32 = 1 << 16;

/// Limits of numbers that must be above zero.
pub const POSITIVE: (Bound<i32>, Bound<i32>) = (Bound::Excluded(0), Bound::Unbounded);

/// The range that numbers must lie in; whole bounds are all that a configuration needs.
#[derive(Debug)]
pub struct Limits {
    low: Bound<f64>,
    high: Bound<f64>,
}

impl Limits {
    /// From a range such as `1..`, `0..=1` or [`POSITIVE`].
    pub fn new(range: impl RangeBounds<i32>) -> Self {
        let number = |bound: Bound<&i32>| bound.map(|limit| f64::from(*limit));
        Self { low: number(range.start_bound()), high: number(range.end_bound()) }
    }

    /// These limits for a type without negative numbers, where no lower limit means zero.
    pub fn not_negative(&self) -> Self {
        let low = if self.low == Bound::Unbounded { Bound::Included(0.0) } else { self.low };
        Self { low, high: self.high }
    }

    /// Whether a number lies in the range; none that is not finite does.
    pub fn admits(&self, value: f64) -> bool {
        value.is_finite() && (self.low, self.high).contains(&value)
    }

    /// The range in words, as in "an integer from 1 to 8".
    pub fn describe(&self, noun: &str) -> String {
        use Bound::{Excluded, Included, Unbounded};
        if let (Included(low), Included(high)) = (self.low, self.high) {
            return format!("{noun} from {low} to {high}");
        }
        let low = match self.low {
            Included(low) => Some(format!("of at least {low}")),
            Excluded(low) => Some(format!("above {low}")),
            Unbounded => None,
        };
        let high = match self.high {
            Included(high) => Some(format!("of at most {high}")),
            Excluded(high) => Some(format!("below {high}")),
            Unbounded => None,
        };
        match (low, high) {
            (Some(low), Some(high)) => format!("{noun} {low} and {high}"),
            (Some(bound), None) | (None, Some(bound)) => format!("{noun} {bound}"),
            (None, None) => noun.to_owned(),
        }
    }
}
