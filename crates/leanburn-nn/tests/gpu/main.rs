//! The fixtures on the GPUs of this build.
//!
//! Their names begin with `gpu::`: a check runs them apart from the tests on the CPU.
#![cfg(any(feature = "cuda", feature = "metal", feature = "rocm", feature = "vulkan", feature = "wgpu"))]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../leanburn-ops/tests/common/gpu.rs"]
mod device;
mod gpu;
