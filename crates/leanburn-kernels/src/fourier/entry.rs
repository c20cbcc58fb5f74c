//! What callers call: each function on the best instruction set, by the table of its element.

use super::mixing::{Mixing, Part};
use super::planes;
use super::transform::Transform;
use crate::activation::Activation;
use crate::kernels::Element;
use crate::simd;

impl Transform {
    /// The spectra of the activated channels of `x`, `[items, depth, height, width]`, into `spectra`: float32 `[2, items, modes]`, the
    /// real parts and the imaginary parts.
    ///
    /// # Memory
    ///
    /// [`to_spectra_workspace`](Self::to_spectra_workspace): for each thread a plane in float32, and a slice of the spectrum for each
    /// plane.
    ///
    /// # Numerics
    ///
    /// float32; a channel's spectrum depends neither on the others nor on the number of threads, bit for bit.
    ///
    /// # Panics
    ///
    /// When a slice has another length than the transform says.
    pub fn to_spectra<E: Element>(&self, x: &[E], activation: Activation, spectra: &mut [f32]) {
        (E::kernels().fourier)(self, simd::best(), x, activation, spectra);
    }

    /// Adds the transpose of the map, from `spectra` to volumes, to `y`, in the shapes of [`to_spectra`](Self::to_spectra).
    ///
    /// # Memory
    ///
    /// [`add_volumes_workspace`](Self::add_volumes_workspace).
    ///
    /// # Numerics
    ///
    /// As [`to_spectra`](Self::to_spectra); the sum is rounded once.
    ///
    /// # Panics
    ///
    /// When a slice has another length than the transform says.
    pub fn add_volumes<E: Element>(&self, spectra: &[f32], y: &mut [E]) {
        (E::kernels().fourier_transpose)(self, simd::best(), spectra, y);
    }

    /// Bytes that [`to_spectra`](Self::to_spectra) of so many channels allocates on this thread's pool.
    pub fn to_spectra_workspace(&self, items: usize) -> usize {
        planes::workspace(self, items, true)
    }

    /// Bytes that [`add_volumes`](Self::add_volumes) of so many channels allocates on this thread's pool.
    pub fn add_volumes_workspace(&self, items: usize) -> usize {
        planes::workspace(self, items, false)
    }
}

impl Mixing {
    /// One of the three sets of spectra from the other two.
    ///
    /// # Memory
    ///
    /// 16 KiB on the stack of each thread.
    ///
    /// # Numerics
    ///
    /// float32 sums in the order of the terms, whatever the number of threads.
    ///
    /// # Panics
    ///
    /// When a slice has another length than the sizes say.
    pub fn compute(&self, part: Part, operands: [&[f32]; 2], result: &mut [f32]) {
        self.compute_on(simd::best(), part, operands, result);
    }
}
