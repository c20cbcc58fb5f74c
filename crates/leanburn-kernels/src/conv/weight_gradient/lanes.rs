//! Which lanes the weight gradient of a shape takes.

use crate::conv::shape::ConvShape;
use crate::conv::transforms::depth_transform::KernelTransform;

/// Output channels that fill a vector.
const VECTOR: usize = 16;
/// Positions without strides from which on dot products are as fast, or faster.
const MANY_POSITIONS: usize = 16 * 1024;
/// Input channels, without a kernel that uses each more than once, from which on transposing the gradient pays.
const MANY_CHANNELS: usize = 96;

/// What the lanes of a vector hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// Positions: a sum is a dot product, of [`DotProducts`](super::dot_products::DotProducts).
    Positions,
    /// Positions of planes that are transformed along the depth: half of the dot products.
    Transformed,
    /// Output channels: sums are those of [`OuterProducts`](super::outer_products::OuterProducts).
    Channels,
}

impl Lanes {
    /// Transformed planes where they pay; otherwise channels, where they fill vectors, and where dot products would be short or
    /// of strided rows.
    pub(crate) fn of(shape: &ConvShape) -> Self {
        if KernelTransform::pays(shape) {
            return Self::Transformed;
        }
        let [channels_in, channels_out] = [shape.channels_in, shape.channels_out].map(|all| all / shape.groups);
        let vectors = channels_out.div_ceil(VECTOR);
        let empty = vectors * VECTOR - channels_out;
        let positions = shape.batch_size * shape.output().iter().product::<usize>();
        let channels = if shape.stride.iter().product::<usize>() > 1 {
            empty <= vectors * VECTOR / 4
        } else {
            let reused = shape.kernel != [1; 3] || channels_in >= MANY_CHANNELS;
            reused && positions < MANY_POSITIONS && vectors > 1 && empty <= vectors * VECTOR / 8
        };
        if channels { Self::Channels } else { Self::Positions }
    }

    /// All that the weight gradient of a shape can take.
    #[cfg(test)]
    pub(crate) fn all_of(shape: &ConvShape) -> Vec<Self> {
        let transformed = KernelTransform::of(shape).map(|_| Self::Transformed);
        [Self::Positions, Self::Channels].into_iter().chain(transformed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::reference::cube;

    #[test]
    fn each_shape_takes_what_was_fastest() {
        for (shape, lanes) in [
            (cube([16, 16], 48, 3, 1, 1), Lanes::Transformed),
            (cube([16, 32], 32, 4, 1, 1), Lanes::Transformed),
            (cube([128, 128], 16, 3, 1, 1), Lanes::Transformed),
            (ConvShape { stride: [1, 2, 2], ..cube([32, 64], 48, 3, 1, 1) }, Lanes::Transformed),
            (cube([256, 256], 8, 3, 1, 1), Lanes::Channels),
            (cube([64, 64], 32, 3, 2, 1), Lanes::Channels),
            (ConvShape { dilation: [2, 1, 1], ..cube([16, 16], 48, 3, 1, 1) }, Lanes::Positions),
            (cube([4, 8], 48, 3, 1, 1), Lanes::Positions),
            (ConvShape { input: [2, 64, 64], ..cube([16, 16], 1, 3, 1, 1) }, Lanes::Positions),
            (cube([32, 64], 32, 1, 1, 0), Lanes::Positions),
        ] {
            assert_eq!(Lanes::of(&shape), lanes, "{shape:?}");
        }
    }
}
