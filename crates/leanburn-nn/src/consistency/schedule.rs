//! How many noise levels there are, and how fast the target follows, as training goes.

/// The number of noise levels at a step of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curriculum {
    /// Always as many: distillation.
    Fixed {
        /// Noise levels.
        levels: usize,
    },
    /// More and more, their square growing evenly: `ceil(sqrt(k / K ((end + 1)^2 - start^2) + start^2) - 1) + 1` at step k of K.
    Progressive {
        /// Gaps between levels at the begin.
        start: usize,
        /// Gaps at the end.
        end: usize,
    },
    /// Twice as many after equal parts of the training: `min(start 2^floor(k / K'), end) + 1`,
    /// `K' = floor(K / (log2 floor(end / start) + 1))`.
    Doubling {
        /// Gaps between levels at the begin.
        start: usize,
        /// Gaps at the end.
        end: usize,
    },
}

impl Curriculum {
    /// Noise levels at a step of so many, at least 2.
    pub fn levels(&self, step: usize, steps: usize) -> usize {
        match *self {
            Self::Fixed { levels } => levels.max(2),
            Self::Progressive { .. } | Self::Doubling { .. } => self.gaps(step, steps) + 1,
        }
    }

    /// Gaps between levels.
    fn gaps(&self, step: usize, steps: usize) -> usize {
        match *self {
            Self::Fixed { levels } => levels.max(2) - 1,
            Self::Progressive { start, end } => {
                let (start, end, share) = (start as f64, end as f64, step as f64 / steps.max(1) as f64);
                let square = share * ((end + 1.0).powi(2) - start * start) + start * start;
                ((square.sqrt() - 1.0).ceil() as usize).max(1)
            }
            Self::Doubling { start, end } => {
                let start = start.max(1);
                let doublings = ((end / start).max(1) as f64).log2();
                let part = ((steps as f64 / (doublings + 1.0)).floor() as usize).max(1);
                // no number of gaps doubles more often than this
                let doubled = (step / part).min(usize::BITS as usize - 1);
                start.saturating_mul(1 << doubled).min(end).max(1)
            }
        }
    }
}

/// How much of the target network stays at a step of training: `target = mu target + (1 - mu) model`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TargetEma {
    /// Nothing: the target is the model itself.
    None,
    /// Always the same.
    Fixed(f64),
    /// More with more noise levels: `exp(start gaps ln(start) / gaps)`, as long a memory in units of noise.
    Adaptive {
        /// That of the begin.
        start: f64,
        /// Gaps between levels at the begin.
        start_gaps: usize,
    },
}

impl TargetEma {
    /// The share that stays, at a step of so many.
    pub fn decay(&self, curriculum: Curriculum, step: usize, steps: usize) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Fixed(decay) => decay,
            Self::Adaptive { start, start_gaps } => {
                (start.ln() * start_gaps as f64 / curriculum.gaps(step, steps) as f64).exp()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `create_ema_and_scales_fn` of openai/consistency_models for 2 to 150 scales and a start of 0.9, in 800,000 steps.
    #[test]
    fn more_levels_and_a_longer_memory() {
        let curriculum = Curriculum::Progressive { start: 2, end: 150 };
        let ema = TargetEma::Adaptive { start: 0.9, start_gaps: 2 };
        let at = |step| (curriculum.levels(step, 800_000), ema.decay(curriculum, step, 800_000));
        for (step, levels, decay) in [(0, 2, 0.81), (1, 3, 0.9), (200_000, 76, 0.997194), (800_000, 151, 0.998596)] {
            let found = at(step);
            assert_eq!(found.0, levels, "step {step}");
            assert!((found.1 - decay).abs() < 1e-6, "step {step}: {found:?}");
        }
        assert_eq!(TargetEma::Fixed(0.95).decay(Curriculum::Fixed { levels: 40 }, 5, 10), 0.95);
        assert_eq!(TargetEma::None.decay(curriculum, 5, 10), 0.0);
        assert_eq!(Curriculum::Fixed { levels: 40 }.levels(3, 10), 40);
    }

    /// s0 = 10 and s1 = 1280: eight parts, the last with all levels.
    #[test]
    fn levels_double() {
        let curriculum = Curriculum::Doubling { start: 10, end: 1280 };
        let steps = 400_000;
        for (step, levels) in [(0, 11), (49_999, 11), (50_000, 21), (125_000, 41), (350_000, 1281), (399_999, 1281)] {
            assert_eq!(curriculum.levels(step, steps), levels, "step {step}");
        }
        assert_eq!(Curriculum::Doubling { start: 4, end: 10 }.levels(9, 10), 9, "end is no power of two times start");
        assert_eq!(Curriculum::Doubling { start: 3, end: 10 }.levels(999, 1000), 11, "nor is its floor");
    }
}
