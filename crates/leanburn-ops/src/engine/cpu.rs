//! Tensors in the memory of the CPU, as the slices that the kernels take.

use std::ops::Deref;

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{BackendTensor, DispatchKindConversion, DispatchTensor, Flex};
use burn::tensor::{DType, Element as BurnElement, Tensor, TensorData};
use bytemuck::Pod;
use leanburn_kernels::{Element, Stored as _};

use crate::autodiff::{lower_plain, raise_plain};

/// Runs the expression with `$element` standing for the element of the dtype.
macro_rules! with_element {
    ($dtype:expr, $element:ident => $expression:expr) => {
        match $dtype {
            burn::tensor::DType::F32 => {
                type $element = f32;
                $expression
            }
            burn::tensor::DType::F16 => {
                type $element = burn::tensor::f16;
                $expression
            }
            burn::tensor::DType::BF16 => {
                type $element = burn::tensor::bf16;
                $expression
            }
            other => unreachable!("a CpuTensor is never {other:?}"),
        }
    };
}
pub(crate) use with_element;

/// What the kernels compute on: an element for which Burn has a tensor.
pub(crate) trait Stored: Element + BurnElement + Pod {}

impl<E: Element + BurnElement + Pod> Stored for E {}

/// A contiguous tensor of float32, float16 or bfloat16 in the memory of the CPU, without autodiff.
#[derive(Clone, Debug)]
pub(crate) struct CpuTensor(FloatTensor<Flex>);

impl CpuTensor {
    /// The tensor, made contiguous where it is not.
    ///
    /// # Panics
    ///
    /// Panics if the tensor is not in the memory of the CPU, or is under autodiff.
    pub(crate) fn of<const D: usize>(tensor: Tensor<D>) -> Self {
        let tensor = lower_plain::<Flex>(tensor.into_dispatch());
        Self(if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() })
    }

    /// A tensor of values in row-major order.
    pub(crate) fn from_vec<E: Stored, const D: usize>(values: Vec<E>, shape: [usize; D]) -> Self {
        Self(Flex::float_from_data(TensorData::new(values, shape), &Default::default()))
    }

    /// A small tensor of sums in float64, on which the kernels do not compute.
    pub(crate) fn from_f64<const D: usize>(values: Vec<f64>, shape: [usize; D]) -> Tensor<D> {
        Tensor::from_dispatch(raise_plain::<Flex>(Flex::float_from_data(
            TensorData::new(values, shape),
            &Default::default(),
        )))
    }

    /// The values of one.
    pub(crate) fn to_f64<const D: usize>(tensor: &Tensor<D>) -> Vec<f64> {
        tensor.to_data().iter::<f64>().collect()
    }

    /// A tensor of zeros.
    pub(crate) fn zeros<E: Stored, const D: usize>(shape: [usize; D]) -> Self {
        Self::from_vec(vec![E::default(); shape.iter().product()], shape)
    }

    pub(crate) fn dtype(&self) -> DType {
        self.0.dtype()
    }

    /// The values in row-major order.
    pub(crate) fn values<E: Stored>(&self) -> &[E] {
        let layout = self.0.layout();
        let start = layout.start_offset();
        &self.0.storage::<E>()[start..start + layout.num_elements()]
    }

    /// The values to be written; copied before if anybody else holds them.
    pub(crate) fn values_mut<E: Stored>(&mut self) -> &mut [E] {
        let (start, length) = (self.0.layout().start_offset(), self.0.layout().num_elements());
        &mut self.0.storage_mut::<E>()[start..start + length]
    }

    /// Whether nothing else holds the values.
    pub(crate) fn is_unique(&self) -> bool {
        self.0.is_unique()
    }

    pub(crate) fn into_tensor<const D: usize>(self) -> Tensor<D> {
        Tensor::from_dispatch(raise_plain::<Flex>(self.0))
    }
}

/// Where the first value of a tensor is, if it is a contiguous one of the kernels in the memory of the CPU, without autodiff.
pub(crate) fn address(tensor: &DispatchTensor) -> Option<usize> {
    let Ok(BackendTensor::Float(tensor)) =
        <DispatchTensor as DispatchKindConversion<Flex>>::try_into_backend(tensor.clone())
    else {
        return None;
    };
    let is_ours = matches!(tensor.dtype(), DType::F32 | DType::F16 | DType::BF16) && tensor.is_contiguous();
    is_ours.then(|| {
        let tensor = CpuTensor(tensor);
        with_element!(tensor.dtype(), E => tensor.values::<E>().as_ptr().addr())
    })
}

/// The values of a small tensor (a weight, a scale) in float32: where they are, or a copy.
pub(crate) enum Float32 {
    Tensor(CpuTensor),
    Copy(Vec<f32>),
}

impl Deref for Float32 {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match self {
            Self::Tensor(tensor) => tensor.values(),
            Self::Copy(values) => values,
        }
    }
}

/// The values of a tensor in float32.
pub(crate) fn to_f32<const D: usize>(tensor: &Tensor<D>) -> Float32 {
    let tensor = CpuTensor::of(tensor.clone());
    match tensor.dtype() {
        DType::F32 => Float32::Tensor(tensor),
        dtype => {
            Float32::Copy(with_element!(dtype, E => tensor.values::<E>().iter().map(|value| value.to_f32()).collect()))
        }
    }
}

/// Bytes of the copy that [`to_f32`] makes.
pub(crate) fn float32_bytes<const D: usize>(tensor: &Tensor<D>) -> usize {
    if tensor.dtype() == DType::F32 { 0 } else { tensor.shape().num_elements() * size_of::<f32>() }
}
