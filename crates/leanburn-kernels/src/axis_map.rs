//! Resampling of one axis, as a small sparse matrix.
//!
//! Nearest and linear interpolation, average pooling and adaptive average pooling of a volume are one thing: a linear
//! map of each axis, one after the other. The map of an axis has a short run of weights on neighbouring inputs for each
//! output, and the runs move forward. So has its transpose, which is the map of the gradients.

use crate::shape_error::{ShapeError, ShapeProblem};
use crate::size::{check_bytes, check_volume, product, room, sum};

/// A linear map of one axis: for each output, weights on a run of consecutive inputs.
///
/// Starts and ends of the runs never decrease from one output to the next.
///
/// # Example
///
/// ```
/// use leanburn_kernels::axis_map::AxisMap;
///
/// let map = AxisMap::linear(2, 4, false).unwrap();
/// assert_eq!(map.dense(), [1.0, 0.0, 0.75, 0.25, 0.25, 0.75, 0.0, 1.0]);
/// assert_eq!(map.transpose().run(0), (0, [1.0, 0.75, 0.25].as_slice()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AxisMap {
    input_len: usize,
    starts: Vec<usize>,
    /// Where the weights of each output begin, and the end of the last.
    offsets: Vec<usize>,
    weights: Vec<f32>,
}

impl AxisMap {
    /// Every input as it is.
    ///
    /// # Panics
    ///
    /// If there is no memory for a map of that length.
    pub fn identity(len: usize) -> Self {
        Self::every(len, 1)
    }

    /// Every `stride`-th input, the first of them the first. Its [transpose](Self::transpose) puts `stride - 1` zeros
    /// behind each value.
    ///
    /// # Panics
    ///
    /// If the stride is zero, or there is no memory for a map of that length.
    pub fn every(len: usize, stride: usize) -> Self {
        assert!(stride > 0, "expected a stride of at least 1, found 0");
        expect(Self::from_runs(len, len.div_ceil(stride), (0..len).step_by(stride).map(|index| (index, [1.0]))))
    }

    /// Every input `factor` times.
    ///
    /// # Panics
    ///
    /// If the factor is zero, or there is no memory for a map of that length.
    pub fn repeat(len: usize, factor: usize) -> Self {
        assert!(factor > 0, "expected a factor of at least 1, found 0");
        let to = product(&[len, factor]);
        expect(Self::from_runs(len, to, (0..to).map(|output| (output / factor, [1.0]))))
    }

    /// The nearest input below, `floor(output * from / to)`, as PyTorch's `interpolate(mode="nearest")` given a size.
    ///
    /// # Numerics
    ///
    /// The ratio is rounded to float32, as PyTorch rounds it, so that the same inputs are taken.
    ///
    /// # Errors
    ///
    /// Where a length is zero, or there is no memory for a map of these lengths.
    pub fn nearest(from: usize, to: usize) -> Result<Self, ShapeError> {
        check_lengths(from, to)?;
        let ratio = from as f32 / to as f32;
        let nearest = |output: usize| ((output as f32 * ratio) as usize).min(from - 1);
        Self::from_runs(from, to, (0..to).map(|output| (nearest(output), [1.0])))
    }

    /// Between the two nearest inputs, as one axis of PyTorch's `interpolate(mode="trilinear")` given a size.
    ///
    /// With `align_corners` the first and last elements of both sides coincide, else the outer edges of these elements.
    ///
    /// # Errors
    ///
    /// Where a length is zero, or there is no memory for a map of these lengths.
    pub fn linear(from: usize, to: usize, align_corners: bool) -> Result<Self, ShapeError> {
        check_lengths(from, to)?;
        let position = |output: usize| match align_corners {
            true if to == 1 => 0.0,
            true => output as f64 * (from - 1) as f64 / (to - 1) as f64,
            false => ((2.0 * output as f64 + 1.0) * from as f64 / (2.0 * to as f64) - 0.5).max(0.0),
        };
        let run = |output| {
            let start = (position(output) as usize).min(from - 1);
            let fraction = position(output) - start as f64;
            let both = start + 1 < from && fraction > 0.0;
            let weights = if both { vec![(1.0 - fraction) as f32, fraction as f32] } else { vec![1.0] };
            (start, weights)
        };
        Self::from_runs(from, product(&[2, to]), (0..to).map(run))
    }

    /// The mean of each window, as one axis of PyTorch's `avg_pool3d`.
    ///
    /// `padding` is before and after the axis. The mean is over the window with its padding if `count_include_pad`, else
    /// over the inputs in it. With `ceil_mode` a last window that leaves the padded input counts, for the part inside.
    ///
    /// # Errors
    ///
    /// Where a length or the stride is zero, the kernel is larger than the padded input, the padding is more than half of the
    /// kernel, or there is no memory for a map of these lengths.
    pub fn average(
        from: usize,
        kernel: usize,
        stride: usize,
        padding: [usize; 2],
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> Result<Self, ShapeError> {
        let to = Self::average_len(from, kernel, stride, padding, ceil_mode)?;
        let run = |output: usize| {
            // Counted from the start of the padding.
            let (first, inside) = (output * stride, padding[0] + from);
            let last = (first + kernel).min(inside + padding[1]);
            let (start, end) = (first.max(padding[0]) - padding[0], last.min(inside) - padding[0]);
            let count = if count_include_pad { last - first } else { end - start };
            (start, vec![1.0 / count as f32; end - start])
        };
        Self::from_runs(from, product(&[to, kernel.min(from)]), (0..to).map(run))
    }

    /// Outputs of [`average`](Self::average), without the map.
    ///
    /// # Errors
    ///
    /// As [`average`](Self::average), of which the memory is not asked for.
    pub fn average_len(
        from: usize,
        kernel: usize,
        stride: usize,
        padding: [usize; 2],
        ceil_mode: bool,
    ) -> Result<usize, ShapeError> {
        pooled_len(from, kernel, stride, padding, 1, ceil_mode)
    }

    /// The mean of as many windows as there are outputs, as one axis of PyTorch's `adaptive_avg_pool3d`.
    ///
    /// # Errors
    ///
    /// Where a length is zero, or there is no memory for a map of these lengths.
    pub fn adaptive_average(from: usize, to: usize) -> Result<Self, ShapeError> {
        check_lengths(from, to)?;
        let run = |output| {
            let (start, end) = adaptive_window(from, to, output);
            (start, vec![1.0 / (end - start) as f32; end - start])
        };
        Self::from_runs(from, from.saturating_add(product(&[2, to])), (0..to).map(run))
    }

    /// The map of gradients: from the gradient of the output to the gradient of the input.
    ///
    /// The outputs that an input reaches are consecutive, since runs move forward: those that start at or before it are the
    /// first ones, those that end after it the last ones. An input that no output sees has an empty run.
    ///
    /// # Panics
    ///
    /// If there is no memory for it.
    pub fn transpose(&self) -> Self {
        let (mut start, mut end) = (0, 0);
        let run = |input| {
            while start < self.output_len() && self.starts[start] + self.run(start).1.len() <= input {
                start += 1;
            }
            while end < self.output_len() && self.starts[end] <= input {
                end += 1;
            }
            let weights: Vec<f32> =
                (start..end).map(|output| self.run(output).1[input - self.starts[output]]).collect();
            (start, weights)
        };
        expect(Self::from_runs(self.output_len(), self.weights.len(), (0..self.input_len).map(run)))
    }

    /// The whole matrix, `[output_len, input_len]`, row after row.
    ///
    /// # Panics
    ///
    /// If it takes more than 128 TiB.
    pub fn dense(&self) -> Vec<f32> {
        expect(check_volume("the matrix of a map", &[self.output_len(), self.input_len]));
        let mut dense = vec![0.0; self.output_len() * self.input_len];
        for output in 0..self.output_len() {
            let (start, weights) = self.run(output);
            dense[output * self.input_len + start..][..weights.len()].copy_from_slice(weights);
        }
        dense
    }

    /// Length of the input.
    pub fn input_len(&self) -> usize {
        self.input_len
    }

    /// Length of the output.
    pub fn output_len(&self) -> usize {
        self.starts.len()
    }

    /// The first input of an output, and the weights from there on; none where the output is always zero.
    #[inline(always)]
    pub fn run(&self, output: usize) -> (usize, &[f32]) {
        (self.starts[output], &self.weights[self.offsets[output]..self.offsets[output + 1]])
    }

    /// Number of weights in the longest run.
    pub fn longest_run(&self) -> usize {
        self.offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }

    /// Whether every output is the input at its place.
    pub fn is_identity(&self) -> bool {
        let own = |output| self.run(output) == (output, [1.0].as_slice());
        self.output_len() == self.input_len && (0..self.output_len()).all(own)
    }

    /// The map with these starts and weights, of which there are at most so many.
    fn from_runs<W: AsRef<[f32]>>(
        input_len: usize,
        most_weights: usize,
        runs: impl ExactSizeIterator<Item = (usize, W)>,
    ) -> Result<Self, ShapeError> {
        const MAP: &str = "the map of an axis";
        // The transposed map has as many outputs as this one has inputs.
        check_bytes(MAP, (input_len as u128 + runs.len() as u128) * 2 * size_of::<usize>() as u128)?;
        let (starts, weights) = (room(MAP, runs.len())?, room(MAP, most_weights)?);
        let mut map = Self { input_len, starts, offsets: room(MAP, runs.len() + 1)?, weights };
        map.offsets.push(0);
        let mut last = (0, 0);
        for (start, weights) in runs {
            let run = (start, start + weights.as_ref().len());
            assert!(last.0 <= run.0 && last.1 <= run.1 && run.1 <= input_len, "{last:?} {run:?} {input_len}");
            last = run;
            map.starts.push(start);
            map.weights.extend_from_slice(weights.as_ref());
            map.offsets.push(map.weights.len());
        }
        Ok(map)
    }
}

/// What is there, or a panic with the error as its message.
#[track_caller]
fn expect<T>(result: Result<T, ShapeError>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// Start and end of a window of adaptive pooling.
pub(crate) fn adaptive_window(from: usize, to: usize, output: usize) -> (usize, usize) {
    let [from, to, output] = [from, to, output].map(|len| len as u128);
    ((output * from / to) as usize, ((output + 1) * from).div_ceil(to) as usize)
}

/// Number of windows of a pooling.
pub(crate) fn pooled_len(
    from: usize,
    kernel: usize,
    stride: usize,
    padding: [usize; 2],
    dilation: usize,
    ceil_mode: bool,
) -> Result<usize, ShapeError> {
    let lengths = [("input", from), ("kernel", kernel), ("stride", stride), ("dilation", dilation)];
    if let Some((name, _)) = lengths.into_iter().find(|(_, length)| *length == 0) {
        return Err(ShapeProblem::Zero { name }.into());
    }
    if let Some(padding) = padding.into_iter().find(|padding| *padding > kernel / 2) {
        return Err(ShapeProblem::TooMuchPadding { padding, kernel }.into());
    }
    let span = product(&[dilation, kernel - 1]).saturating_add(1);
    let padded = sum(&[from, padding[0], padding[1]]);
    if span > padded {
        return Err(ShapeProblem::KernelTooLarge { span, padded }.into());
    }
    check_volume("the padded axis", &[padded])?;
    // A step over the whole axis is as good as any longer one.
    let stride = stride.min(padded);
    let windows = (padded - span) / stride + 1;
    // One more window may leave the padded input, but must not start behind the input.
    let more = ceil_mode && !(padded - span).is_multiple_of(stride) && windows * stride < from + padding[0];
    let all_start_inside = (windows - 1) * stride < from + padding[0];
    Ok(if more { windows + 1 } else { windows - usize::from(ceil_mode && !all_start_inside) })
}

/// Both lengths are at least one.
pub(crate) fn check_lengths(from: usize, to: usize) -> Result<(), ShapeError> {
    match (from, to) {
        (0, _) => Err(ShapeProblem::Zero { name: "input" }.into()),
        (_, 0) => Err(ShapeProblem::Zero { name: "output" }.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const THIRD: f32 = 1.0 / 3.0;

    #[track_caller]
    fn assert_dense(map: Result<AxisMap, ShapeError>, expected: &[f32]) {
        let dense = map.unwrap().dense();
        assert_eq!(dense.len(), expected.len());
        assert!(dense.iter().zip(expected).all(|(left, right)| (left - right).abs() < 1e-6), "{dense:?} {expected:?}");
    }

    /// Where each output of the nearest map comes from.
    fn sources(from: usize, to: usize) -> Vec<usize> {
        let map = AxisMap::nearest(from, to).unwrap();
        (0..to).map(|output| map.run(output).0).collect()
    }

    // F.interpolate(torch.arange(7.).reshape(1, 1, 7), size=3), and 5 to 12, and 2 to 82
    #[test]
    fn nearest_takes_what_pytorch_takes() {
        assert_eq!(sources(7, 3), [0, 2, 4]);
        assert_eq!(sources(5, 12), [0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4]);
        assert_eq!(sources(1, 3), [0, 0, 0]);
        // 41 * 2 / 82 is 1, but the ratio in float32 is a little less than 1 / 41.
        assert_eq!(sources(2, 82), [[0; 42].as_slice(), &[1; 40]].concat());
    }

    // F.interpolate(torch.eye(5).reshape(5, 1, 5), size=3, mode="linear", align_corners=..).reshape(5, 3).T
    #[test]
    #[rustfmt::skip]
    fn linear_weighs_as_pytorch_does() {
        assert_dense(AxisMap::linear(5, 3, false), &[
            2.0 * THIRD, THIRD, 0.0, 0.0, 0.0,
            0.0, 0.0, 1.0, 0.0, 0.0,
            0.0, 0.0, 0.0, THIRD, 2.0 * THIRD,
        ]);
        assert_dense(AxisMap::linear(5, 3, true), &[
            1.0, 0.0, 0.0, 0.0, 0.0,
            0.0, 0.0, 1.0, 0.0, 0.0,
            0.0, 0.0, 0.0, 0.0, 1.0,
        ]);
        assert_dense(AxisMap::linear(2, 3, true), &[1.0, 0.0, 0.5, 0.5, 0.0, 1.0]);
        assert_dense(AxisMap::linear(1, 2, true), &[1.0, 1.0]);
        assert_dense(AxisMap::linear(3, 1, true), &[1.0, 0.0, 0.0]);
        assert_dense(AxisMap::linear(3, 1, false), &[0.0, 1.0, 0.0]);
    }

    // F.avg_pool1d(torch.eye(4).reshape(4, 1, 4), 3, 2, 1, ceil_mode=.., count_include_pad=..).reshape(4, -1).T
    #[test]
    #[rustfmt::skip]
    fn average_divides_as_pytorch_does() {
        let floor = [THIRD, THIRD, 0.0, 0.0, 0.0, THIRD, THIRD, THIRD];
        assert_dense(AxisMap::average(4, 3, 2, [1, 1], true, false), &floor);
        assert_dense(AxisMap::average(4, 3, 2, [1, 1], true, true), &[
            THIRD, THIRD, 0.0, 0.0,
            0.0, THIRD, THIRD, THIRD,
            0.0, 0.0, 0.0, 0.5,
        ]);
        assert_dense(AxisMap::average(4, 3, 2, [1, 1], false, true), &[
            0.5, 0.5, 0.0, 0.0,
            0.0, THIRD, THIRD, THIRD,
            0.0, 0.0, 0.0, 1.0,
        ]);
        // Padding at one end only, which PyTorch does not have.
        assert_dense(AxisMap::average(3, 2, 2, [1, 0], true, false), &[0.5, 0.0, 0.0, 0.0, 0.5, 0.5]);
        assert_dense(AxisMap::average(3, 2, 2, [0, 1], false, false), &[0.5, 0.5, 0.0, 0.0, 0.0, 1.0]);
        // A window that starts in the padding behind the input does not count.
        assert_eq!(AxisMap::average(3, 2, 4, [1, 1], true, true).unwrap().output_len(), 1);
    }

    // F.adaptive_avg_pool1d(torch.eye(5).reshape(5, 1, 5), 3).reshape(5, -1).T
    #[test]
    #[rustfmt::skip]
    fn adaptive_windows_are_those_of_pytorch() {
        assert_dense(AxisMap::adaptive_average(5, 3), &[
            0.5, 0.5, 0.0, 0.0, 0.0,
            0.0, THIRD, THIRD, THIRD, 0.0,
            0.0, 0.0, 0.0, 0.5, 0.5,
        ]);
        assert_dense(AxisMap::adaptive_average(2, 3), &[1.0, 0.0, 0.5, 0.5, 0.0, 1.0]);
    }

    #[test]
    fn sizes_that_do_not_go_together_are_named() {
        let average = |from, kernel, stride, padding| AxisMap::average(from, kernel, stride, padding, true, false);
        let cases = [
            (AxisMap::nearest(0, 3), "expected a length of at least 1 for the input, found 0"),
            (AxisMap::linear(3, 0, true), "expected a length of at least 1 for the output, found 0"),
            (AxisMap::adaptive_average(0, 1), "expected a length of at least 1 for the input, found 0"),
            (average(3, 0, 1, [0, 0]), "expected a length of at least 1 for the kernel, found 0"),
            (average(3, 2, 0, [0, 0]), "expected a length of at least 1 for the stride, found 0"),
            (
                average(3, 5, 1, [1, 0]),
                "expected a kernel that spans at most the padded input of 4, found one that spans 5: \
                 take a smaller kernel or pad more",
            ),
            (average(9, 3, 1, [1, 2]), "expected padding of at most half of the kernel, 1 for a kernel of 3, found 2"),
        ];
        for (map, message) in cases {
            assert_eq!(map.unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn only_the_identity_is_one() {
        assert!(AxisMap::identity(5).is_identity());
        assert!(AxisMap::linear(5, 5, true).unwrap().is_identity());
        assert!(AxisMap::average(5, 1, 1, [0, 0], true, false).unwrap().is_identity());
        for map in [AxisMap::nearest(5, 4), AxisMap::nearest(4, 5), AxisMap::average(4, 3, 1, [1, 1], true, false)] {
            assert!(!map.unwrap().is_identity());
        }
    }

    proptest! {
        #[test]
        fn transposing_swaps_the_axes_of_the_matrix(map in crate::resample::tests::axis_map(24)) {
            let (dense, transposed) = (map.dense(), map.transpose().dense());
            let (to, from) = (map.output_len(), map.input_len());
            for (output, input) in (0..to).flat_map(|output| (0..from).map(move |input| (output, input))) {
                prop_assert_eq!(dense[output * from + input], transposed[input * to + output]);
            }
            prop_assert_eq!(map.transpose().transpose().dense(), dense);
        }
    }
}
