//! One axis of a convolution or of its data gradient, as a gather.

use crate::conv::shape::ConvShape;

/// An element of the kernel, along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AxisTap {
    /// Index in the kernel.
    pub element: usize,
    /// Distance of what it reads from [`Axis::first`] (at output zero).
    pub read: usize,
}

/// Output `index * phases + phase` reads the input at `first + index * step + read` for each of the phase's taps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    /// Length of the input.
    pub input: usize,
    /// Length of the output.
    pub output: usize,
    /// Length of the kernel.
    pub kernel: usize,
    /// Step of the input from one index to the next.
    pub step: usize,
    /// The lowest coordinate read for index zero.
    pub first: isize,
    /// Taps of each phase of the output. A phase may have none.
    pub taps: Vec<Vec<AxisTap>>,
}

impl Axis {
    /// Of the forward pass: one phase.
    pub(crate) fn forward(shape: &ConvShape, axis: usize) -> Self {
        let tap = |element| AxisTap { element, read: element * shape.dilation[axis] };
        Self {
            input: shape.input[axis],
            output: shape.output()[axis],
            kernel: shape.kernel[axis],
            step: shape.stride[axis],
            first: -(shape.padding[axis][0] as isize),
            taps: vec![(0..shape.kernel[axis]).map(tap).collect()],
        }
    }

    /// Of the data gradient: as many phases as the stride has steps, but not more than there are outputs. The input of the
    /// gather is the output's gradient.
    ///
    /// Element `k` of the kernel led from input `i` to output `(i + padding - k * dilation) / stride`, where that is
    /// whole: for the inputs of one phase, which may be beyond the last. Of an empty gradient nothing is read: a kernel that
    /// fits nowhere reaches no further than one without dilation, which along several axes would be more than can be counted.
    pub(crate) fn data_gradient(shape: &ConvShape, axis: usize) -> Self {
        let (stride, input, output) = (shape.stride[axis], shape.output()[axis], shape.input[axis]);
        // Two at least, where the stride is longer than one: with a single phase, all elements of the kernel are in it.
        let phases = stride.min(output.max(2));
        let reads: Vec<(usize, isize)> = (0..shape.kernel[axis])
            .map(|element| {
                let distance = (element * shape.dilation[axis]) as isize - shape.padding[axis][0] as isize;
                let phase = distance.rem_euclid(stride as isize);
                (phase as usize, (phase - distance) / stride as isize)
            })
            .collect();
        let inside = || reads.iter().enumerate().filter(|(_, (phase, _))| *phase < phases);
        let first = inside().map(|(_, (_, read))| *read).min().unwrap_or(0);
        let mut taps = vec![Vec::new(); phases];
        for (element, (phase, read)) in inside() {
            let read = (read - first) as usize;
            let read = if input == 0 { read.min(shape.kernel[axis] - 1) } else { read };
            taps[*phase].push(AxisTap { element, read });
        }
        Self { input, output, kernel: shape.kernel[axis], step: 1, first, taps }
    }

    /// Whether each output reads the input of the same index, alone.
    pub(crate) fn is_pointwise(&self) -> bool {
        let read = (self.input == self.output && self.step == 1).then_some(self.first);
        read == Some(0) && self.taps == [[AxisTap { element: 0, read: 0 }]] && self.kernel == 1
    }

    /// Phases of the output.
    pub(crate) fn phases(&self) -> usize {
        self.taps.len()
    }

    /// Taps of the phase that has most.
    pub(crate) fn phase_taps(&self) -> usize {
        self.taps.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Indices of the output, of the phase that has most.
    pub(crate) fn indices(&self) -> usize {
        self.output.div_ceil(self.phases())
    }

    /// The distances that are read, of all phases.
    pub(crate) fn reads(&self) -> Vec<usize> {
        self.taps.iter().flatten().map(|tap| tap.read).collect()
    }

    /// Consecutive coordinates that one output reads from, over all phases.
    pub(crate) fn span(&self) -> usize {
        self.taps.iter().flatten().map(|tap| tap.read).max().unwrap_or(0) + 1
    }
}

/// The same gather with the last axes made one where the kernel does not reach along them, so that rows are long.
pub(crate) fn merge_pointwise(mut axes: [Axis; 3]) -> [Axis; 3] {
    for axis in [1, 0] {
        if !(axes[axis].is_pointwise() && axes[2].is_pointwise()) || axis == 0 && axes[1].input != 1 {
            break;
        }
        let len = axes[axis].input * axes[2].input;
        (axes[axis].input, axes[axis].output) = (1, 1);
        (axes[2].input, axes[2].output) = (len, len);
    }
    axes
}
