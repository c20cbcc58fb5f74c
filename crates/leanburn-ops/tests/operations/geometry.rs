//! Random shapes of convolutions.

use burn::tensor::ops::ConvOptions;
use proptest::prelude::*;

/// A convolution: `groups` times as many channels as `per_group` says.
#[derive(Clone, Debug)]
pub struct Geometry {
    pub batch_size: usize,
    pub groups: usize,
    /// Channels in and out of a group.
    pub per_group: [usize; 2],
    pub axes: [Axis; 3],
}

/// One axis of a convolution.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub size: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    pub padding: (usize, usize),
}

/// Any axis that the kernel fits in, with inputs from `smallest` to about ten.
fn axis(smallest: usize) -> impl Strategy<Value = Axis> {
    (1usize..5, 1usize..4, 1usize..3, (0usize..3, 0usize..3), 0usize..6).prop_map(
        move |(kernel, stride, dilation, padding, more)| {
            let span = dilation * (kernel - 1) + 1;
            let size = span.saturating_sub(padding.0 + padding.1).max(smallest) + more;
            Axis { size, kernel, stride, dilation, padding }
        },
    )
}

/// An axis whose output is as long as its input.
fn keeping_axis() -> impl Strategy<Value = Axis> {
    (1usize..3, 1usize..3, 2usize..9).prop_map(|(half, dilation, size)| {
        let kernel = 2 * half - 1;
        let padding = dilation * (half - 1);
        Axis { size, kernel, stride: 1, dilation, padding: (padding, padding) }
    })
}

/// Any convolution of volumes of at least `smallest` voxels an axis.
pub fn geometry(smallest: usize) -> impl Strategy<Value = Geometry> {
    let axes = [axis(smallest), axis(smallest), axis(smallest)];
    (1usize..3, 1usize..4, [1usize..5, 1usize..6], axes).prop_map(|(batch_size, groups, per_group, axes)| Geometry {
        batch_size,
        groups,
        per_group,
        axes,
    })
}

/// Any convolution whose output has the shape of its input.
pub fn keeping_geometry() -> impl Strategy<Value = Geometry> {
    let axes = [keeping_axis(), keeping_axis(), keeping_axis()];
    (1usize..3, 1usize..4, 1usize..5, axes).prop_map(|(batch_size, groups, channels, axes)| Geometry {
        batch_size,
        groups,
        per_group: [channels; 2],
        axes,
    })
}

impl Geometry {
    pub fn channels(&self) -> [usize; 2] {
        self.per_group.map(|channels| channels * self.groups)
    }

    pub fn input(&self) -> [usize; 5] {
        let [depth, height, width] = self.axes.map(|axis| axis.size);
        [self.batch_size, self.channels()[0], depth, height, width]
    }

    pub fn output(&self) -> [usize; 5] {
        let [depth, height, width] = self.axes.map(|axis| {
            let padded = axis.size + axis.padding.0 + axis.padding.1;
            (padded - axis.dilation * (axis.kernel - 1) - 1) / axis.stride + 1
        });
        [self.batch_size, self.channels()[1], depth, height, width]
    }

    pub fn weight(&self) -> [usize; 5] {
        let [depth, height, width] = self.axes.map(|axis| axis.kernel);
        [self.channels()[1], self.per_group[0], depth, height, width]
    }

    pub fn options(&self) -> ConvOptions<3> {
        let [stride, dilation] = [|axis: Axis| axis.stride, |axis: Axis| axis.dilation].map(|of| self.axes.map(of));
        let mut options = ConvOptions::new(stride, [0; 3], dilation, self.groups);
        options.padding = self.axes.map(|axis| axis.padding);
        options
    }
}
