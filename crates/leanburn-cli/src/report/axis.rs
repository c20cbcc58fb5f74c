//! An axis of a chart: its range, its ticks at round numbers, the way to write a number.

/// Numbers beyond this are not drawn: sums and spans of those within it are finite.
const LARGEST_DRAWN: f64 = 1e150;
const MOST_TICKS: usize = 12;

/// Whether a chart can place this number.
pub(super) fn is_drawable(value: f64, logarithmic: bool) -> bool {
    value.abs() < LARGEST_DRAWN && (!logarithmic || value > 1.0 / LARGEST_DRAWN)
}

/// A range of drawable numbers, linear or logarithmic.
pub(super) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// Round numbers within the range, in increasing order.
    pub ticks: Vec<f64>,
}

impl Axis {
    /// A linear axis that ends at the data.
    pub fn tight(low: f64, high: f64) -> Self {
        let (low, high) = widened(low, high);
        let step = round_step(high - low);
        let ticks = multiples((low / step).ceil(), (high / step).floor(), step);
        Self { low, high, logarithmic: false, ticks }
    }

    /// A linear axis that ends at ticks.
    pub fn linear(low: f64, high: f64) -> Self {
        let (low, high) = widened(low, high);
        let step = round_step(high - low);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        Self { low: first * step, high: last * step, logarithmic: false, ticks: multiples(first, last, step) }
    }

    /// A logarithmic axis that ends at ticks; both ends must be positive.
    ///
    /// Up to three decades have ticks at 1, 2 and 5, more have them at powers of ten.
    pub fn logarithmic(low: f64, high: f64) -> Self {
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let decades = (last - first).max(1);
        let heads: &[f64] = if decades <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let stride = (decades as usize).div_ceil(MOST_TICKS);
        let powers = (first..first + decades).step_by(stride);
        let candidates = powers.flat_map(|power| heads.iter().map(move |head| head * 10_f64.powi(power)));
        let candidates: Vec<f64> = candidates.chain([10_f64.powi(first + decades)]).collect();
        let below = |tick: &&f64| **tick <= low;
        let start = candidates.iter().take_while(below).count().saturating_sub(1);
        let reached = candidates.iter().position(|tick| *tick >= high);
        let end = reached.unwrap_or(candidates.len() - 1).max(start + 1);
        let ticks = candidates[start..=end.min(candidates.len() - 1)].to_vec();
        Self { low: ticks[0], high: ticks[ticks.len() - 1], logarithmic: true, ticks }
    }

    /// Where a number lies, from 0 at the low end to 1 at the high end.
    pub fn share(&self, value: f64) -> f64 {
        let place = |value: f64| if self.logarithmic { value.ln() } else { value };
        let span = place(self.high) - place(self.low);
        if span > 0.0 { (place(value) - place(self.low)) / span } else { 0.5 }
    }
}

/// A range that is not flat, for numbers that all are the same.
fn widened(low: f64, high: f64) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if high - low > size * 1e-9 {
        (low, high)
    } else if size == 0.0 {
        (0.0, 1.0)
    } else {
        (low - size * 0.1, high + size * 0.1)
    }
}

/// A tick distance of 1, 2 or 5 times a power of ten, so that about five fit into the span.
fn round_step(span: f64) -> f64 {
    let rough = span / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let heads = [1.0, 2.0, 5.0].into_iter();
    let fitting = heads.map(|head| head * power).find(|step| *step >= rough * 0.999);
    fitting.unwrap_or(10.0 * power)
}

fn multiples(first: f64, last: f64, step: f64) -> Vec<f64> {
    let count = (last - first).clamp(0.0, MOST_TICKS as f64) as usize;
    (0..=count).map(|place| (first + place as f64) * step).collect()
}

/// A number with at most `digits` significant digits, with an exponent where it is very large or
/// very small.
pub(super) fn number_text(value: f64, digits: usize) -> String {
    let scientific = format!("{value:.0$e}", digits.saturating_sub(1));
    match scientific.parse::<f64>() {
        Ok(rounded) if rounded.is_finite() => match rounded.abs() {
            0.0 => "0".to_string(),
            1e-3..1e7 => rounded.to_string(),
            _ => format!("{rounded:e}"),
        },
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_enclose_the_data() {
        let axis = Axis::linear(0.13, 0.97);
        let texts: Vec<String> = axis.ticks.iter().map(|tick| number_text(*tick, 6)).collect();
        assert_eq!(texts, ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert!((axis.share(0.5) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_tight_axis_ends_at_the_data() {
        let axis = Axis::tight(1.0, 1000.0);
        assert_eq!((axis.share(1.0), axis.share(1000.0)), (0.0, 1.0));
        assert_eq!(axis.ticks, [200.0, 400.0, 600.0, 800.0, 1000.0]);
    }

    #[test]
    fn logarithmic_ticks_enclose_the_data() {
        assert_eq!(Axis::logarithmic(0.013, 0.4).ticks, [0.01, 0.02, 0.05, 0.1, 0.2, 0.5]);
        assert_eq!(Axis::logarithmic(0.5, 2e4).ticks, [0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
        let axis = Axis::logarithmic(1.0, 100.0);
        assert!((axis.share(10.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn flat_and_extreme_data_have_few_finite_ticks() {
        let extremes = [(0.0, 0.0), (3.0, 3.0), (1.0, 1.0 + 1e-16), (-9e149, 9e149), (1e-300, 2e-300)];
        for (low, high) in extremes {
            for axis in [Axis::tight(low, high), Axis::linear(low, high)] {
                assert!((2..=13).contains(&axis.ticks.len()), "{low} to {high}");
                assert!(axis.ticks.iter().all(|tick| tick.is_finite()));
                assert!((0.0..=1.0).contains(&axis.share(low)), "{low} to {high}");
            }
        }
        for (low, high) in [(1.0, 1.0), (9.9, 9.9), (2e-150, 9e149), (0.3, 0.3)] {
            let axis = Axis::logarithmic(low, high);
            assert!((2..=14).contains(&axis.ticks.len()), "{low} to {high}");
            assert!((0.0..=1.0).contains(&axis.share(low)), "{low} to {high}");
            assert!((0.0..=1.0).contains(&axis.share(high)), "{low} to {high}");
        }
    }

    #[test]
    fn numbers_are_written_shortly() {
        let texts = [0.1 + 0.2, 20000.0, 1.5e-5, 3e8, 0.0, f64::NAN].map(|value| number_text(value, 5));
        assert_eq!(texts, ["0.3", "20000", "1.5e-5", "3e8", "0", "NaN"]);
    }
}
