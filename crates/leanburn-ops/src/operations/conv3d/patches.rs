//! Convolutions whose kernel never sees a voxel twice: patch embeddings, one product of matrices.
//!
//! Source: [An Image is Worth 16x16 Words](https://arxiv.org/abs/2010.11929). With a stride of the kernel's length, the input in another
//! order is a matrix of one row for each output position, with the values under the kernel in its columns. The kernels of this library,
//! which march along neighbouring positions, have nothing to share there.

use burn::tensor::{DType, Tensor};
use leanburn_kernels::conv::{ConvSettings, ConvShape};

use super::composed::added;
use crate::numerics::cast_to;

/// Elements of a kernel from which the product is faster than the kernels for overlapping windows.
const LEAST_ELEMENTS: usize = 4096;

/// Whether a convolution of this dtype is computed here on the CPU.
pub(super) fn are_patches(shape: &ConvShape, dtype: DType) -> bool {
    let ConvSettings { stride, dilation, padding, groups } = shape.settings();
    let [_, _, kernel @ ..] = shape.weight_dims();
    let is_apart = stride == kernel && dilation == [1; 3] && padding == [[0; 2]; 3] && groups == 1;
    is_apart && kernel.iter().product::<usize>() >= LEAST_ELEMENTS && dtype == DType::F32
}

/// Sizes of the matrices.
struct Patches {
    batch_size: usize,
    channels: usize,
    kernel: [usize; 3],
    /// Along each axis of the output.
    positions: [usize; 3],
    channels_out: usize,
    input: [usize; 3],
}

impl Patches {
    fn of(shape: &ConvShape) -> Self {
        let [batch_size, channels, input @ ..] = shape.input_dims();
        let [channels_out, _, kernel @ ..] = shape.weight_dims();
        Self { batch_size, channels, kernel, positions: shape.output(), channels_out, input }
    }

    /// Rows of the matrix of patches.
    fn rows(&self) -> usize {
        self.batch_size * self.positions.iter().product::<usize>()
    }

    /// Its columns.
    fn columns(&self) -> usize {
        self.channels * self.kernel.iter().product::<usize>()
    }

    /// `[batch_size, channels, ..]` to `[rows, columns]`.
    fn rows_of(&self, x: Tensor<5>) -> Tensor<2> {
        let x = (0..3).fold(x, |x, axis| {
            let used = self.positions[axis] * self.kernel[axis];
            if used == self.input[axis] { x } else { x.narrow(axis + 2, 0, used) }
        });
        let ([depth, height, width], [kernel_d, kernel_h, kernel_w]) = (self.positions, self.kernel);
        let apart = [self.batch_size, self.channels, depth, kernel_d, height, kernel_h, width, kernel_w];
        x.reshape(apart).permute([0, 2, 4, 6, 1, 3, 5, 7]).reshape([self.rows(), self.columns()])
    }

    /// The other way round, with zeros where no patch is.
    fn volume_of(&self, rows: Tensor<2>) -> Tensor<5> {
        let ([depth, height, width], [kernel_d, kernel_h, kernel_w]) = (self.positions, self.kernel);
        let apart = [self.batch_size, depth, height, width, self.channels, kernel_d, kernel_h, kernel_w];
        let used: [usize; 3] = std::array::from_fn(|axis| self.positions[axis] * self.kernel[axis]);
        let dims = [self.batch_size, self.channels, used[0], used[1], used[2]];
        let volume = rows.reshape(apart).permute([0, 4, 1, 5, 2, 6, 3, 7]).reshape(dims);
        let after: [usize; 3] = std::array::from_fn(|axis| self.input[axis] - used[axis]);
        if after == [0; 3] {
            volume
        } else {
            volume.pad([(0, 0), (0, 0), (0, after[0]), (0, after[1]), (0, after[2])], 0.0f32)
        }
    }

    /// `[batch_size, channels_out, ..]` to `[rows, channels_out]`.
    fn rows_of_output(&self, y: Tensor<5>) -> Tensor<2> {
        y.permute([0, 2, 3, 4, 1]).reshape([self.rows(), self.channels_out])
    }

    /// The kernel as `[channels_out, columns]`.
    fn matrix(&self, weight: &Tensor<5>) -> Tensor<2> {
        cast_to(weight.clone(), DType::F32).reshape([self.channels_out, self.columns()])
    }
}

/// `conv3d(x, weight) + bias + residual`.
pub(super) fn forward(
    x: Tensor<5>,
    weight: &Tensor<5>,
    bias: Option<&Tensor<1>>,
    residual: Option<Tensor<5>>,
    shape: &ConvShape,
) -> Tensor<5> {
    let patches = Patches::of(shape);
    let y = patches.rows_of(x).matmul(patches.matrix(weight).transpose());
    let y = match bias {
        Some(bias) => y + cast_to(bias.clone(), DType::F32).reshape([1, patches.channels_out]),
        None => y,
    };
    let [depth, height, width] = patches.positions;
    let y = y.reshape([patches.batch_size, depth, height, width, patches.channels_out]);
    added(y.permute([0, 4, 1, 2, 3]), residual)
}

/// The gradient of the input.
pub(super) fn data_gradient(gradient: Tensor<5>, weight: &Tensor<5>, shape: &ConvShape) -> Tensor<5> {
    let patches = Patches::of(shape);
    patches.volume_of(patches.rows_of_output(gradient).matmul(patches.matrix(weight)))
}

/// The most elements of the weight whose gradient is made at once, and the share of a small one.
const PART: (usize, usize) = (1 << 20, 16);

/// The gradient of the weight. Flex holds the output of a product twice for a moment, and zeros too, but not a volume filled with a
/// number. So it is made in parts of some output channels.
pub(super) fn weight_gradient(x: Tensor<5>, gradient: Tensor<5>, shape: &ConvShape) -> Tensor<5> {
    let patches = Patches::of(shape);
    let (channels_out, device) = (patches.channels_out, x.device());
    let (rows, gradient) = (patches.rows_of(x), patches.rows_of_output(gradient).transpose());
    let whole = Tensor::<2>::full([channels_out, patches.columns()], 0.0, (&device, DType::F32));
    let part = PART.0.min(channels_out * patches.columns() / PART.1) / patches.columns();
    let part = part.max(1);
    let whole = (0..channels_out).step_by(part).fold(whole, |whole, first| {
        let channels = first..(first + part).min(channels_out);
        let product = gradient.clone().slice(channels.clone()).matmul(rows.clone());
        whole.slice_assign(channels, product)
    });
    whole.reshape(shape.weight_dims())
}
