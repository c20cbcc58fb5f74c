//! What callers call: each function on the best instruction set, by the table of its element.

use super::backward::{ChannelSums, Norm};
use super::shape::NormShape;
use super::statistics::{GroupMoments, GroupStatistics};
use crate::activation::Activation;
use crate::conv::Prologue;
use crate::kernels::Element;
use crate::simd;

/// Mean and deviation of each group of `x`, `[batch_size, channels, positions]`.
///
/// # Memory
///
/// Reads `x` once. Holds about 100 bytes for every row (a channel of an item) and for every further 16384 elements of it.
///
/// # Numerics
///
/// Within 5e-7 of the deviation, also where the mean is much larger; then the mean is rounded to float32. The same bits
/// for any number of threads.
///
/// # Panics
///
/// If `x` does not have the shape.
pub fn group_statistics<E: Element>(shape: &NormShape, x: &[E], epsilon: f64) -> GroupStatistics {
    (E::kernels().group_statistics)(simd::best(), shape, x, epsilon)
}

/// Mean and centred sum of squares of each group of `x`, a part of a volume: the shape is that of the part.
///
/// Moments of two parts merge to `count = n + m`, `mean = (n a + m b) / count`, `squares = A + B + (b - a)^2 n m / count`
/// ([Chan, Golub and LeVeque](https://doi.org/10.1007/978-3-642-51461-6_3)); those of the whole are
/// [`group_statistics`] before they are rounded.
///
/// # Memory, numerics and panics
///
/// As [`group_statistics`].
pub fn group_moments<E: Element>(shape: &NormShape, x: &[E]) -> GroupMoments {
    (E::kernels().group_moments)(simd::best(), shape, x)
}

/// `activation(scale * x + shift)` of every value, into `output`.
///
/// # Shapes
///
/// `x` and `output` are `[batch_size, channels, positions]`, scale and shift `[batch_size, channels]`.
///
/// # Memory
///
/// Reads `x` and writes `output` once; a few KiB for each thread.
///
/// # Panics
///
/// If a slice does not have its shape.
pub fn apply<E: Element>(shape: &NormShape, x: &[E], prologue: Prologue, output: &mut [E]) {
    assert_eq!(x.len(), output.len(), "input and output have the same shape");
    (E::kernels().norm)(simd::best(), shape, Some(x), prologue, output);
}

/// [`apply`] to the values where they stand.
///
/// # Panics
///
/// If a slice does not have its shape.
pub fn apply_in_place<E: Element>(shape: &NormShape, values: &mut [E], prologue: Prologue) {
    (E::kernels().norm)(simd::best(), shape, None, prologue, values);
}

/// Turns the gradient of `activation(norm(x))` into the gradient of `x`, in place.
///
/// Returns the gradients of the weight and of the bias, `[channels]`, also where there is no weight or bias.
///
/// # Shapes
///
/// `x` and `gradient` are `[batch_size, channels, positions]`, weight and bias `[channels]`.
///
/// # Memory
///
/// Two passes over `x` and `gradient`; nothing else of their size. Holds about 100 bytes for every row (a channel of an item) and for every
/// further 16384 elements of it.
///
/// # Numerics
///
/// Sums are float64 beyond blocks of 1024 elements. In half precision the gradient is rounded once, at the end, at the
/// price of reading the activation a second time. Errors grow with `|mean| / deviation` as those of
/// [`GroupStatistics::scale_and_shift`] do. The same bits for any number of threads.
///
/// # Panics
///
/// If a slice does not have its shape.
pub fn group_norm_act_backward<E: Element>(
    shape: &NormShape,
    x: &[E],
    statistics: &GroupStatistics,
    weight: Option<&[f32]>,
    bias: Option<&[f32]>,
    activation: Activation,
    gradient: &mut [E],
) -> (Vec<f32>, Vec<f32>) {
    let norm = Norm::new(shape, statistics, [weight, bias], activation);
    (E::kernels().norm_backward)(&norm, simd::best(), x, gradient)
}

/// First pass of [`group_norm_act_backward`] over a part of a volume: the sums that the second pass needs. The shape is that of the part,
/// the statistics are those of the whole.
///
/// The gradient is used up: in float32 it is left with the derivative of the activation in it.
///
/// # Panics
///
/// If a slice does not have its shape.
pub fn group_norm_act_sums<E: Element>(norm: &Norm<'_>, x: &[E], gradient: &mut [E]) -> ChannelSums {
    (E::kernels().norm_sums)(norm, simd::best(), x, gradient)
}

/// Second pass of [`group_norm_act_backward`] over a part of a volume, from the sums over all of its `positions` (of a channel): turns
/// the gradient of `activation(norm(x))` into the gradient of `x`, in place.
///
/// # Panics
///
/// If a slice does not have its shape, or there are not two sums for each channel of each item.
pub fn group_norm_act_apply<E: Element>(
    norm: &Norm<'_>,
    x: &[E],
    sums: &ChannelSums,
    positions: usize,
    gradient: &mut [E],
) {
    (E::kernels().norm_apply)(norm, simd::best(), x, sums, positions, gradient);
}

/// Multiplies the gradient of `activation(x)` by the derivative, in place: the gradient of `x`.
///
/// # Panics
///
/// If the slices differ in length.
pub fn act_backward<E: Element>(x: &[E], activation: Activation, gradient: &mut [E]) {
    (E::kernels().act_backward)(simd::best(), x, activation, gradient);
}
