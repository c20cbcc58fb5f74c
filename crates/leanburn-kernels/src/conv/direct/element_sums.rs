//! The sums of a single output channel: first those over channels and depth, for each row and column of the kernel
//! apart, as if those were output channels; then what they give at the positions that they read.
//!
//! As many multiply-adds, but each loaded vector serves many of them, and the second step is short.

use pulp::{Simd, WithSimd};

use crate::Stored;
use crate::conv::direct::pass::{Pass, Scratch, Tile, positions};
use crate::conv::gather::axis::Axis;
use crate::conv::gather::problem::{Gather, WeightStrides};
use crate::conv::tiles::tap_sums::{LANES, Tap, TapSums};
use crate::simd::{load, store};
use crate::size::{product, sum, whole};

/// Input channels from which on it pays.
const LEAST_CHANNELS: usize = 4;

impl Gather {
    /// Whether the elements are summed apart. Depends on shapes only.
    pub(super) fn elements_apart(&self) -> bool {
        let plain = |axis: &Axis| axis.step == 1 && axis.phases() == 1;
        let elements = self.axes[1].kernel * self.axes[2].kernel;
        self.channels[1] == 1
            && self.channels[0] >= LEAST_CHANNELS
            && (2..=64).contains(&elements)
            && self.axes.iter().all(plain)
    }

    /// The gather of a kernel of one row and column, of which the output channels are the rows and columns of this
    /// kernel.
    pub(super) fn of_elements(&self) -> Self {
        let [depth, inputs] = [self.axes[0].kernel, self.channels[0]];
        let outputs = self.axes[1].kernel * self.axes[2].kernel;
        let mut axes = self.axes.clone();
        (axes[1].kernel, axes[2].kernel) = (1, 1);
        let strides = WeightStrides { output: inputs * depth, input: depth };
        let channels = [inputs, outputs];
        Self { batch_size: self.batch_size, groups: self.groups, channels, axes, strides }
    }

    /// The weight of [`Self::of_elements`].
    pub(super) fn weight_of_elements(&self, weight: &[f32]) -> Vec<f32> {
        let [depth, inputs] = [self.axes[0].kernel, self.channels[0]];
        let outputs = self.axes[1].kernel * self.axes[2].kernel;
        let mut apart = vec![0.0; self.weight_len()];
        let group_len = weight.len() / self.groups;
        for (index, place) in apart.iter_mut().enumerate() {
            let (element, index) = (index % depth, index / depth);
            let (input, index) = (index % inputs, index / inputs);
            let (output, group) = (index % outputs, index / outputs);
            *place = weight[group * group_len + input * self.strides.input + element * outputs + output];
        }
        apart
    }
}

impl<E: Stored> Pass<'_, '_, E> {
    /// The sums of one output plane.
    pub(super) fn plane_by_elements(&self, scratch: &mut Scratch<'_, E>, tile: &Tile, depth: usize) {
        let Scratch { ring, sums, taps, apart, ahead, .. } = scratch;
        let [_, rows, columns] = self.gather.axes.each_ref().map(|axis| &axis.taps[0]);
        taps.clear();
        for row in rows {
            for column in columns {
                let offset = tile.window.offset(row.read, column.read);
                taps.push(Tap { offset, weight: row.element * columns.len() + column.element });
            }
        }
        let shifts: Vec<Tap> = taps.clone();
        let furthest = shifts.iter().map(|shift| shift.offset).max().unwrap_or(0);
        let positions = positions(&tile.window, tile.size);
        let stride = (positions.next_multiple_of(LANES) + furthest).next_multiple_of(LANES);
        taps.clear();
        for (weight, plane) in self.inputs(depth) {
            taps.push(Tap { offset: plane % self.slots() * self.slot_len(tile), weight });
        }
        for block in self.weights.blocks() {
            let (weight, elements) = self.weights.block(0, tile.group, block);
            let sums = TapSums {
                input: ring,
                channel_stride: tile.window.channel_len(),
                weight,
                elements,
                channels: self.gather.channels[0],
                taps,
                width: block.width,
                positions: positions + furthest,
                target: &mut apart[block.first * stride..],
                target_stride: stride,
                ahead,
            };
            sums.run(self.arch);
        }
        self.arch.dispatch(ShiftedSum { source: apart, stride, shifts: &shifts, positions, target: sums });
    }
}

/// `target[p] = Σ over shifts of source[shift.weight][p + shift.offset]`, in whole vectors.
struct ShiftedSum<'a> {
    source: &'a [f32],
    /// From one element of the kernel to the next.
    stride: usize,
    shifts: &'a [Tap],
    positions: usize,
    target: &'a mut [f32],
}

impl WithSimd for ShiftedSum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let end = whole(self.positions, LANES);
        let start = |shift: &Tap| sum(&[product(&[shift.weight, self.stride]), shift.offset]);
        let furthest = self.shifts.iter().map(start).max().unwrap_or(0);
        assert!(sum(&[furthest, end]) <= self.source.len() && end <= self.target.len());
        for position in (0..end).step_by(S::F32_LANES) {
            let mut sum = simd.splat_f32s(0.0);
            for shift in self.shifts {
                let place = shift.weight * self.stride + shift.offset + position;
                // SAFETY: checked above for the furthest shift of the last position.
                sum = simd.add_f32s(sum, unsafe { load::<S>(self.source.as_ptr().add(place)) });
            }
            // SAFETY: checked above.
            unsafe { store::<S>(self.target.as_mut_ptr().add(position), sum) };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::conv::data_gradient::data_gradient_on;
    use crate::conv::forward::forward_on;
    use crate::conv::reference::{Case, ResidualKind, compare, cube};
    use crate::conv::shape::ConvShape;
    use crate::{Activation, simd};

    #[test]
    fn a_single_channel_agrees_with_plain_loops() {
        let shapes = [
            cube([32, 1], 9, 3, 1, 1),
            cube([5, 1], 19, 2, 1, 0),
            cube([4, 1], 6, 4, 1, 2),
            ConvShape { groups: 2, channels_out: 2, ..cube([8, 1], 7, 3, 1, 1) },
            ConvShape { dilation: [1, 2, 3], ..cube([6, 1], 11, 3, 1, 2) },
            ConvShape { kernel: [1, 3, 2], input: [3, 41, 70], ..cube([70, 1], 1, 3, 1, 1) },
        ];
        for shape in shapes {
            let residual = ResidualKind::Of;
            let case = Case { shape, prologue: Some(Activation::Silu), bias: true, residual, seed: 3 };
            let turned = ConvShape { channels_in: shape.channels_out, channels_out: shape.channels_in, ..shape };
            for arch in simd::available() {
                compare::<f32>(&case, true, 2e-7, &|s, i, w, o| forward_on(arch, s, i, w, o.into()));
                let case = Case { shape: turned, ..case };
                compare::<f32>(&case, false, 2e-7, &|s, i, w, o| data_gradient_on(arch, s, i, w, o.into()));
            }
        }
    }
}
