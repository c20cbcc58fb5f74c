//! Dropout that saves a key: backward makes the mask again.

use std::cell::Cell;

use burn::tensor::{Tensor, TensorData};
use leanburn_kernels::dropout::{self as kernel, DropoutMask};

use super::operation::{AnyTensor, Operation, apply};
use crate::engine::{Computation, CpuTensor, Engine, Stored, run};
use crate::meanwhile::meanwhile;
use crate::random;
use crate::recording::{Call, Recorder, is_recording};

/// Integer operations of a draw: 8 rounds of ChaCha give 16 words.
const OPERATIONS_PER_DRAW: u64 = 25;

/// Sets values to 0 with a probability, and multiplies the others by `1 / (1 - probability)`. Without autodiff (inference) it is
/// the identity, unless the pass is [in training](in_training).
///
/// Source: [Dropout](https://jmlr.org/papers/v15/srivastava14a.html). The draws are those of a counter-based generator under a
/// key from [the stream of segments](crate::random): [`random::seed`](crate::random::seed), or `Device::seed`, decides them. They are the
/// same on every device, with any number of threads, whether the segment is kept or recomputed, and whatever other threads draw.
///
/// # Shapes
///
/// - input and output: any, no axis empty
///
/// # Memory
///
/// Saved for backward: 32 bytes. On the CPU forward and backward write over the tensor that they are given if nothing else holds
/// it. On other devices the mask is drawn by the CPU and copied to the device, twice a step: a temporary of the input's size there,
/// a byte for each value here.
///
/// # Numerics
///
/// The probability is rounded to a multiple of 2^-32. On the CPU arithmetic in float32, rounded once; elsewhere in the input's dtype.
///
/// # Panics
///
/// Panics if an axis is empty, or the probability is not at least 0 and below 1.
///
/// # Example
///
/// ```
/// use burn::prelude::*;
/// use leanburn_ops::{backward, dropout};
///
/// let x = Tensor::<2>::ones([8, 16], &Device::flex().autodiff()).require_grad();
/// let y = dropout(x.clone(), 0.5);
/// assert_eq!(backward(y.clone().sum()).take(&x).unwrap().into_data(), y.into_data());
/// ```
#[must_use]
pub fn dropout<const D: usize>(x: Tensor<D>, probability: f64) -> Tensor<D> {
    let Some(mask) = mask_of("dropout", &x, probability, 1) else { return x };
    if D == 5 {
        return AnyTensor::from(apply_mask(AnyTensor::from(x).given(), mask)).given();
    }
    let (dims, mut volume) = (x.dims(), [1; 5]);
    dims.into_iter().rev().enumerate().for_each(|(axis, size)| volume[4 - axis.min(4)] *= size);
    apply_mask(x.reshape(volume), mask).reshape(dims)
}

/// [`dropout`] of whole channels, as PyTorch's `dropout3d`: neighbouring voxels are alike, so that single ones say little.
///
/// Source: [Tompson et al. 2015](https://arxiv.org/abs/1411.4280).
///
/// # Shapes
///
/// - input and output: `[batch_size, channels, depth, height, width]`, no axis empty
///
/// # Memory
///
/// As [`dropout`], but that a mask has one value for each channel of each item.
///
/// # Panics
///
/// Panics if an axis is empty (an empty batch too), or the probability is not at least 0 and below 1.
#[must_use]
pub fn dropout3d(x: Tensor<5>, probability: f64) -> Tensor<5> {
    let [_, _, size @ ..] = x.dims();
    match mask_of("dropout3d", &x, probability, size.into_iter().product()) {
        Some(mask) => apply_mask(x, mask),
        None => x,
    }
}

thread_local! {
    static IN_TRAINING: Cell<bool> = const { Cell::new(false) };
}

/// Runs a forward pass that belongs to training though nobody asks for its gradient, such as that of a target network: [`dropout`] and
/// [`dropout3d`] drop without autodiff too, until it ends, on this thread.
///
/// # Example
///
/// ```
/// use burn::prelude::*;
/// use leanburn_ops::{dropout, in_training};
///
/// let x = Tensor::<2>::ones([8, 16], &Device::flex());
/// assert_eq!(dropout(x.clone(), 0.5).into_data(), x.to_data());
/// assert_ne!(in_training(|| dropout(x.clone(), 0.5)).into_data(), x.into_data());
/// ```
pub fn in_training<T>(run: impl FnOnce() -> T) -> T {
    meanwhile(|value| IN_TRAINING.replace(value), true, run)
}

/// Whether what runs on this thread is [in training](in_training) without autodiff.
#[must_use]
pub fn is_in_training() -> bool {
    IN_TRAINING.get()
}

/// A mask of its own for the next call; `None` where nothing is dropped.
fn mask_of<const D: usize>(name: &str, x: &Tensor<D>, probability: f64, run: usize) -> Option<DropoutMask> {
    let dims = x.dims();
    assert!(!dims.contains(&0), "{name}: the input is {dims:?}, expected at least 1 along each axis");
    let sound = (0.0..1.0).contains(&probability);
    assert!(sound, "{name}: the probability is {probability}, expected a number of at least 0 and below 1");
    let device = x.device();
    let drops = probability > 0.0 && (device.is_autodiff() || is_in_training());
    drops.then(|| DropoutMask::new(random::next_key(&device), probability, run))
}

fn apply_mask(x: Tensor<5>, mask: DropoutMask) -> Tensor<5> {
    apply([x.into()], |[x], _| (masked(x.given(), mask), Dropout { mask }))
}

/// What [`dropout`] saves.
#[derive(Clone, Debug)]
struct Dropout {
    mask: DropoutMask,
}

impl Operation<1> for Dropout {
    fn backward(self, gradient: Tensor<5>, _needed: [bool; 1]) -> [AnyTensor; 1] {
        [masked(gradient, self.mask).into()]
    }
}

fn masked(x: Tensor<5>, mask: DropoutMask) -> Tensor<5> {
    run(Masked { x, mask })
}

/// A tensor times its mask: the forward pass, and with the gradient for the tensor its gradient.
struct Masked {
    x: Tensor<5>,
    mask: DropoutMask,
}

impl Computation for Masked {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(&self.x)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let (dims, dtype) = (self.x.dims(), self.x.dtype());
        let values = self.x.shape().num_elements();
        let draws = values / self.mask.run();
        let flops = values as u64 + OPERATIONS_PER_DRAW * draws as u64;
        let workspace = if self.mask.run() == 1 { 0 } else { draws };
        Call::new(recorder, "dropout").writes_over(self.x).costs(flops, workspace).record_one(dims, dtype)
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let mut x = CpuTensor::of(self.x);
        kernel::dropout(&self.mask, x.values_mut::<E>());
        x.into_tensor()
    }

    fn composed(self) -> Tensor<5> {
        let Self { x, mask } = self;
        let [batch_size, channels, ..] = x.dims();
        let dims = if mask.run() == 1 { x.dims() } else { [batch_size, channels, 1, 1, 1] };
        let options = (&x.device(), x.dtype());
        let kept = match is_recording(&x.device()) {
            true => Tensor::zeros(dims, options),
            false => Tensor::from_data(TensorData::new(mask.kept(dims.iter().product()), dims), options),
        };
        (x * kept).mul_scalar(mask.scale())
    }
}
