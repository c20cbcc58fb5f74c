//! What computes on a tensor without autodiff, and the one place that decides it.
//!
//! The forward pass of an operation and each of its gradients is a [`Computation`]: it says how it is computed on each
//! [`Engine`], and [`run`] chooses.

mod computation;
mod cpu;

pub(crate) use computation::{Computation, Engine, run};
pub(crate) use cpu::{CpuTensor, Stored, address, float32_bytes, to_f32, with_element};
