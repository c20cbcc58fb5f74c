//! Which planes of its input a stage needs for planes of its output, and the other way round: the one place that knows.

use std::ops::Range;

/// The depth axis of a convolution, of a volume that is enlarged before it or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
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

/// Zero planes at both ends of a slab.
pub(super) type Padding = (usize, usize);

impl Reach {
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
    fn reaches() -> impl Iterator<Item = Reach> {
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
                Some(Reach { factor, stride, span, padding, input, output })
            })
        })
    }

    /// Input planes that an output sees.
    fn seen(reach: &Reach, output: usize) -> impl Iterator<Item = usize> {
        let first = output * reach.stride;
        let (padding, enlarged, factor) = (reach.padding, reach.enlarged(), reach.factor);
        let inside = (first..first + reach.span).filter_map(move |at| at.checked_sub(padding));
        inside.filter(move |at| *at < enlarged).map(move |at| at / factor)
    }

    fn slabs(reach: &Reach) -> Vec<Range<usize>> {
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
}
