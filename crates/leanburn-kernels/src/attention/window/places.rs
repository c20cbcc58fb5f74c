//! Which positions of the volume a window has, and what is taken from there.

use super::shape::WindowShape;
use crate::Stored;
use crate::shared::Shared;

/// The place of a position outside of the volume.
pub(super) const OUTSIDE: usize = usize::MAX;

/// The positions of a window.
pub(super) struct Places {
    /// Index of each position in the volume, or [`OUTSIDE`].
    pub of: Vec<usize>,
    /// Positions attend to each other where these agree.
    pub regions: Vec<u8>,
    /// Whether the regions differ.
    pub is_masked: bool,
}

impl Places {
    pub fn new(shape: &WindowShape) -> Self {
        let tokens = shape.tokens();
        Self { of: Vec::with_capacity(tokens), regions: Vec::with_capacity(tokens), is_masked: false }
    }

    /// Bytes of the lists.
    pub fn bytes(shape: &WindowShape) -> usize {
        shape.tokens() * (size_of::<usize>() + 1)
    }

    /// Takes the positions of a window.
    pub fn set(&mut self, shape: &WindowShape, window: usize) {
        let WindowShape { volume: [_, height, width], .. } = *shape;
        let [_, rows, columns] = shape.grid();
        let index = [window / (rows * columns), window / columns % rows, window % columns];
        let axes: [AxisOfWindow; 3] = std::array::from_fn(|axis| AxisOfWindow::of(shape, axis, index[axis]));
        let [depths, heights, widths] = &axes;
        self.of.clear();
        self.regions.clear();
        for d in 0..depths.len {
            for h in 0..heights.len {
                for w in 0..widths.len {
                    let place = match (depths.place(d), heights.place(h), widths.place(w)) {
                        (Some(d), Some(h), Some(w)) => (d * height + h) * width + w,
                        _ => OUTSIDE,
                    };
                    self.of.push(place);
                    self.regions.push(depths.region(d) | heights.region(h) << 1 | widths.region(w) << 2);
                }
            }
        }
        self.is_masked = axes.iter().any(|axis| axis.border < axis.len);
    }

    /// Takes the positions out of a head, `[channels, positions]`, times `factor`, as panels `[panel][channel][width]`; those outside
    /// have the values of `padding`.
    #[inline(always)]
    pub fn gather<E: Stored>(&self, head: &[E], padding: &[f32], width: usize, factor: f32, target: &mut [f32]) {
        let (channels, positions) = (padding.len(), head.len() / padding.len());
        for (places, target) in self.of.chunks(width).zip(target.chunks_exact_mut(channels * width)) {
            for (channel, target) in target.chunks_exact_mut(width).enumerate() {
                let row = &head[channel * positions..][..positions];
                for (target, place) in target.iter_mut().zip(places) {
                    *target = factor * row.get(*place).map_or(padding[channel], |value| value.to_f32());
                }
            }
        }
    }

    /// Rounds panels `[panel][channel][width]` into a head of the result, whose channels begin `positions` apart from `first` on.
    ///
    /// # Safety
    ///
    /// No other task has this window of the head.
    #[inline(always)]
    pub unsafe fn scatter<E: Stored>(
        &self,
        panels: &[f32],
        [channels, width]: [usize; 2],
        [first, positions]: [usize; 2],
        target: &Shared<'_, E>,
    ) {
        for (places, panel) in self.of.chunks(width).zip(panels.chunks_exact(channels * width)) {
            for (channel, values) in panel.chunks_exact(width).enumerate() {
                for (value, place) in values.iter().zip(places).filter(|(_, place)| **place != OUTSIDE) {
                    // SAFETY: windows do not share positions, and this one is the caller's.
                    let target = unsafe { target.piece(first + channel * positions + place, 1) };
                    target[0] = E::from_f32(*value);
                }
            }
        }
    }

    /// Adds the values of the positions outside to a sum for each channel.
    #[inline(always)]
    pub fn add_outside(&self, panels: &[f32], width: usize, sums: &mut [f64]) {
        for (places, panel) in self.of.chunks(width).zip(panels.chunks_exact(sums.len() * width)) {
            for (sum, values) in sums.iter_mut().zip(panel.chunks_exact(width)) {
                let outside = values.iter().zip(places).filter(|(_, place)| **place == OUTSIDE);
                *sum += outside.map(|(value, _)| f64::from(*value)).sum::<f64>();
            }
        }
    }
}

/// A window along one axis.
struct AxisOfWindow {
    /// Where it begins, before the shift.
    first: usize,
    len: usize,
    shift: usize,
    /// Of the volume, padded to whole windows.
    padded: usize,
    volume: usize,
    /// Where in the window the other end of the volume begins; its length where it does not.
    border: usize,
}

impl AxisOfWindow {
    fn of(shape: &WindowShape, axis: usize, index: usize) -> Self {
        let (len, shift, volume) = (shape.window[axis], shape.shift[axis], shape.volume[axis]);
        let windows = volume.div_ceil(len);
        let border = if index + 1 == windows { len - shift } else { len };
        Self { first: index * len, len, shift, padded: windows * len, volume, border }
    }

    /// The place in the volume, if it is inside.
    fn place(&self, position: usize) -> Option<usize> {
        let place = (self.first + position + self.shift) % self.padded;
        (place < self.volume).then_some(place)
    }

    fn region(&self, position: usize) -> u8 {
        u8::from(position >= self.border)
    }
}
