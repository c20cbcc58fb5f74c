//! Kernels for the CubeCL devices (CUDA, Vulkan, WebGPU, Metal, ROCm): one source for all of them.
//!
//! A volume is taken as it lies in memory, channels first or channels last: convolutions read and write channels
//! last, everything else channels first, and changing from one to the other is a copy of the volume. What a kernel gives
//! lies as its input does.
//!
//! A kernel reads its volume in the dtype it is stored in, computes in float32, and rounds once.

// What `#[cube]` makes of a kernel, and of its arguments.
#![allow(clippy::too_many_arguments, missing_docs, missing_debug_implementations)]

mod activation;
mod channel;
mod conv;
mod extension;
mod max_pool;
mod norm;
mod place;
mod resample;
mod statistics;
mod volume;

pub(super) use extension::CubeOps;
