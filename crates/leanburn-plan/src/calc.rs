//! The classic calculator: a rule of thumb for the memory of activations, as guides for two-dimensional models give it.
//!
//! One layer is `batch x seq_len x height x width x hidden_dim` values of 4 bytes, a network is its number of layers times
//! that, and it is safe where that is below 70 % of the card, or another share. The rule counts one f32 volume a layer, each at full
//! resolution, and nothing else: see [`NOT_COUNTED`].

use serde::Serialize;

/// What the rule leaves out, in words.
pub const NOT_COUNTED: [&str; 6] = [
    "weights, gradients and optimizer states",
    "saved activations other than the output of a layer, and the gradients of activations",
    "workspaces of kernels, attention's scores among them",
    "levels of lower resolution or other widths",
    "a depth axis, unless it is given as seq_len",
    "the allocator's rounding and the driver's context",
];

/// Bytes of a value in f32.
const VALUE_BYTES: u64 = 4;

/// The share of a card that the rule takes for safe to fill, in percent.
pub const SAFE_PERCENT: u32 = 70;

/// The largest card that the rule is asked about, in GB: a pebibyte.
const LARGEST_CARD: f64 = 1_048_576.0;

/// What the rule is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Calc {
    /// Samples in a batch.
    pub batch: u32,
    /// Steps of a sequence, or the depth of a volume; 1 for images.
    pub seq_len: u32,
    /// Height in pixels.
    pub height: u32,
    /// Width in pixels.
    pub width: u32,
    /// Channels of every layer.
    pub hidden_dim: u32,
    /// Layers.
    pub num_layers: u32,
    /// Memory of the card in GB as it is sold, each counted as a GiB.
    pub gpu_memory: f64,
    /// The share of the card that is safe to fill, in percent, from 1 to 100: [`SAFE_PERCENT`], or less to be careful.
    pub threshold: u32,
}

/// What the rule answers; all sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// One layer.
    pub layer_bytes: u64,
    /// All layers.
    pub total_bytes: u64,
    /// The card.
    pub gpu_bytes: u64,
    /// What the total must stay below: the threshold's share of the card, rounded down.
    pub available_bytes: u64,
    /// Whether it does.
    pub is_safe: bool,
    /// What to change if it does not.
    pub advice: Option<Advice>,
}

/// What brings the total down, in the order to try it. Each alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// A smaller batch.
    pub batch: SmallerBatch,
    /// A lower resolution.
    pub resolution: LowerResolution,
    /// The same batch in parts.
    pub accumulation: Accumulation,
    /// Activations of 2 bytes a value.
    pub mixed_precision: Outcome,
}

/// What a change comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// All layers, in bytes.
    pub total_bytes: u64,
    /// Whether that is safe.
    pub is_safe: bool,
}

/// The batch times available over total, rounded down, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SmallerBatch {
    /// The batch.
    pub batch: u32,
    /// What it comes to.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Each side times the square root of available over total, rounded down, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LowerResolution {
    /// Height in pixels.
    pub height: u32,
    /// Width in pixels.
    pub width: u32,
    /// What it comes to.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The fewest micro-batches, none above [`SmallerBatch`], that add up to the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Accumulation {
    /// Micro-batches before a step of the optimizer.
    pub steps: u32,
    /// Samples in the largest of them.
    pub micro_batch: u32,
    /// What it comes to.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// A question that has no answer.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CalcError {
    /// A number that is zero.
    #[error("expected a whole number of at least 1, found 0")]
    Zero {
        /// The field of [`Calc`].
        field: &'static str,
    },
    /// A card of no or an absurd size.
    #[error("expected the memory of a card in GB, above 0 and at most {LARGEST_CARD}, found {found}")]
    GpuMemory {
        /// What was given, in GB.
        found: f64,
    },
    /// A share of the card that is none.
    #[error("expected a share of the card from 1 to 100 percent, found {found}")]
    Threshold {
        /// What was given, in percent.
        found: u32,
    },
    /// A product past what 64 bits hold.
    #[error("expected less than 2^64 bytes in all, found more")]
    TooLarge,
}

impl CalcError {
    /// The field of [`Calc`] that is wrong; none if it is all of them together.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::Zero { field } => Some(field),
            Self::GpuMemory { .. } => Some("gpu_memory"),
            Self::Threshold { .. } => Some("threshold"),
            Self::TooLarge => None,
        }
    }
}

impl Calc {
    /// Applies the rule.
    ///
    /// # Errors
    ///
    /// Every number that is zero, a card of no size, a share that is none, and a total past 2^64 bytes.
    ///
    /// # Example
    ///
    /// ```
    /// use leanburn_plan::calc::{Calc, SAFE_PERCENT};
    ///
    /// let (height, width, hidden_dim, threshold) = (256, 256, 512, SAFE_PERCENT);
    /// let calc = Calc { batch: 16, seq_len: 1, height, width, hidden_dim, num_layers: 10, gpu_memory: 24.0, threshold };
    /// let estimate = calc.estimate().unwrap();
    /// assert_eq!(estimate.total_bytes, 20 << 30);
    /// assert_eq!(estimate.advice.unwrap().batch.batch, 13);
    /// ```
    pub fn estimate(&self) -> Result<Estimate, Vec<CalcError>> {
        let mut errors: Vec<CalcError> = self.zeros().map(|field| CalcError::Zero { field }).collect();
        if !(self.gpu_memory > 0.0 && self.gpu_memory <= LARGEST_CARD) {
            errors.push(CalcError::GpuMemory { found: self.gpu_memory });
        }
        if !(1..=100).contains(&self.threshold) {
            errors.push(CalcError::Threshold { found: self.threshold });
        }
        let sizes = self.sizes();
        if sizes.is_none() {
            errors.push(CalcError::TooLarge);
        }
        let Some((layer_bytes, total_bytes)) = sizes.filter(|_| errors.is_empty()) else {
            return Err(errors);
        };
        let gpu_bytes = self.gpu_bytes();
        let available_bytes = (self.percents_of_card() / 100) as u64;
        let is_safe = self.outcome(total_bytes).is_safe;
        let advice = (!is_safe).then(|| self.advice(total_bytes));
        Ok(Estimate { layer_bytes, total_bytes, gpu_bytes, available_bytes, is_safe, advice })
    }

    fn zeros(&self) -> impl Iterator<Item = &'static str> {
        let fields = [
            ("batch", self.batch),
            ("seq_len", self.seq_len),
            ("height", self.height),
            ("width", self.width),
            ("hidden_dim", self.hidden_dim),
            ("num_layers", self.num_layers),
        ];
        fields.into_iter().filter(|(_, value)| *value == 0).map(|(name, _)| name)
    }

    fn gpu_bytes(&self) -> u64 {
        (self.gpu_memory * f64::from(1 << 30)).round() as u64
    }

    /// Hundred times the bytes that are safe to fill.
    fn percents_of_card(&self) -> u128 {
        u128::from(self.gpu_bytes()) * u128::from(self.threshold)
    }

    /// Bytes of a layer and of all, unless they are past 2^64.
    fn sizes(&self) -> Option<(u64, u64)> {
        let factors = [self.batch, self.seq_len, self.height, self.width, self.hidden_dim];
        let layer = factors.into_iter().try_fold(VALUE_BYTES, |product, factor| product.checked_mul(factor.into()))?;
        Some((layer, layer.checked_mul(self.num_layers.into())?))
    }

    fn outcome(&self, total_bytes: u64) -> Outcome {
        let is_safe = u128::from(total_bytes) * 100 < self.percents_of_card();
        Outcome { total_bytes, is_safe }
    }

    /// What this comes to with some fields made smaller.
    fn smaller(&self, change: impl FnOnce(&mut Self)) -> Outcome {
        let mut smaller = *self;
        change(&mut smaller);
        self.outcome(smaller.sizes().map_or(u64::MAX, |(_, total)| total))
    }

    fn advice(&self, total_bytes: u64) -> Advice {
        // whole numbers only, at most 2^64 x 2^50 x 100: no rounding but the one at the end, and no overflow
        let available = self.percents_of_card();
        let total = u128::from(total_bytes) * 100;
        let batch = (u128::from(self.batch) * available / total).max(1) as u32;
        let side = |side: u32| (u128::from(side).pow(2) * available / total).isqrt().max(1) as u32;
        let (height, width) = (side(self.height), side(self.width));
        let steps = self.batch.div_ceil(batch);
        let micro_batch = self.batch.div_ceil(steps);
        Advice {
            batch: SmallerBatch { batch, outcome: self.smaller(|calc| calc.batch = batch) },
            resolution: LowerResolution {
                height,
                width,
                outcome: self.smaller(|calc| (calc.height, calc.width) = (height, width)),
            },
            accumulation: Accumulation { steps, micro_batch, outcome: self.smaller(|calc| calc.batch = micro_batch) },
            mixed_precision: self.outcome(total_bytes / 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn image(batch: u32, side: u32, hidden_dim: u32, num_layers: u32, gpu_memory: f64) -> Calc {
        Calc {
            batch,
            seq_len: 1,
            height: side,
            width: side,
            hidden_dim,
            num_layers,
            gpu_memory,
            threshold: SAFE_PERCENT,
        }
    }

    #[test]
    fn the_guides_safe_case() {
        let estimate = image(8, 128, 256, 10, 24.0).estimate().unwrap();
        assert_eq!(estimate.layer_bytes, 1 << 27);
        assert_eq!(estimate.total_bytes, 10 << 27);
        assert_eq!(estimate.gpu_bytes, 24 << 30);
        assert_eq!(estimate.available_bytes, (168u64 << 30) / 10);
        assert!(estimate.is_safe && estimate.advice.is_none());
    }

    #[test]
    fn the_guides_case_over_budget() {
        let estimate = image(16, 256, 512, 10, 24.0).estimate().unwrap();
        assert_eq!(estimate.layer_bytes, 2 << 30);
        assert_eq!(estimate.total_bytes, 20 << 30);
        assert!(!estimate.is_safe);
        let advice = estimate.advice.unwrap();
        assert_eq!(advice.batch.batch, 13);
        assert_eq!((advice.resolution.height, advice.resolution.width), (234, 234));
        assert_eq!((advice.accumulation.steps, advice.accumulation.micro_batch), (2, 8));
        assert_eq!(advice.mixed_precision, Outcome { total_bytes: 10 << 30, is_safe: true });
        assert_eq!(advice.batch.outcome, Outcome { total_bytes: 65 << 28, is_safe: true });
        assert!(advice.resolution.outcome.is_safe && advice.accumulation.outcome.is_safe);
    }

    #[test]
    fn a_sequence_multiplies() {
        let one = image(2, 64, 32, 4, 8.0);
        let many = Calc { seq_len: 7, ..one };
        assert_eq!(many.estimate().unwrap().total_bytes, 7 * one.estimate().unwrap().total_bytes);
    }

    #[test]
    fn seventy_percent_is_not_below_seventy_percent() {
        // 7 layers of 1 GiB on a card of 10
        let calc = image(1, 1 << 10, 1 << 8, 7, 10.0);
        let estimate = calc.estimate().unwrap();
        assert_eq!(estimate.total_bytes, estimate.available_bytes);
        assert!(!estimate.is_safe);
        assert!(Calc { num_layers: 6, ..calc }.estimate().unwrap().is_safe);
        let advice = Calc { batch: 2, ..calc }.estimate().unwrap().advice.unwrap();
        assert_eq!(advice.batch.batch, 1);
        assert!(!advice.batch.outcome.is_safe, "the rule's own number is at the limit, not below it");
    }

    #[test]
    fn a_careful_threshold_leaves_less() {
        let of = |threshold| Calc { threshold, ..image(11, 256, 512, 10, 24.0) }.estimate().unwrap();
        assert_eq!((of(70).is_safe, of(60).is_safe, of(57).is_safe), (true, true, false)); // 13.75 of 24 GiB
        assert_eq!(of(57).advice.unwrap().batch.batch, 10);
    }

    #[test]
    fn nothing_goes_below_one() {
        let advice = image(1, 1, 1 << 20, 1 << 20, 0.001).estimate().unwrap().advice.unwrap();
        assert_eq!(advice.batch.batch, 1);
        assert_eq!((advice.resolution.height, advice.resolution.width), (1, 1));
        assert_eq!((advice.accumulation.steps, advice.accumulation.micro_batch), (1, 1));
        assert!(!advice.batch.outcome.is_safe && !advice.mixed_precision.is_safe);
    }

    #[test]
    fn all_errors_at_once() {
        let nothing = Calc { batch: 0, seq_len: 0, num_layers: 0, ..image(1, 0, 0, 1, 1.0) };
        let fields: Vec<_> = nothing.estimate().unwrap_err().iter().filter_map(CalcError::field).collect();
        assert_eq!(fields, ["batch", "seq_len", "height", "width", "hidden_dim", "num_layers"]);
        let calc = Calc { height: 0, hidden_dim: 0, gpu_memory: -1.0, threshold: 101, ..image(1, 1, 1, 1, 1.0) };
        let fields: Vec<_> = calc.estimate().unwrap_err().iter().map(CalcError::field).collect();
        assert_eq!(fields, [Some("height"), Some("hidden_dim"), Some("gpu_memory"), Some("threshold")]);
        for gpu_memory in [0.0, f64::NAN, f64::INFINITY, 2e6] {
            let errors = image(1, 1, 1, 1, gpu_memory).estimate().unwrap_err();
            assert!(matches!(errors[..], [CalcError::GpuMemory { .. }]), "{gpu_memory}");
        }
        assert_eq!(image(u32::MAX, u32::MAX, 1, 1, 24.0).estimate(), Err(vec![CalcError::TooLarge]));
        assert_eq!(image(1 << 15, 1 << 15, 1 << 15, 1 << 2, 24.0).estimate(), Err(vec![CalcError::TooLarge]));
    }

    proptest! {
        #[test]
        fn advice_keeps_its_word(
            (batch, seq_len, height, width) in (1u32..5000, 1u32..50, 1u32..5000, 1u32..5000),
            (hidden_dim, num_layers, gpu_memory, threshold) in (1u32..2000, 1u32..100, 0.01f64..100.0, 1u32..=100),
        ) {
            let calc = Calc { batch, seq_len, height, width, hidden_dim, num_layers, gpu_memory, threshold };
            let estimate = calc.estimate().unwrap();
            prop_assert_eq!(estimate.is_safe, estimate.advice.is_none());
            let Some(advice) = estimate.advice else { return Ok(()) };
            let limit = estimate.available_bytes;
            prop_assert!(advice.batch.batch == 1 || advice.batch.outcome.total_bytes <= limit);
            let larger = Calc { batch: advice.batch.batch + 1, ..calc }.estimate().unwrap();
            prop_assert!(larger.total_bytes > limit, "a larger batch would do");
            let sides = advice.resolution;
            prop_assert!(sides.height == 1 || sides.width == 1 || sides.outcome.total_bytes <= limit);
            prop_assert!(sides.height <= height && sides.width <= width);
            let Accumulation { steps, micro_batch, .. } = advice.accumulation;
            prop_assert!(micro_batch <= advice.batch.batch);
            prop_assert!(steps * micro_batch >= batch && steps * micro_batch < batch + steps);
        }

        #[test]
        fn any_numbers_get_an_answer(
            numbers in any::<[u32; 6]>(), small in any::<[u8; 6]>(), gpu_memory in any::<f64>(), card in 1e-9f64..1e6,
        ) {
            let ask = |[batch, seq_len, height, width, hidden_dim, num_layers]: [u32; 6], gpu_memory| {
                let threshold = SAFE_PERCENT;
                Calc { batch, seq_len, height, width, hidden_dim, num_layers, gpu_memory, threshold }.estimate()
            };
            let _ = ask(numbers, gpu_memory);
            prop_assert!(ask(small.map(u32::from), card).is_ok() || small.contains(&0));
        }
    }
}
