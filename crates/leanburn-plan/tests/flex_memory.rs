//! What the model of Flex says of an operation, against the heap. One test: each case counts the whole heap.

#[path = "common/threads.rs"]
mod threads;

use std::env;
use std::path::Path;
use std::process::Command;

use burn::backend::ir::{OperationIr, TensorIr};
use burn::backend::ops::{
    ActivationOps, BoolTensorOps, ConvOptions, ConvTransposeOptions, FloatTensorOps, IntTensorOps, InterpolateMode,
    InterpolateOptions, ModuleOps,
};
use burn::backend::tensor::{Device as DeviceOf, FloatTensor};
use burn::backend::{Backend, Capture, DispatchDevice, Distribution, Flex, TensorMetadata};
use burn::tensor::{BoolStore, DType, Device, FloatDType, IndexingUpdateOp, IntDType, Shape, Slice};
use gemm_common::cache::CACHE_INFO;
use leanburn_ops::CountingAllocator;
use leanburn_plan::{FlexMemory, MemoryModel, Operand, Place, Target, record};
use threads::on_new_threads;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// An input of a case.
#[derive(Clone, Copy, Debug)]
struct Input {
    dims: &'static [usize],
    dtype: DType,
    /// Whether the case holds on to it.
    is_held: bool,
    /// Whether its last two axes have been swapped.
    is_turned: bool,
}

/// Float32 that nothing else holds.
const fn own(dims: &'static [usize]) -> Input {
    Input { dims, dtype: DType::F32, is_held: false, is_turned: false }
}

/// Float32 that the case holds on to.
const fn held(dims: &'static [usize]) -> Input {
    Input { is_held: true, ..own(dims) }
}

impl Input {
    const fn of(self, dtype: DType) -> Self {
        Self { dtype, ..self }
    }

    const fn turned(self) -> Self {
        Self { is_turned: true, ..self }
    }

    /// Zeros on the backend. Float, integer and truth primitives are one type on both backends, but not for the compiler.
    fn on<B: Zeros>(self, device: &DeviceOf<B>) -> FloatTensor<B> {
        let mut dims = self.dims.to_vec();
        let rank = dims.len();
        if self.is_turned {
            dims.swap(rank - 2, rank - 1);
        }
        let tensor = B::zeros(Shape::from(dims), device, self.dtype);
        if self.is_turned { B::float_swap_dims(tensor, rank - 2, rank - 1) } else { tensor }
    }
}

trait Zeros: Backend {
    fn zeros(shape: Shape, device: &DeviceOf<Self>, dtype: DType) -> FloatTensor<Self>;
}

macro_rules! zeros {
    ($($backend:ty),*) => {
        $(impl Zeros for $backend {
            fn zeros(shape: Shape, device: &DeviceOf<Self>, dtype: DType) -> FloatTensor<Self> {
                match dtype {
                    DType::Bool(_) => Self::bool_zeros(shape, device, dtype.into()),
                    DType::I64 | DType::I32 => Self::int_zeros(shape, device, dtype.into()),
                    _ => Self::float_zeros(shape, device, dtype.into()),
                }
            }
        })*
    };
}
zeros!(Flex, Capture);

/// An operation on both backends.
#[derive(Clone)]
struct Case {
    text: &'static str,
    inputs: Vec<Input>,
    flex: fn(Vec<FloatTensor<Flex>>) -> FloatTensor<Flex>,
    capture: fn(Vec<FloatTensor<Capture>>) -> FloatTensor<Capture>,
}

/// `case!(inputs; names => expression in the backend B)`.
macro_rules! case {
    ([$($input:expr),*]; $($name:ident),* => $body:expr) => {
        Case {
            text: stringify!($body),
            inputs: vec![$($input),*],
            flex: { type B = Flex; |inputs: Vec<FloatTensor<B>>| { case!(@take inputs; $($name),*); $body } },
            capture: { type B = Capture; |inputs: Vec<FloatTensor<B>>| { case!(@take inputs; $($name),*); $body } },
        }
    };
    (@take $inputs:ident; $($name:ident),*) => {
        let mut inputs = $inputs.into_iter();
        $(let $name = inputs.next().expect("one input for each name");)*
        drop(inputs);
    };
}

/// What an operation leaves on the heap above what was there before, the peak while it runs, and whether its output is all of
/// its buffer, in order.
#[derive(Debug)]
struct Measured {
    after: i64,
    peak: i64,
    is_contiguous: bool,
    /// What its threads keep, if it is their first operation.
    kept: i64,
}

impl Case {
    fn measure(&self) -> Measured {
        let device = Default::default();
        let inputs: Vec<_> = self.inputs.iter().map(|input| input.on::<Flex>(&device)).collect();
        let held: Vec<_> = self
            .inputs
            .iter()
            .zip(&inputs)
            .filter(|(input, _)| input.is_held)
            .map(|(_, tensor)| tensor.clone())
            .collect();
        let before = HEAP.current_usage() as i64;
        HEAP.reset_peak_usage();
        let output = (self.flex)(inputs);
        let (after, peak) = (HEAP.current_usage() as i64 - before, HEAP.peak_usage() as i64 - before);
        let is_whole = output.bytes().len() == output.shape().num_elements() * output.dtype().size();
        drop(held);
        Measured { after, peak, is_contiguous: output.is_contiguous() && is_whole, kept: 0 }
    }

    /// What the model says of the operations that the recording device is given.
    fn predict(&self) -> Measured {
        let recorded = record(Target::Cpu, |device: &Device| {
            let device = device.clone().without_autodiff();
            let DispatchDevice::Capture(device) = device.as_dispatch() else { unreachable!("it records") };
            let inputs = self.inputs.iter().map(|input| input.on::<Capture>(device)).collect();
            drop((self.capture)(inputs));
        });
        let (recording, ()) = recorded.unwrap();
        let before: usize = self.inputs.iter().map(|input| 1 + usize::from(input.is_turned)).sum();
        let [operation] = &recording.operations()[before..] else {
            panic!("{}: {:?}", self.text, &recording.operations()[before..])
        };
        self.apply(operation)
    }

    fn apply(&self, operation: &OperationIr) -> Measured {
        let bytes = |tensor: &TensorIr| (tensor.shape.num_elements() * tensor.dtype.size()) as i64;
        let mut ids: Vec<_> = operation.inputs().map(|tensor| tensor.id).collect();
        ids.dedup(); // `x * x` reads its one input twice
        let input = |tensor: &TensorIr| self.inputs[ids.iter().position(|id| *id == tensor.id).expect("collected")];
        let with_input = operation.inputs().map(|tensor| (tensor, input(tensor)));
        let operands: Vec<_> = with_input
            .map(|(tensor, input)| Operand { tensor, is_contiguous: !input.is_turned, is_unique: !input.is_held })
            .collect();
        let effect = FlexMemory.effect(operation, &operands);
        let places = || effect.outputs.iter().map(|(place, _)| *place);
        let new = operation.outputs().zip(places()).filter(|(_, place)| *place == Place::New);
        let new: i64 = new.map(|(tensor, _)| bytes(tensor)).sum();
        let freed = operands
            .iter()
            .take(ids.len())
            .enumerate()
            .filter(|(index, operand)| operand.is_unique && places().all(|place| place != Place::Input(*index)));
        let freed: i64 = freed.map(|(_, operand)| bytes(operand.tensor)).sum();
        let is_contiguous = effect.outputs[0].1;
        let kept = effect.kept.total().get() as i64;
        Measured { after: new - freed, peak: new + effect.workspace.get() as i64, is_contiguous, kept }
    }
}

const MATRIX: &[usize] = &[512, 512];
const ROW: &[usize] = &[1, 512];
const VOLUME: &[usize] = &[2, 8, 16, 32, 32];
const CHANNELS: &[usize] = &[1, 8, 1, 1, 1];
const BF16: DType = DType::BF16;
const F16: DType = DType::F16;
const I64: DType = DType::I64;
const BOOL: DType = DType::Bool(BoolStore::Native);

fn views() -> Vec<Case> {
    vec![
        case!([own(VOLUME)]; x => B::float_reshape(x, Shape::new([2, 8, 16 * 32 * 32]))),
        case!([held(VOLUME)]; x => B::float_reshape(x, Shape::new([2, 8, 16 * 32 * 32]))),
        case!([own(MATRIX).turned()]; x => B::float_reshape(x, Shape::new([512 * 512]))),
        case!([held(MATRIX).turned()]; x => B::float_reshape(x, Shape::new([512 * 512]))),
        case!([own(VOLUME)]; x => B::float_swap_dims(x, 0, 1)),
        case!([own(&[1, 16, 16, 32, 32])]; x => B::float_swap_dims(x, 0, 1)),
        case!([held(VOLUME)]; x => B::float_permute(x, &[0, 2, 3, 4, 1])),
        case!([own(&[2, 1, 1, 1, 4096])]; x => B::float_permute(x, &[1, 0, 4, 2, 3])),
        case!([own(ROW)]; x => B::float_expand(x, Shape::new([512, 512]))),
        case!([own(MATRIX)]; x => B::float_expand(x, Shape::new([1, 512, 512]))),
        case!([own(MATRIX)]; x => B::float_slice(x, &[Slice::from(0..256), Slice::from(0..512)])),
        case!([own(MATRIX)]; x => B::float_slice(x, &[Slice::from(0..512), Slice::from(0..512)])),
        case!([held(MATRIX)]; x => B::float_slice(x, &[Slice::from(0..512), Slice::from(256..512)])),
        case!([own(MATRIX)]; x => B::float_flip(x, &[1])),
    ]
}

fn element_wise() -> Vec<Case> {
    vec![
        case!([own(VOLUME)]; x => B::float_exp(x)),
        case!([held(VOLUME)]; x => B::float_exp(x)),
        case!([own(MATRIX).turned()]; x => B::float_tanh(x)),
        case!([held(MATRIX).turned()]; x => B::float_sqrt(x)),
        case!([own(VOLUME).of(BF16)]; x => B::float_abs(x)),
        case!([held(VOLUME).of(BF16)]; x => B::float_log(x)),
        case!([own(MATRIX)]; x => B::float_abs(x)),
        case!([own(MATRIX)]; x => B::float_recip(x)),
        case!([own(MATRIX)]; x => B::float_neg(x)),
        case!([held(MATRIX)]; x => B::float_sign(x)),
        case!([own(MATRIX)]; x => B::float_clamp(x, 0.0.into(), 1.0.into())),
        case!([held(MATRIX).turned()]; x => B::float_clamp_min(x, 0.0.into())),
        case!([own(MATRIX)]; x => B::float_add_scalar(x, 1.5.into())),
        case!([held(MATRIX)]; x => B::float_mul_scalar(x, 1.5.into())),
        case!([own(MATRIX).turned()]; x => B::float_div_scalar(x, 1.5.into())),
        case!([own(MATRIX)]; x => B::float_powf_scalar(x, 1.5.into())),
        case!([held(MATRIX)]; x => B::float_powf_scalar(x, 3.0.into())),
        case!([own(MATRIX)]; x => B::float_powi_scalar(x, 2.into())),
        case!([own(VOLUME), own(VOLUME)]; a, b => B::float_add(a, b)),
        case!([own(VOLUME), held(VOLUME)]; a, b => B::float_sub(a, b)),
        case!([held(VOLUME), own(VOLUME)]; a, b => B::float_sub(a, b)),
        case!([held(VOLUME), held(VOLUME)]; a, b => B::float_mul(a, b)),
        case!([held(VOLUME).of(BF16), own(VOLUME).of(BF16)]; a, b => B::float_mul(a, b)),
        case!([own(VOLUME).of(F16), held(VOLUME).of(F16)]; a, b => B::float_div(a, b)),
        case!([own(VOLUME), own(CHANNELS)]; a, b => B::float_mul(a, b)),
        case!([own(CHANNELS), own(VOLUME)]; a, b => B::float_sub(a, b)),
        case!([own(CHANNELS), held(VOLUME)]; a, b => B::float_sub(a, b)),
        case!([held(VOLUME), own(CHANNELS)]; a, b => B::float_div(a, b)),
        case!([own(ROW), own(&[512, 1])]; a, b => B::float_add(a, b)),
        case!([own(MATRIX), own(MATRIX).turned()]; a, b => B::float_add(a, b)),
        case!([own(MATRIX).turned(), own(MATRIX)]; a, b => B::float_add(a, b)),
        case!([own(MATRIX).turned(), own(MATRIX).turned()]; a, b => B::float_add(a, b)),
        case!([own(MATRIX), own(MATRIX)]; a, b => B::float_powf(a, b)),
        case!([held(MATRIX), held(MATRIX)]; a, b => B::float_equal(a, b, BOOL.into())),
        case!([own(MATRIX), own(MATRIX)]; a, b => B::float_lower(a, b, BOOL.into())),
        case!([own(MATRIX), own(ROW)]; a, b => B::float_greater(a, b, BOOL.into())),
        case!([held(MATRIX).turned()]; x => B::float_greater_elem(x, 0.0.into(), BOOL.into())),
        case!([own(MATRIX)]; x => B::float_lower_equal_elem(x, 0.0.into(), BOOL.into())),
        case!([own(MATRIX).of(BOOL)]; x => B::bool_not(x)),
        case!([held(MATRIX).of(BOOL), own(MATRIX).of(BOOL)]; a, b => B::bool_and(a, b)),
        case!([own(MATRIX).of(I64)]; x => B::int_add_scalar(x, 1.into())),
        case!([held(MATRIX).of(I64), own(MATRIX).of(I64)]; a, b => B::int_mul(a, b)),
        case!([own(MATRIX), own(MATRIX).of(BOOL)]; x, mask => B::float_mask_fill(x, mask, 0.0.into())),
        case!([held(MATRIX), own(MATRIX).of(BOOL)]; x, mask => B::float_mask_fill(x, mask, 0.0.into())),
        case!([own(ROW), own(MATRIX).of(BOOL)]; x, mask => B::float_mask_fill(x, mask, 0.0.into())),
        case!([own(MATRIX), held(MATRIX).of(BOOL), own(MATRIX)]; x, mask, y => B::float_mask_where(x, mask, y)),
        case!([held(MATRIX), held(MATRIX).of(BOOL), own(MATRIX)]; x, mask, y => B::float_mask_where(x, mask, y)),
        case!([held(MATRIX), held(MATRIX).of(BOOL), own(ROW)]; x, mask, y => B::float_mask_where(x, mask, y)),
    ]
}

fn activations() -> Vec<Case> {
    vec![
        case!([own(VOLUME)]; x => B::relu(x)),
        case!([held(VOLUME)]; x => B::gelu(x)),
        case!([held(MATRIX).turned()]; x => B::sigmoid(x)),
        case!([own(VOLUME)]; x => B::leaky_relu(x, 0.1.into())),
        case!([held(VOLUME), own(VOLUME)]; y, grad => B::relu_backward(y, grad)),
        case!([own(VOLUME), own(VOLUME)]; y, grad => B::sigmoid_backward(y, grad)),
        case!([held(VOLUME), held(VOLUME)]; x, grad => B::gelu_backward(x, grad)),
        case!([own(MATRIX)]; x => B::softmax(x, 1)),
        case!([held(MATRIX).of(BF16)]; x => B::softmax(x, 1)),
        case!([held(MATRIX)]; x => B::softmax(x, 0)),
        case!([own(MATRIX).turned()]; x => B::softmax(x, 1)),
        case!([own(MATRIX)]; x => B::log_softmax(x, 1)),
        case!([held(MATRIX)]; x => B::log_softmax(x, 1)),
        case!([own(MATRIX)]; x => B::softmin(x, 1)),
        case!([held(MATRIX)]; x => B::softmin(x, 1)),
        case!([own(VOLUME), own(&[8]), own(&[8]), own(&[8]), own(&[8])]; x, gamma, beta, mean, variance =>
            B::batch_norm(x, gamma, beta, mean, variance, 1e-5)),
        case!([held(VOLUME), own(&[8]), own(&[8]), own(&[8]), own(&[8])]; x, gamma, beta, mean, variance =>
            B::batch_norm(x, gamma, beta, mean, variance, 1e-5)),
        case!([held(VOLUME)]; x => B::adaptive_avg_pool3d(x, [4, 8, 8])),
        case!([held(VOLUME).of(BF16)]; x => B::adaptive_avg_pool3d(x, [4, 8, 8])),
        case!([held(MATRIX).of(BF16), held(&[512]).of(BF16)]; x, gamma => B::layer_norm(x, gamma, None, 1e-5)),
    ]
}

fn resampling() -> Vec<Case> {
    const IMAGE: &[usize] = &[2, 8, 128, 128];
    const HALVED: &[usize] = &[2, 8, 64, 64];
    vec![
        case!([held(IMAGE).turned()]; x => B::avg_pool2d(x, [2; 2], [2; 2], [0; 2], true, false)),
        case!([held(IMAGE).of(BF16)]; x => B::avg_pool2d(x, [2; 2], [2; 2], [0; 2], true, false)),
        case!([held(IMAGE).of(BF16), own(HALVED).of(BF16)]; x, grad =>
            B::avg_pool2d_backward(x, grad, [2; 2], [2; 2], [0; 2], true, false)),
        case!([held(IMAGE)]; x => B::max_pool2d(x, [2; 2], [2; 2], [0; 2], [1; 2], false)),
        case!([held(IMAGE).of(BF16)]; x => B::max_pool2d(x, [2; 2], [2; 2], [0; 2], [1; 2], false)),
        case!([held(IMAGE).of(BF16), own(HALVED).of(BF16), own(HALVED).of(I64)]; x, grad, indices =>
            B::max_pool2d_with_indices_backward(x, [2; 2], [2; 2], [0; 2], [1; 2], false, grad, indices).x_grad),
        case!([held(IMAGE).of(F16)]; x => B::adaptive_avg_pool2d(x, [8, 8])),
        case!([held(IMAGE).of(BF16), own(HALVED).of(BF16)]; x, grad => B::adaptive_avg_pool2d_backward(x, grad)),
        case!([held(IMAGE)]; x => B::interpolate(x, [64, 64], bilinear())),
        case!([held(IMAGE).of(BF16)]; x => B::interpolate(x, [64, 64], bilinear())),
        case!([own(HALVED).of(BF16)]; x => B::interpolate(x, [256, 256], bilinear())),
        case!([held(IMAGE).of(BF16), held(HALVED).of(BF16)]; x, grad =>
            B::interpolate_backward(x, grad, [64, 64], bilinear())),
    ]
}

fn bilinear() -> InterpolateOptions {
    InterpolateOptions::new(InterpolateMode::Bilinear)
}

fn indexing() -> Vec<Case> {
    const PART: &[usize] = &[256, 512];
    const INDICES: &[usize] = &[256];
    vec![
        case!([own(MATRIX), own(PART)]; x, y => B::float_slice_assign(x, &[Slice::from(0..256)], y)),
        case!([held(MATRIX), own(PART)]; x, y => B::float_slice_assign(x, &[Slice::from(0..256)], y)),
        case!([held(MATRIX).turned(), held(PART).turned()]; x, y => B::float_slice_assign(x, &[Slice::from(0..256)], y)),
        case!([own(VOLUME), own(VOLUME)]; a, b => B::float_cat(vec![a, b], 0)),
        case!([own(VOLUME), held(VOLUME)]; a, b => B::float_cat(vec![a, b], 1)),
        case!([own(MATRIX).turned(), held(MATRIX)]; a, b => B::float_cat(vec![a, b], 0)),
        case!([own(VOLUME)]; a => B::float_cat(vec![a], 1)),
        case!([own(MATRIX), own(INDICES).of(I64)]; x, i => B::float_select(x, 0, i)),
        case!([held(VOLUME), own(&[4]).of(I64)]; x, i => B::float_select(x, 1, i)),
        case!([own(MATRIX).turned(), own(INDICES).of(I64)]; x, i => B::float_select(x, 0, i)),
        case!([own(MATRIX), own(INDICES).of(I64), own(PART)]; x, i, y =>
            B::float_select_assign(x, 0, i, y, IndexingUpdateOp::Add)),
        case!([held(MATRIX), own(INDICES).of(I64), own(PART)]; x, i, y =>
            B::float_select_assign(x, 0, i, y, IndexingUpdateOp::Add)),
        case!([own(MATRIX), own(PART).of(I64)]; x, i => B::float_gather(0, x, i)),
        case!([own(MATRIX), held(PART).of(DType::I32)]; x, i => B::float_gather(0, x, i)),
        case!([own(MATRIX), own(PART).of(I64), own(PART)]; x, i, y =>
            B::float_scatter(0, x, i, y, IndexingUpdateOp::Add)),
        case!([held(MATRIX).turned(), own(PART).of(I64), own(PART).turned()]; x, i, y =>
            B::float_scatter(0, x, i, y, IndexingUpdateOp::Add)),
        case!([own(MATRIX)]; x => B::float_repeat_dim(x, 0, 2)),
        case!([held(VOLUME)]; x => B::float_cast(x, FloatDType::BF16)),
        case!([own(VOLUME).of(BF16)]; x => B::float_cast(x, FloatDType::F32)),
        case!([own(MATRIX).turned()]; x => B::float_cast(x, FloatDType::F16)),
        case!([own(MATRIX).of(I64)]; x => B::int_into_float(x, FloatDType::F32)),
        case!([own(MATRIX).of(BOOL)]; x => B::bool_into_float(x, FloatDType::F32)),
        case!([own(MATRIX)]; x => B::float_into_int(x, IntDType::I64)),
        case!([own(&[1])]; x => B::float_zeros(Shape::new([512, 512]), &x.device(), FloatDType::F32)),
        case!([own(&[1])]; x => B::int_zeros(Shape::new([512, 512]), &x.device(), IntDType::I64)),
        case!([own(&[1])]; x => B::int_ones(Shape::new([512, 512]), &x.device(), IntDType::I64)),
        case!([own(&[1])]; x => B::bool_zeros(Shape::new([1024, 1024]), &x.device(), BOOL.into())),
        case!([own(&[1])]; x => B::float_empty(Shape::new([512, 512]), &x.device(), FloatDType::BF16)),
        case!([held(&[2048, 128]), own(&[16, 128]).of(I64)]; w, i => B::embedding(w, i)),
        case!([held(&[2048, 128]), own(&[16, 128, 128]), own(&[16, 128]).of(I64)]; w, grad, i =>
            B::embedding_backward(w, grad, i)),
        case!([own(&[1])]; x => B::float_ones(Shape::new([512, 512]), &x.device(), FloatDType::BF16)),
        case!([own(&[1])]; x => B::float_full(Shape::new([512, 512]), 2.0.into(), &x.device(), FloatDType::F32)),
        case!([own(&[1])]; x =>
            B::float_random(Shape::new([512, 512]), Distribution::Normal(0.0, 1.0), &x.device(), FloatDType::F32)),
        case!([own(&[1])]; x =>
            B::float_random(Shape::new([512, 512]), Distribution::Default, &x.device(), FloatDType::BF16)),
    ]
}

fn reductions() -> Vec<Case> {
    const CUBE: &[usize] = &[64, 64, 64];
    vec![
        case!([own(VOLUME)]; x => B::float_sum(x)),
        case!([held(MATRIX).turned()]; x => B::float_sum(x)),
        case!([own(VOLUME)]; x => B::float_mean(x)),
        case!([held(VOLUME).of(BF16)]; x => B::float_mean(x)),
        case!([held(MATRIX).of(BF16).turned()]; x => B::float_mean(x)),
        case!([own(VOLUME)]; x => B::float_max_abs(x)),
        case!([held(VOLUME)]; x => B::float_max_abs(x)),
        case!([held(MATRIX).turned()]; x => B::float_cumsum(x, 1)),
        case!([own(CUBE)]; x => B::float_sum_dim(x, 0)),
        case!([own(CUBE)]; x => B::float_sum_dim(x, 1)),
        case!([own(CUBE)]; x => B::float_sum_dim(x, 2)),
        case!([own(&[8, 8, 8, 512])]; x => B::float_sum_dim(x, 2)),
        case!([own(&[2, 512, 256])]; x => B::float_sum_dim(x, 0)),
        case!([own(CUBE).turned()]; x => B::float_sum_dim(x, 0)),
        case!([own(CUBE).turned()]; x => B::float_sum_dim(x, 2)),
        case!([own(CUBE).of(BF16)]; x => B::float_sum_dim(x, 1)),
        case!([own(VOLUME)]; x => B::float_mean_dim(x, 4)),
        case!([own(VOLUME)]; x => B::float_mean_dim(x, 1)),
        case!([own(VOLUME).of(BF16)]; x => B::float_mean_dim(x, 4)),
        case!([own(VOLUME).of(BF16)]; x => B::float_mean_dim(x, 1)),
        case!([own(VOLUME)]; x => B::float_sum_dims(x, &[0, 2, 3, 4])),
        case!([held(VOLUME)]; x => B::float_sum_dims(x, &[0, 2, 3, 4])),
        case!([held(&[1, 8, 32, 32, 32])]; x => B::float_sum_dims(x, &[0, 2, 3, 4])),
        case!([own(MATRIX)]; x => B::float_max_dim(x, 1)),
        case!([held(&[2, 512, 256])]; x => B::float_max_dim(x, 0)),
        case!([own(MATRIX).turned()]; x => B::float_max_dim(x, 1)),
        case!([held(&[2, 512, 256])]; x => B::float_argmax(x, 0, IntDType::I64)),
        case!([held(&[512, 256, 2])]; x => B::float_argmax(x, 2, IntDType::I32)),
    ]
}

fn products() -> Vec<Case> {
    const TALL: &[usize] = &[2048, 128];
    const WEIGHT: &[usize] = &[128, 256];
    vec![
        case!([own(MATRIX), own(MATRIX)]; a, b => B::float_matmul(a, b)),
        case!([held(MATRIX), own(MATRIX).turned()]; a, b => B::float_matmul(a, b)),
        case!([own(MATRIX).turned(), held(MATRIX)]; a, b => B::float_matmul(a, b)),
        case!([own(TALL), held(WEIGHT)]; a, b => B::float_matmul(a, b)),
        case!([own(MATRIX).of(BF16), held(MATRIX).of(BF16)]; a, b => B::float_matmul(a, b)),
        case!([own(MATRIX).of(BF16), held(MATRIX).of(BF16).turned()]; a, b => B::float_matmul(a, b)),
        case!([own(&[4, 256, 64]), own(&[4, 64, 256]).turned()]; a, b => B::float_matmul(a, b)),
        case!([own(&[4, 256, 64]), own(&[1, 64, 256])]; a, b => B::float_matmul(a, b)),
        case!([own(&[1, 4096, 16]), own(&[1, 16, 1024]).turned()]; a, b => B::float_matmul(a, b)),
        case!([own(TALL), held(WEIGHT), held(&[256])]; x, w, b => B::linear(x, w, Some(b))),
        case!([held(&[4, 512, 128]), held(WEIGHT), held(&[256])]; x, w, b => B::linear(x, w, Some(b))),
        case!([held(&[64, 33, 128]), held(WEIGHT)]; x, w => B::linear(x, w, None)),
        case!([own(&[64, 33, 128]).turned(), held(WEIGHT)]; x, w => B::linear(x, w, None)),
        case!([own(TALL).of(BF16), held(WEIGHT).of(BF16)]; x, w => B::linear(x, w, None)),
        case!([held(WEIGHT), own(&[4, 512, 256])]; w, grad => B::linear_x_backward(w, grad)),
        case!([held(&[4, 512, 128]), own(&[4, 512, 256])]; x, grad => B::linear_weight_backward(x, grad)),
        case!([own(&[4, 512, 256])]; grad => B::linear_bias_backward(grad)),
    ]
}

fn convolutions() -> Vec<Case> {
    const IN: &[usize] = &[2, 8, 16, 32, 32];
    const ONE: &[usize] = &[1, 8, 24, 32, 32];
    const KERNEL: &[usize] = &[16, 8, 3, 3, 3];
    const OUT: &[usize] = &[2, 16, 16, 32, 32];
    const OUT_OF_ONE: &[usize] = &[1, 16, 24, 32, 32];
    const HALVED: &[usize] = &[2, 16, 8, 16, 16];
    const UP: &[usize] = &[8, 16, 2, 2, 2];
    vec![
        case!([own(IN), held(KERNEL), held(&[16])]; x, w, b => B::conv3d(x, w, Some(b), same())),
        case!([held(ONE), held(KERNEL)]; x, w => B::conv3d(x, w, None, same())),
        case!([held(IN).turned(), held(KERNEL)]; x, w => B::conv3d(x, w, None, same())),
        case!([held(IN), held(KERNEL)]; x, w => B::conv3d(x, w, None, down())),
        case!([held(IN), held(&[16, 8, 1, 1, 1])]; x, w => B::conv3d(x, w, None, point())),
        case!([held(IN), held(&[16, 4, 3, 3, 3])]; x, w => B::conv3d(x, w, None, grouped())),
        case!([held(IN), held(&[16, 4, 3, 3, 3]), held(OUT)]; x, w, grad =>
            B::conv3d_x_backward(x, w, grad, grouped())),
        case!([held(IN), held(&[16, 4, 3, 3, 3]), held(OUT)]; x, w, grad =>
            B::conv3d_weight_backward(x, w, grad, grouped())),
        case!([held(IN).of(BF16), held(KERNEL).of(BF16)]; x, w => B::conv3d(x, w, None, same())),
        case!([held(IN).of(F16), held(KERNEL).of(F16)]; x, w => B::conv3d(x, w, None, same())),
        case!([held(&[1, 64, 128, 128]), held(&[32, 64, 3, 3])]; x, w => B::conv2d(x, w, None, image())),
        case!([held(IN), held(KERNEL), own(OUT)]; x, w, grad => B::conv3d_x_backward(x, w, grad, same())),
        case!([held(ONE), held(KERNEL), own(OUT_OF_ONE)]; x, w, grad => B::conv3d_x_backward(x, w, grad, same())),
        case!([held(IN), held(KERNEL), own(HALVED)]; x, w, grad => B::conv3d_x_backward(x, w, grad, down())),
        case!([held(IN).of(BF16), held(KERNEL).of(BF16), own(OUT).of(BF16)]; x, w, grad =>
            B::conv3d_x_backward(x, w, grad, same())),
        case!([held(IN), held(KERNEL), held(OUT)]; x, w, grad => B::conv3d_weight_backward(x, w, grad, same())),
        case!([held(ONE), held(KERNEL), own(OUT_OF_ONE)]; x, w, grad => B::conv3d_weight_backward(x, w, grad, same())),
        case!([held(&[2, 8, 15, 31, 31]), held(KERNEL), held(HALVED)]; x, w, grad =>
            B::conv3d_weight_backward(x, w, grad, down())),
        case!([held(IN).of(BF16), held(KERNEL).of(BF16), held(OUT).of(BF16)]; x, w, grad =>
            B::conv3d_weight_backward(x, w, grad, same())),
        case!([held(IN), held(&[16]), own(OUT)]; x, b, grad => B::conv3d_bias_backward(x, b, grad)),
        case!([held(ONE), held(&[16]), own(OUT_OF_ONE)]; x, b, grad => B::conv3d_bias_backward(x, b, grad)),
        case!([own(IN), held(UP), held(&[16])]; x, w, b => B::conv_transpose3d(x, w, Some(b), up())),
        case!([held(ONE), held(UP)]; x, w => B::conv_transpose3d(x, w, None, up())),
        case!([held(&[1, 32, 16, 32, 32]), held(&[32, 16, 3, 3, 3])]; x, w => B::conv_transpose3d(x, w, None, up())),
        case!([held(HALVED), held(&[16, 8, 2, 2, 2]), own(IN)]; x, w, grad =>
            B::conv_transpose3d_weight_backward(x, w, grad, up())),
    ]
}

fn same() -> ConvOptions<3> {
    ConvOptions::new([1; 3], [1; 3], [1; 3], 1)
}

fn down() -> ConvOptions<3> {
    ConvOptions::new([2; 3], [1; 3], [1; 3], 1)
}

fn grouped() -> ConvOptions<3> {
    ConvOptions::new([1; 3], [1; 3], [1; 3], 2)
}

fn point() -> ConvOptions<3> {
    ConvOptions::new([1; 3], [0; 3], [1; 3], 1)
}

fn image() -> ConvOptions<2> {
    ConvOptions::new([1; 2], [1; 2], [1; 2], 1)
}

fn up() -> ConvTransposeOptions<3> {
    ConvTransposeOptions::new([2; 3], [0; 3], [0; 3], [1; 3], 1)
}

/// Threads that have run a matrix product: each keeps memory from its first one on.
fn threads(count: usize) -> rayon::ThreadPool {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build().unwrap();
    let factor = || own(&[64, 64]).on::<Flex>(&Default::default());
    pool.broadcast(|_| drop(Flex::float_matmul(factor(), factor())));
    pool
}

fn is_close(measured: i64, predicted: i64) -> bool {
    (measured - predicted).abs() <= predicted.abs() / 100 + 4096
}

#[test]
fn what_the_model_says_is_what_the_heap_shows() {
    let products = [products(), convolutions()].concat();
    match env::var(SECOND_LEVEL) {
        Ok(expected) => {
            assert_eq!(CACHE_INFO[1].cache_bytes.to_string(), expected, "the caches are those that were made");
            compare(&products);
        }
        Err(_) => {
            compare(&[views(), element_wise(), activations(), resampling(), indexing(), reductions()].concat());
            compare(&products);
            the_same_with_other_caches();
        }
    }
}

fn compare(cases: &[Case]) {
    let (one, two) = (threads(1), threads(2));
    let mut wrong = Vec::new();
    let mut check = |case: &Case, is_right: &dyn Fn(&Measured, &Measured) -> bool, both: &dyn Fn() -> [Measured; 2]| {
        // What threads that end free in between is not the operation's: it is measured again.
        for attempt in 1..=3 {
            let [measured, predicted] = both();
            if is_right(&measured, &predicted) && measured.is_contiguous == predicted.is_contiguous {
                return;
            }
            if attempt == 3 {
                wrong.push(format!("{}\n  {:?}\n  {measured:?}\n  {predicted:?}", case.text, case.inputs));
            }
        }
    };
    for case in cases {
        let both = || [case.measure(), case.predict()];
        let is_right = |measured: &Measured, predicted: &Measured| {
            is_close(measured.peak, predicted.peak) && is_close(measured.after, predicted.after)
        };
        check(case, &is_right, &|| one.install(both));
        // The second thread may miss a short operation.
        let alone = one.install(|| case.predict()).peak;
        let is_between = |measured: &Measured, predicted: &Measured| {
            (measured.peak >= alone || is_close(measured.peak, alone))
                && (measured.peak <= predicted.peak || is_close(measured.peak, predicted.peak))
                && is_close(measured.after, predicted.after)
        };
        check(case, &is_between, &|| two.install(both));
        let is_kept = |first: &Measured, alone: &Measured| (first.after - alone.after - alone.kept).abs() <= (64 << 10);
        check(case, &is_kept, &|| on_new_threads(1, both));
    }
    assert!(wrong.is_empty(), "{} cases: inputs, measured, predicted\n{}", wrong.len(), wrong.join("\n"));
}

/// The size of the second-level cache that a process is given.
const SECOND_LEVEL: &str = "LEANBURN_SECOND_LEVEL";

/// Names of processors; for each level of cache its KiB and ways.
const PROCESSORS: [(&str, [(usize, usize); 3]); 3] = [
    ("EPYC, Zen 3", [(32, 8), (512, 8), (32_768, 16)]),
    ("Core, Coffee Lake", [(32, 8), (256, 4), (12_288, 16)]),
    ("Atom, Gracemont", [(32, 8), (4096, 16), (6144, 12)]),
];

/// Runs this test again where the files of the system speak of other caches. The crate of the products reads these on Linux.
fn the_same_with_other_caches() {
    let inside = |folder: &Path, program: &Path, second_level: usize| {
        let script = r#"mount --bind "$0" /sys/devices/system/cpu && exec "$@""#;
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).args([folder, program]);
        command.args(["--exact", "what_the_model_says_is_what_the_heap_shows"]);
        command.env(SECOND_LEVEL, second_level.to_string()).output()
    };
    for (name, caches) in PROCESSORS {
        let folder = tempfile::tempdir().unwrap();
        for (level, (kib, ways)) in (1..).zip(caches) {
            let cache = folder.path().join(format!("cpu0/cache/index{level}"));
            std::fs::create_dir_all(&cache).unwrap();
            let size = format!("{kib}K");
            let (level, ways) = (level.to_string(), ways.to_string());
            let files =
                [("level", level.as_str()), ("type", "Unified"), ("size", &size), ("ways_of_associativity", &ways)];
            for (file, text) in files.into_iter().chain([("coherency_line_size", "64"), ("shared_cpu_list", "0")]) {
                std::fs::write(cache.join(file), text).unwrap();
            }
        }
        if !inside(folder.path(), Path::new("true"), 0).is_ok_and(|output| output.status.success()) {
            println!("not run with the caches of other processors: this system gives no mounts of one's own");
            return;
        }
        let output = inside(folder.path(), &env::current_exe().unwrap(), caches[1].0 << 10).unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "with the caches of {name}: {text}");
    }
}
