//! What a GPU's pool holds, counted in activations.
//!
//! Their names begin with `gpu::`: a check runs them apart from the tests on the CPU.
#![cfg(any(feature = "cuda", feature = "metal", feature = "rocm", feature = "vulkan", feature = "wgpu"))]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/gpu.rs"]
mod device;
mod gpu;
#[path = "../common/level.rs"]
mod level;
