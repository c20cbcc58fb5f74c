//! CPU kernels of `leanburn-ops`, on plain slices: no tensors, no autodiff, no allocation beyond a bounded workspace.
//!
//! Volumes are contiguous `[batch_size, channels, depth, height, width]` slices of an [`Element`]: float32, float16 or
//! bfloat16. Arithmetic is float32 regardless of the element. Work is spread over rayon's current pool; results do not
//! depend on the number of threads. The instruction set is chosen at run time ([`simd::best`]).
//!
//! A crate of its own, so that it builds in seconds and its tests run under valgrind. The only crate of the project with
//! `unsafe`: each block says why it is sound.

#![cfg_attr(not(target_arch = "x86_64"), allow(unused, reason = "what only vectors of AVX-512 take"))]

pub mod activation;
pub mod attention;
pub mod axis_map;
pub mod bev_pool;
mod buffer;
mod cache;
pub mod compress;
pub mod conv;
mod counting;
pub mod dropout;
mod element;
pub mod fourier;
mod heap;
mod kept;
mod kernels;
pub mod layer_norm;
pub mod max_pool;
pub mod norm;
mod parallel;
mod peak;
pub mod planes;
pub mod random;
pub mod resample;
mod shape_error;
mod shared;
pub mod simd;
mod size;
mod tile_products;

pub use activation::Activation;
pub use buffer::room_for;
pub use cache::second_level_cache;
pub use counting::CountingAllocator;
pub use element::Stored;
pub use heap::keep_freed_memory;
pub use kernels::Element;
pub use parallel::on_pool;
pub use peak::{peak_bf16_flops, peak_f32_flops};
pub use shape_error::{ShapeError, ShapeProblem};
pub use size::check_volume;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
