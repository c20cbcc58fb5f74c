//! Windows of a pooling.

use std::iter::StepBy;
use std::ops::Range;

use crate::axis_map::{adaptive_window, check_lengths, pooled_len};
use crate::shape_error::{ShapeError, ShapeProblem};
use crate::size::{check_volume, room};

/// Shape of a max pooling with a kernel, as PyTorch's `max_pool3d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPoolShape {
    /// All channels of all volumes.
    pub items: usize,
    /// Depth, height and width of the input.
    pub input: [usize; 3],
    /// Size of the kernel.
    pub kernel: [usize; 3],
    /// Steps between windows.
    pub stride: [usize; 3],
    /// Padding before and after each axis, never the maximum; at most half of the kernel.
    pub padding: [usize; 3],
    /// Steps between elements of the kernel.
    pub dilation: [usize; 3],
    /// Whether a last window that leaves the padded input counts.
    pub ceil_mode: bool,
}

impl MaxPoolShape {
    /// Depth, height and width of the output; zero where the kernel does not fit.
    pub fn output(&self) -> [usize; 3] {
        std::array::from_fn(|axis| self.output_of(axis).unwrap_or(0))
    }

    /// The windows.
    ///
    /// # Errors
    ///
    /// Where a length, stride or dilation is zero, the kernel does not fit into the padded input, the padding is more than
    /// half of the kernel, a window holds no input, or the input or the output takes more than 128 TiB.
    pub fn windows(&self) -> Result<PoolWindows, ShapeError> {
        let mut output = [0; 3];
        for (axis, output) in output.iter_mut().enumerate() {
            *output = self.output_of(axis).map_err(|error| error.along(axis))?;
        }
        PoolWindows::new(self.items, self.input, output, self.dilation, |axis, output| self.window(axis, output))
    }

    fn output_of(&self, axis: usize) -> Result<usize, ShapeError> {
        let padding = [self.padding[axis]; 2];
        let (input, kernel, stride) = (self.input[axis], self.kernel[axis], self.stride[axis]);
        pooled_len(input, kernel, stride, padding, self.dilation[axis], self.ceil_mode)
    }

    /// Start and end of a window, of the input.
    fn window(&self, axis: usize, output: usize) -> (usize, usize) {
        let (input, step, padding) = (self.input[axis], self.dilation[axis], self.padding[axis]);
        let span = step * (self.kernel[axis] - 1) + 1;
        // Counted from the start of the padding; the first element of the kernel that is not in it.
        let first = output * self.stride[axis];
        let start = first + padding.saturating_sub(first).next_multiple_of(step);
        (start - padding, (first + span).min(padding + input) - padding)
    }
}

/// The windows of a max pooling: a range of each axis for each output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolWindows {
    items: usize,
    pub(super) axes: [AxisWindows; 3],
}

impl PoolWindows {
    /// As many windows as there are outputs, as in PyTorch's `adaptive_max_pool3d`.
    ///
    /// # Errors
    ///
    /// Where a length is zero, or the input or the output takes more than 128 TiB.
    pub fn adaptive(items: usize, input: [usize; 3], output: [usize; 3]) -> Result<Self, ShapeError> {
        for axis in 0..3 {
            check_lengths(input[axis], output[axis]).map_err(|error| error.along(axis))?;
        }
        Self::new(items, input, output, [1; 3], |axis, index| adaptive_window(input[axis], output[axis], index))
    }

    /// So many windows of each axis; `window` gives start and end of one, `steps` are those between the elements of each.
    fn new(
        items: usize,
        input: [usize; 3],
        output: [usize; 3],
        steps: [usize; 3],
        window: impl Fn(usize, usize) -> (usize, usize),
    ) -> Result<Self, ShapeError> {
        for (what, [depth, height, width]) in [("the input", input), ("the output", output)] {
            check_volume(what, &[items, depth, height, width])?;
        }
        let axis = |axis: usize| {
            let mut ranges = room("the windows of an axis", output[axis])?;
            ranges.extend((0..output[axis]).map(|output| window(axis, output)));
            match ranges.iter().position(|(start, end)| start >= end) {
                Some(output) => Err(ShapeError::from(ShapeProblem::EmptyWindow { output }).along(axis)),
                None => Ok(AxisWindows { input_len: input[axis], step: steps[axis], ranges }),
            }
        };
        Ok(Self { items, axes: [axis(0)?, axis(1)?, axis(2)?] })
    }

    /// All channels of all volumes.
    pub fn items(&self) -> usize {
        self.items
    }

    /// Depth, height and width of the input.
    pub fn input(&self) -> [usize; 3] {
        self.axes.each_ref().map(|axis| axis.input_len)
    }

    /// Depth, height and width of the output.
    pub fn output(&self) -> [usize; 3] {
        self.axes.each_ref().map(AxisWindows::output_len)
    }

    /// The inputs of one axis that the window of an output holds.
    pub fn window(&self, axis: usize, output: usize) -> impl Iterator<Item = usize> {
        self.axes[axis].elements(output)
    }
}

/// The windows of one axis; none is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AxisWindows {
    pub input_len: usize,
    /// From one element of a window to the next.
    pub step: usize,
    /// Start and end of each.
    pub ranges: Vec<(usize, usize)>,
}

impl AxisWindows {
    pub(super) fn output_len(&self) -> usize {
        self.ranges.len()
    }

    /// The inputs of a window.
    #[inline(always)]
    pub(super) fn elements(&self, output: usize) -> StepBy<Range<usize>> {
        let (start, end) = self.ranges[output];
        (start..end).step_by(self.step)
    }

    /// Whether a window may hold one of these inputs.
    pub(super) fn meets(&self, output: usize, inputs: &Range<usize>) -> bool {
        let (start, end) = self.ranges[output];
        start < inputs.end && end > inputs.start
    }

    /// The windows around the middle that are of the same length and at the same distance.
    pub(super) fn interior(&self) -> Interior {
        let middle = self.ranges.len() / 2;
        let next = (middle + 1).min(self.ranges.len() - 1);
        let (start, end) = self.ranges[middle];
        // Dilated windows may start earlier than the one before, where that one starts in the padding: alone then.
        let stride = self.ranges[next].0.saturating_sub(start);
        let regular = |output: usize| {
            let (before, after) = (self.ranges[output], self.ranges[output + 1]);
            (before.0 + stride, before.1 + stride) == after
        };
        let mut outputs = middle..middle + 1;
        while outputs.end < self.ranges.len() && regular(outputs.end - 1) {
            outputs.end += 1;
        }
        while outputs.start > 0 && regular(outputs.start - 1) {
            outputs.start -= 1;
        }
        let first = self.ranges[outputs.start].0;
        Interior { outputs, stride, first: first..first + (end - start) }
    }
}

/// Windows of the same length at the same distance.
pub(super) struct Interior {
    /// Which; at least one.
    pub outputs: Range<usize>,
    /// From one to the next.
    pub stride: usize,
    /// The first of them.
    pub first: Range<usize>,
}

impl Interior {
    /// The inputs of the first window.
    #[inline(always)]
    pub(super) fn taps(&self, step: usize) -> StepBy<Range<usize>> {
        self.first.clone().step_by(step)
    }

    /// The other windows.
    #[inline(always)]
    pub(super) fn outside(&self, output_len: usize) -> std::iter::Chain<Range<usize>, Range<usize>> {
        (0..self.outputs.start).chain(self.outputs.end..output_len)
    }
}
