//! Volumes as they lie in the memory of a CubeCL device.

use burn::tensor::{DType, Shape};
use burn_cubecl::cubecl::calculate_cube_count_elemwise;
use burn_cubecl::cubecl::ir::{ElemType, FloatKind};
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;

/// How the values of a volume `[batch_size, channels, depth, height, width]` follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    ChannelsFirst,
    ChannelsLast,
}

/// A volume without gaps in memory.
#[derive(Debug)]
pub(super) struct Volume {
    pub(super) tensor: CubeTensor,
    pub(super) layout: Layout,
}

impl Volume {
    /// The tensor, copied where it has gaps or lies in another order.
    pub(super) fn of(tensor: CubeTensor) -> Self {
        let layout = [Layout::ChannelsFirst, Layout::ChannelsLast].into_iter().find(|layout| layout.is_of(&tensor));
        match layout {
            Some(layout) => Self { tensor, layout },
            None => Self { tensor: into_contiguous(tensor), layout: Layout::ChannelsFirst },
        }
    }

    /// The tensor in this layout, copied where it lies otherwise.
    pub(super) fn in_layout(tensor: CubeTensor, layout: Layout) -> CubeTensor {
        if layout.is_of(&tensor) {
            return tensor;
        }
        match layout {
            Layout::ChannelsFirst => into_contiguous(tensor),
            Layout::ChannelsLast => {
                let [dims_last, back] = [[0, 2, 3, 4, 1], [0, 4, 1, 2, 3]];
                burn_cubecl::ops::permute(into_contiguous(burn_cubecl::ops::permute(tensor, &dims_last)), &back)
            }
        }
    }

    /// A new volume of these dimensions in the same layout and dtype.
    pub(super) fn empty_like(&self, dims: [usize; 5]) -> CubeTensor {
        let tensor = small(&self.tensor, &dims, self.tensor.dtype);
        Self { tensor, layout: self.layout }.in_order()
    }

    /// The tensor with the strides of its layout, also along axes of length one, where any stride would do.
    pub(super) fn in_order(mut self) -> CubeTensor {
        let wanted = self.layout.strides(self.dims());
        for (stride, wanted) in self.tensor.meta.strides_mut().iter_mut().zip(wanted) {
            *stride = wanted;
        }
        self.tensor
    }

    pub(super) fn dims(&self) -> [usize; 5] {
        dims(&self.tensor)
    }

    pub(super) fn is_channels_last(&self) -> bool {
        self.layout == Layout::ChannelsLast
    }
}

impl Layout {
    fn strides(self, [_, channels, depth, height, width]: [usize; 5]) -> [usize; 5] {
        let positions = depth * height * width;
        match self {
            Self::ChannelsFirst => [channels * positions, positions, height * width, width, 1],
            Self::ChannelsLast => [channels * positions, 1, height * width * channels, width * channels, channels],
        }
    }

    /// Whether the tensor lies like this, without gaps.
    fn is_of(self, tensor: &CubeTensor) -> bool {
        let dims = dims(tensor);
        let strides = tensor.meta.strides().iter().zip(self.strides(dims));
        dims.iter().zip(strides).all(|(length, (found, wanted))| *length == 1 || *found == wanted)
    }
}

pub(super) fn dims<const D: usize>(tensor: &CubeTensor) -> [usize; D] {
    tensor.meta.shape().dims()
}

/// A new tensor without gaps on the device of `like`.
pub(super) fn small(like: &CubeTensor, dims: &[usize], dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), Shape::from(dims.to_vec()), dtype)
}

/// The element of a dtype that [`Engine::Cube`](crate::engine::Engine::Cube) computes on.
pub(super) fn element(dtype: DType) -> ElemType {
    ElemType::Float(match dtype {
        DType::F16 => FloatKind::F16,
        DType::BF16 => FloatKind::BF16,
        _ => FloatKind::F32,
    })
}

/// Cubes and units for one unit of work on each element.
pub(super) fn elementwise(tensor: &CubeTensor) -> (CubeCount, CubeDim) {
    let count = tensor.meta.shape().num_elements();
    let cube_dim = CubeDim::new(&tensor.client, count);
    (calculate_cube_count_elemwise(&tensor.client, count, cube_dim), cube_dim)
}

/// The widest index that the tensors need.
pub(super) fn address_type(tensors: &[&CubeTensor]) -> AddressType {
    tensors.iter().map(|tensor| tensor.required_address_type()).max().unwrap_or_default()
}
