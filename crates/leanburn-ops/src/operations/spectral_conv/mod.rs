//! Convolution by multiplication of a few Fourier coefficients: [`spectral_conv`].
//!
//! Transforms (`transform.rs`) and products of spectra (`mixing.rs`) run on kernels of our own on the CPU, and elsewhere as products of
//! matrices.

mod mixing;
mod operation;
mod spectra;
mod transform;

pub use operation::{Pointwise, SpectralWeights, spectral_conv};
