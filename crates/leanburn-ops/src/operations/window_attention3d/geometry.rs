//! Where the windows of a volume lie, and which bias and mask their scores have.

use burn::tensor::{Device, Int, Tensor};
use leanburn_kernels::attention::window::WindowShape;

use crate::operations::check::valid;

/// The windows of a volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    /// Of the volume.
    pub(super) dims: [usize; 5],
    pub(super) num_heads: usize,
    pub(super) window: [usize; 3],
    pub(super) shift: [usize; 3],
    pub(super) scale: f64,
}

impl Geometry {
    /// The shape for the kernels of the CPU.
    pub(super) fn shape(&self) -> WindowShape {
        let [batch_size, channels, volume @ ..] = self.dims;
        let heads = [batch_size, self.num_heads, channels / self.num_heads];
        valid("window_attention3d", WindowShape::new(heads, volume, [self.window, self.shift], self.scale as f32))
    }

    fn volume(&self) -> [usize; 3] {
        let [_, _, volume @ ..] = self.dims;
        volume
    }

    /// The window, no longer than the volume.
    fn fitted(&self) -> [usize; 3] {
        std::array::from_fn(|axis| self.window[axis].min(self.volume()[axis]))
    }

    /// The shift, none along an axis that a window covers.
    fn moved(&self) -> [usize; 3] {
        std::array::from_fn(|axis| if self.volume()[axis] > self.window[axis] { self.shift[axis] } else { 0 })
    }

    fn grid(&self) -> [usize; 3] {
        std::array::from_fn(|axis| self.volume()[axis].div_ceil(self.fitted()[axis]))
    }

    /// Positions of a window.
    pub(super) fn tokens(&self) -> usize {
        self.fitted().iter().product()
    }

    pub(super) fn windows(&self) -> usize {
        self.grid().iter().product()
    }

    pub(super) fn positions(&self) -> usize {
        self.volume().iter().product()
    }

    /// Place of each position of each window, in the order of the windows; those outside have the number of positions.
    pub(super) fn places(&self) -> Vec<usize> {
        let (volume, shift, positions) = (self.volume(), self.moved(), self.positions());
        self.each_position(|rolled, padded| {
            let source: [usize; 3] = std::array::from_fn(|axis| (rolled[axis] + shift[axis]) % padded[axis]);
            let is_inside = (0..3).all(|axis| source[axis] < volume[axis]);
            if is_inside { (source[0] * volume[1] + source[1]) * volume[2] + source[2] } else { positions }
        })
    }

    /// Region of each position of each window: those of one region attend to each other. None where all of them do.
    pub(super) fn regions(&self) -> Option<Vec<usize>> {
        let (shift, fitted) = (self.moved(), self.fitted());
        (shift != [0; 3]).then(|| {
            self.each_position(|rolled, padded| {
                (0..3).fold(0, |region, axis| {
                    let borders = [fitted[axis], shift[axis]].map(|length| rolled[axis] + length >= padded[axis]);
                    region * 3 + borders.into_iter().filter(|is_beyond| *is_beyond).count()
                })
            })
        })
    }

    /// A value for each position of each window, from its place in the rolled volume and the size of that.
    fn each_position(&self, value: impl Fn([usize; 3], [usize; 3]) -> usize) -> Vec<usize> {
        let (grid, fitted) = (self.grid(), self.fitted());
        let padded = std::array::from_fn(|axis| grid[axis] * fitted[axis]);
        let windows = (0..self.windows()).map(|window| coordinates(window, grid));
        let rolled = windows.flat_map(|window| {
            (0..self.tokens()).map(move |token| {
                let inner = coordinates(token, fitted);
                std::array::from_fn(|axis| window[axis] * fitted[axis] + inner[axis])
            })
        });
        rolled.map(|rolled| value(rolled, padded)).collect()
    }

    /// Row of the table for each query and key of a window, `tokens * tokens`.
    pub(super) fn rows(&self) -> Vec<usize> {
        let [_, height, width] = self.window.map(|length| 2 * length - 1);
        let row = |query: [usize; 3], key: [usize; 3]| {
            let [d, h, w]: [usize; 3] = std::array::from_fn(|axis| query[axis] + self.window[axis] - 1 - key[axis]);
            (d * height + h) * width + w
        };
        let tokens: Vec<_> = (0..self.tokens()).map(|token| coordinates(token, self.window)).collect();
        tokens.iter().flat_map(|query| tokens.iter().map(|key| row(*query, *key))).collect()
    }
}

/// Depth, height and width of an index of a volume.
fn coordinates(index: usize, [_, height, width]: [usize; 3]) -> [usize; 3] {
    [index / (height * width), index / width % height, index % width]
}

/// Indices on a device.
pub(super) fn on_device(indices: &[usize], device: &Device) -> Tensor<1, Int> {
    let indices: Vec<i32> = indices.iter().map(|index| *index as i32).collect();
    Tensor::from_data(indices.as_slice(), device)
}
