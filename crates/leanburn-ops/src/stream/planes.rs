//! Which planes of its input a stage needs for planes of its output, and the other way round: the one place that knows.

use std::ops::Range;

/// The depth axis of a convolution, of a volume that is enlarged before it or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// Copies of each plane of the input before the kernel meets them.
    pub(super) factor: usize,
    pub(super) stride: usize,
    /// From the first to the last element of the kernel.
    pub(super) span: usize,
    /// Zero planes in front.
    pub(super) padding: usize,
    /// Planes of the whole input.
    pub(super) input: usize,
    /// Planes of the whole output.
    pub(super) output: usize,
}

/// The depth axis of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// A convolution.
    Window(Window),
    /// The transpose of one: what it makes is the window's input.
    Transposed(Window),
    /// A linear interpolation.
    Linear(Linear),
}

/// The depth axis of a linear interpolation: planes between those of the input, of which each sees two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Linear {
    /// Planes of the output for each of the input.
    pub(super) factor: usize,
    /// Planes of the whole input.
    pub(super) input: usize,
}

impl Reach {
    /// The end of a slab at or behind `end`, such that nothing is computed twice.
    pub(super) fn aligned(&self, end: usize) -> usize {
        match self {
            Self::Window(window) => window.aligned(end),
            Self::Transposed(_) | Self::Linear(_) => end,
        }
    }

    /// Input planes that the outputs, which are not none, see.
    pub(super) fn inputs(&self, outputs: &Range<usize>) -> Range<usize> {
        match self {
            Self::Window(window) => window.inputs(outputs),
            Self::Transposed(window) => window.outputs(outputs),
            Self::Linear(linear) => linear.inputs(outputs),
        }
    }

    /// Outputs that see any of the inputs, which are not none.
    pub(super) fn outputs(&self, inputs: &Range<usize>) -> Range<usize> {
        match self {
            Self::Window(window) => window.outputs(inputs),
            Self::Transposed(window) => window.inputs(inputs),
            Self::Linear(linear) => linear.outputs(inputs),
        }
    }
}

impl Linear {
    /// Input planes around the outputs.
    pub(super) fn inputs(&self, outputs: &Range<usize>) -> Range<usize> {
        let end = outputs.end.div_ceil(self.factor) + 1;
        (outputs.start / self.factor).saturating_sub(1)..end.min(self.input)
    }

    /// Outputs around the inputs: those that see any of them, and some that see none.
    pub(super) fn outputs(&self, inputs: &Range<usize>) -> Range<usize> {
        let around = self.around(inputs);
        self.factor * around.start..self.factor * around.end
    }

    /// The inputs and a plane at both ends where there is one: what is interpolated between all of them is, for the planes of
    /// `inputs`, what the whole is.
    pub(super) fn around(&self, inputs: &Range<usize>) -> Range<usize> {
        inputs.start.saturating_sub(1)..(inputs.end + 1).min(self.input)
    }
}

impl Window {
    /// Of the transpose, whose input these planes are: the planes that it makes of them and that it does not make of planes before them.
    pub(super) fn first_seen_by(&self, outputs: &Range<usize>) -> Range<usize> {
        let start = |plane: usize| if plane == 0 { 0 } else { self.inputs(&(plane..plane + 1)).start };
        start(outputs.start)..if outputs.end == self.output { self.input } else { start(outputs.end) }
    }
}

/// Zero planes at both ends of a slab.
pub(super) type Padding = (usize, usize);

impl Window {
    /// Each plane sees itself.
    pub(super) fn pointwise(depth: usize) -> Self {
        Self { factor: 1, stride: 1, span: 1, padding: 0, input: depth, output: depth }
    }

    /// The end of a slab at or behind `end`, such that the slab sees whole planes of the input: else what an enlargement makes of its last
    /// plane would be computed twice.
    pub(super) fn aligned(&self, end: usize) -> usize {
        let is_whole = |end: &usize| {
            ((end - 1) * self.stride + self.span + self.factor - self.padding % self.factor).is_multiple_of(self.factor)
        };
        (end.max(1)..self.output).find(is_whole).unwrap_or(self.output)
    }

    /// Input planes that the outputs, which are not none, see.
    pub(super) fn inputs(&self, outputs: &Range<usize>) -> Range<usize> {
        let start = (outputs.start * self.stride).saturating_sub(self.padding) / self.factor;
        let end = (self.seen_until(outputs) - self.padding).min(self.enlarged()).div_ceil(self.factor);
        start..end
    }

    /// Zeros around [`inputs`](Self::inputs), so that a convolution of these gives the outputs.
    pub(super) fn padding(&self, outputs: &Range<usize>) -> Padding {
        let before = self.padding.saturating_sub(outputs.start * self.stride);
        (before, (self.seen_until(outputs) - self.padding).saturating_sub(self.enlarged()))
    }

    /// Outputs that see any of the inputs, which are not none.
    pub(super) fn outputs(&self, inputs: &Range<usize>) -> Range<usize> {
        let first = (self.factor * inputs.start + self.padding).saturating_sub(self.span - 1);
        let start = first.div_ceil(self.stride);
        let end = ((self.factor * inputs.end - 1 + self.padding) / self.stride + 1).min(self.output);
        start.min(end)..end
    }

    /// Zeros around the inputs, so that a convolution of these gives [`outputs`](Self::outputs), which are not none.
    pub(super) fn gradient_padding(&self, inputs: &Range<usize>) -> Padding {
        let outputs = self.outputs(inputs);
        let before = self.factor * inputs.start + self.padding - outputs.start * self.stride;
        let after = self.seen_until(&outputs).saturating_sub(self.factor * inputs.end + self.padding);
        (before, after)
    }

    /// End of what the outputs see, in planes of the padded and enlarged input.
    fn seen_until(&self, outputs: &Range<usize>) -> usize {
        (outputs.end - 1) * self.stride + self.span
    }

    fn enlarged(&self) -> usize {
        self.factor * self.input
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Convolutions and enlargements of the field, on depths even and odd.
    fn reaches() -> impl Iterator<Item = Window> {
        let kinds = [
            (1, 1, 3, [1, 1]),
            (1, 1, 1, [0, 0]),
            (1, 2, 3, [0, 1]),
            (1, 2, 3, [1, 1]),
            (1, 2, 4, [1, 1]),
            (1, 2, 2, [0, 0]),
            (1, 1, 5, [2, 2]),
            (1, 1, 4, [1, 1]),
            (2, 1, 3, [1, 1]),
            (4, 1, 5, [2, 2]),
            (3, 1, 1, [0, 0]),
        ];
        kinds.into_iter().flat_map(|(factor, stride, span, [padding, behind])| {
            (3..12).filter_map(move |input| {
                let output = usize::checked_sub(factor * input + padding + behind, span)? / stride + 1;
                Some(Window { factor, stride, span, padding, input, output })
            })
        })
    }

    /// Input planes that an output sees.
    fn seen(reach: &Window, output: usize) -> impl Iterator<Item = usize> {
        let first = output * reach.stride;
        let (padding, enlarged, factor) = (reach.padding, reach.enlarged(), reach.factor);
        let inside = (first..first + reach.span).filter_map(move |at| at.checked_sub(padding));
        inside.filter(move |at| *at < enlarged).map(move |at| at / factor)
    }

    fn slabs(reach: &Window) -> Vec<Range<usize>> {
        let ends = (1..=reach.output).map(|end| reach.aligned(end));
        let (mut slabs, mut start) = (Vec::new(), 0);
        for end in ends {
            if end > start {
                slabs.push(start..end);
                start = end;
            }
        }
        slabs
    }

    #[test]
    fn inputs_are_those_that_the_outputs_see() {
        for reach in reaches() {
            for outputs in slabs(&reach) {
                let (inputs, (before, after)) = (reach.inputs(&outputs), reach.padding(&outputs));
                let all: Vec<usize> = outputs.clone().flat_map(|output| seen(&reach, output)).collect();
                assert_eq!(Some(inputs.start), all.iter().min().copied(), "{reach:?} {outputs:?}");
                assert_eq!(Some(inputs.end - 1), all.iter().max().copied(), "{reach:?} {outputs:?}");
                let computed = (reach.factor * inputs.len() + before + after - reach.span) / reach.stride + 1;
                assert_eq!(computed, outputs.len(), "{reach:?} {outputs:?}");
            }
        }
    }

    #[test]
    fn outputs_are_those_that_see_the_inputs() {
        for reach in reaches() {
            for (start, end) in
                (0..reach.input).flat_map(|start| (start + 1..=reach.input).map(move |end| (start, end)))
            {
                let (inputs, outputs) = (start..end, reach.outputs(&(start..end)));
                let all: Vec<usize> =
                    (0..reach.output).filter(|output| seen(&reach, *output).any(|at| inputs.contains(&at))).collect();
                assert_eq!(outputs.clone().collect::<Vec<_>>(), all, "{reach:?} {inputs:?}");
                if !outputs.is_empty() {
                    let (before, after) = reach.gradient_padding(&inputs);
                    let computed = (reach.factor * inputs.len() + before + after - reach.span) / reach.stride + 1;
                    assert_eq!(computed, outputs.len(), "{reach:?} {inputs:?}");
                    assert!(before < reach.span && after < reach.span);
                }
            }
        }
    }

    #[test]
    fn a_transpose_makes_every_plane_once() {
        for window in reaches().filter(|window| window.factor == 1) {
            for step in 1..4 {
                let ends: Vec<usize> = (0..window.output).step_by(step).chain([window.output]).collect();
                let slabs: Vec<Range<usize>> =
                    ends.windows(2).map(|ends| window.first_seen_by(&(ends[0]..ends[1]))).collect();
                assert_eq!((slabs[0].start, slabs[slabs.len() - 1].end), (0, window.input), "{window:?}");
                assert!(slabs.windows(2).all(|slabs| slabs[0].end == slabs[1].start), "{window:?}");
            }
        }
    }

    #[test]
    fn interpolation_sees_the_planes_around() {
        for (factor, input) in [(1, 3), (2, 1), (2, 5), (3, 4), (4, 6)] {
            let linear = Linear { factor, input };
            let sees = |output: usize| {
                let position = ((output as f64 + 0.5) / factor as f64 - 0.5).max(0.0);
                [position.floor() as usize, (position.ceil() as usize).min(input - 1)]
            };
            for start in 0..factor * input {
                let inputs = linear.inputs(&(start..start + 1));
                assert!(sees(start).iter().all(|plane| inputs.contains(plane)), "{linear:?} {start} {inputs:?}");
            }
            for plane in 0..input {
                let outputs = linear.outputs(&(plane..plane + 1));
                let seen = (0..factor * input).filter(|output| sees(*output).contains(&plane));
                assert!(seen.into_iter().all(|output| outputs.contains(&output)), "{linear:?} {plane} {outputs:?}");
            }
        }
    }
}
