//! Dropout of the values of any element.

use super::mask::DropoutMask;
use crate::kernels::Element;

/// Multiplies the values that are kept by the mask's scale and the others by 0, in place: the forward pass and its gradient.
///
/// # Memory
///
/// Reads and writes `values` once. 8 KiB for each thread; with runs longer than 1 also a byte for each run.
///
/// # Numerics
///
/// Arithmetic in float32, rounded once. The same bits for any number of threads.
///
/// # Panics
///
/// If the values are not a whole number of runs.
///
/// # Example
///
/// ```
/// use leanburn_kernels::dropout::{DropoutMask, dropout};
///
/// let mask = DropoutMask::new(1, 0.5, 1);
/// let (mut values, mut gradient) = ([1.0f32; 100], [1.0f32; 100]);
/// dropout(&mask, &mut values);
/// dropout(&mask, &mut gradient);
/// assert!(values.contains(&0.0) && values.contains(&2.0));
/// assert_eq!(values, gradient);
/// ```
pub fn dropout<E: Element>(mask: &DropoutMask, values: &mut [E]) {
    let (count, run) = (values.len(), mask.run());
    assert!(count.is_multiple_of(run), "{count} values are not a whole number of runs of {run}");
    (E::kernels().dropout)(mask, values);
}
