//! Convolutions in one to three dimensions and their gradients. Flex runs all of them as convolutions of volumes, the
//! gradient of the input as a transposed one, the gradient of the weight as one of the input with a kernel as large as the
//! output; bf16 ones in f32.

use burn::backend::ir::{ModuleOperationIr, TensorIr};
use burn::tensor::DType;

use super::gemm::Gemm;
use super::inputs::{Inputs, Workspace, bytes, new_output};
use super::view::keeps_order;
use crate::memory_model::{Effect, Kept, Place};

/// Stride, padding and dilation along the spatial axes.
#[derive(Clone, Copy)]
struct Options {
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
    groups: usize,
}

/// A tensor of a batch or of kernels: two axes, then up to three spatial ones.
#[derive(Clone, Copy)]
struct Volume {
    outer: usize,
    channels: usize,
    spatial: [usize; 3],
    is_contiguous: bool,
}

/// Values for three axes; those that there are not are `missing`.
fn three(values: &[usize], missing: usize) -> [usize; 3] {
    std::array::from_fn(|axis| (axis + values.len()).checked_sub(3).map_or(missing, |axis| values[axis]))
}

impl Volume {
    fn of(inputs: &Inputs<'_>, input: usize) -> Self {
        let [outer, channels, spatial @ ..] = inputs.dims(input) else { unreachable!("a volume has channels") };
        let is_contiguous = inputs.is_contiguous(input);
        Self { outer: *outer, channels: *channels, spatial: three(spatial, 1), is_contiguous }
    }

    /// With batch and channels swapped, which Flex does without a copy.
    fn swapped(self) -> Self {
        let is_contiguous = self.is_contiguous && keeps_order(&[self.outer, self.channels], &[1, 0]);
        Self { outer: self.channels, channels: self.outer, is_contiguous, ..self }
    }

    fn positions(self) -> usize {
        self.spatial.iter().product()
    }

    fn elements(self) -> usize {
        self.outer * self.channels * self.positions()
    }

    /// Elements of the contiguous copy.
    fn copy(self) -> usize {
        if self.is_contiguous { 0 } else { self.elements() }
    }
}

macro_rules! options {
    ($options:expr, $padding:expr) => {
        Options {
            stride: three(&$options.stride, 1),
            padding: three(&$padding, 0),
            dilation: three(&$options.dilation, 1),
            groups: $options.groups,
        }
    };
}

pub(super) fn effect(operation: &ModuleOperationIr, inputs: &Inputs<'_>) -> Option<Effect> {
    use ModuleOperationIr::*;
    Some(match operation {
        Conv1d(op) => forward(inputs, options!(op.options, op.options.padding.map(|(begin, _)| begin)), &op.out),
        Conv2d(op) => forward(inputs, options!(op.options, op.options.padding.map(|(begin, _)| begin)), &op.out),
        Conv3d(op) => forward(inputs, options!(op.options, op.options.padding), &op.out),
        ConvTranspose1d(op) => transposed(inputs, 0, op.options.groups, &op.out),
        ConvTranspose2d(op) => transposed(inputs, 0, op.options.groups, &op.out),
        ConvTranspose3d(op) => transposed(inputs, 0, op.options.groups, &op.out),
        Conv1dXBackward(op) => transposed(inputs, 2, op.options.groups, &op.out),
        Conv2dXBackward(op) => transposed(inputs, 2, op.options.groups, &op.out),
        Conv3dXBackward(op) => transposed(inputs, 2, op.options.groups, &op.out),
        Conv1dWeightBackward(op) => {
            weight_backward(inputs, options!(op.options, op.options.padding.map(|(begin, _)| begin)), [0, 2])
        }
        Conv2dWeightBackward(op) => {
            weight_backward(inputs, options!(op.options, op.options.padding.map(|(begin, _)| begin)), [0, 2])
        }
        Conv3dWeightBackward(op) => weight_backward(inputs, options!(op.options, op.options.padding), [0, 2]),
        ConvTranspose1dWeightBackward(op) => weight_backward(inputs, options!(op.options, op.options.padding), [2, 0]),
        ConvTranspose2dWeightBackward(op) => weight_backward(inputs, options!(op.options, op.options.padding), [2, 0]),
        ConvTranspose3dWeightBackward(op) => weight_backward(inputs, options!(op.options, op.options.padding), [2, 0]),
        Conv1dBiasBackward(_) | Conv2dBiasBackward(_) | Conv3dBiasBackward(_) => bias_backward(inputs),
        ConvTranspose1dBiasBackward(_) | ConvTranspose2dBiasBackward(_) | ConvTranspose3dBiasBackward(_) => {
            bias_backward(inputs)
        }
        _ => return None,
    })
}

/// Inputs are `x, weight` and perhaps a bias.
fn forward(inputs: &Inputs<'_>, options: Options, output: &TensorIr) -> Effect {
    let convolution = Convolution { x: Volume::of(inputs, 0), kernel: Volume::of(inputs, 1), options };
    new_output(convolution.workspace(inputs.dtype(0), bytes(output)))
}

/// Inputs are `x, weight, ..`, or `.., weight, x` for the gradient of a convolution's input.
fn transposed(inputs: &Inputs<'_>, x: usize, groups: usize, output: &TensorIr) -> Effect {
    let convolution = Transposed { x: Volume::of(inputs, x), kernel: Volume::of(inputs, 1), groups };
    new_output(convolution.workspace(inputs.dtype(x), bytes(output)))
}

/// Convolves one input with another as the kernel, batch and channels swapped; the result is swapped back. Inputs are
/// `x, weight, gradient of the output`.
fn weight_backward(inputs: &Inputs<'_>, options: Options, [x, kernel]: [usize; 2]) -> Effect {
    let (x, kernel) = (Volume::of(inputs, x).swapped(), Volume::of(inputs, kernel).swapped());
    let weight = Volume::of(inputs, 1);
    let part = |volume: Volume| Volume {
        outer: volume.outer / options.groups,
        is_contiguous: volume.is_contiguous && options.groups == 1,
        ..volume
    };
    let options_of_part =
        Options { stride: options.dilation, padding: options.padding, dilation: options.stride, groups: 1 };
    let convolution = Convolution { x: part(x), kernel: part(kernel), options: options_of_part };
    let width = inputs.dtype(1).size();
    // A stride that does not divide the volume leaves a few rows too many, of which the gradient is a part.
    let gradient = (convolution.elements() * width) as u64;
    let workspace = convolution.workspace(inputs.dtype(1), gradient);
    if options.groups > 1 {
        let copy = if convolution.is_turned() { gradient } else { 0 };
        return new_output(Workspace { bytes: gradient + workspace.bytes.max(copy), ..workspace });
    }
    let is_contiguous = !convolution.is_turned() && convolution.elements() == weight.elements();
    let more = gradient.saturating_sub(inputs.bytes(1));
    Effect { outputs: vec![(Place::New, is_contiguous)], ..new_output(workspace.and(more)) }
}

/// Sums rows of channels, for which batches of more than one sample are turned and copied. Inputs are
/// `x, bias, gradient of the output`.
fn bias_backward(inputs: &Inputs<'_>) -> Effect {
    new_output(if Volume::of(inputs, 2).swapped().is_contiguous { 0 } else { inputs.bytes(2) })
}

/// A convolution `[batch, channels, ..] * [channels out, channels of a group, ..]`.
struct Convolution {
    x: Volume,
    kernel: Volume,
    options: Options,
}

/// Positions of the output that are computed at once.
const TILE: usize = 512;
/// Most channels in and out for which Flex walks an image directly.
const FEW_CHANNELS: [usize; 2] = [4, 16];

impl Convolution {
    fn spatial_out(&self) -> [usize; 3] {
        let Options { stride, padding, dilation, .. } = self.options;
        std::array::from_fn(|axis| {
            let span = dilation[axis] * (self.kernel.spatial[axis] - 1) + 1;
            (self.x.spatial[axis] + 2 * padding[axis]).saturating_sub(span) / stride[axis] + 1
        })
    }

    /// Elements of the output.
    fn elements(&self) -> usize {
        self.x.outer * self.kernel.outer * self.spatial_out().iter().product::<usize>()
    }

    /// Whether swapping the output's batch and channels puts its values out of order.
    fn is_turned(&self) -> bool {
        self.x.outer > 1 && self.kernel.outer > 1
    }

    fn workspace(&self, dtype: DType, output: u64) -> Workspace {
        let native = if dtype == DType::BF16 { DType::F32 } else { dtype };
        let kept = self.product(native).map_or(Kept::default(), |(gemm, count)| gemm.kept(count));
        if dtype != DType::BF16 {
            return Workspace { bytes: (self.workspace_of_native(dtype) * dtype.size()) as u64, kept };
        }
        let wide = self.x.elements() + self.kernel.elements();
        let widened = Self {
            x: Volume { is_contiguous: true, ..self.x },
            kernel: Volume { is_contiguous: true, ..self.kernel },
            options: self.options,
        };
        Workspace { bytes: 4 * (wide + widened.workspace_of_native(DType::F32)) as u64 + output, kept }
    }

    /// Elements, on top of the output.
    fn workspace_of_native(&self, dtype: DType) -> usize {
        let copies = self.x.copy() + self.kernel.copy();
        let Some((gemm, count)) = self.product(dtype) else { return copies };
        let at_once = count.min(rayon::current_num_threads());
        let packed = gemm.scratch().packed as usize / dtype.size();
        if self.is_pointwise() {
            return copies + at_once * packed;
        }
        let columns = self.kernel.elements() / self.kernel.outer + self.kernel.outer / self.options.groups;
        let turned = self.x.elements() + self.kernel.elements();
        copies + turned + at_once * (columns * gemm.columns + packed)
    }

    /// The matrix product of a sample or a tile, and how many of them there are; none where the volume is convolved where it lies.
    fn product(&self, dtype: DType) -> Option<(Gemm, usize)> {
        let positions: usize = self.spatial_out().iter().product();
        let (columns, count, is_right_row_major) = match (self.is_pointwise(), self.is_direct()) {
            (true, _) => (positions, self.x.outer, true),
            (_, true) => return None,
            _ => (positions.min(TILE), self.x.outer * positions.div_ceil(TILE), false),
        };
        let gemm = Gemm {
            rows: self.kernel.outer / self.options.groups,
            columns,
            inner: self.kernel.elements() / self.kernel.outer,
            is_left_row_major: true,
            is_right_row_major,
            dtype,
        };
        Some((gemm, count))
    }

    fn is_pointwise(&self) -> bool {
        let Options { stride, padding, .. } = self.options;
        self.kernel.spatial == [1; 3] && stride == [1; 3] && padding == [0; 3]
    }

    /// Images and rows that Flex convolves where they lie.
    fn is_direct(&self) -> bool {
        let Options { stride, padding, dilation, groups } = self.options;
        let (channels, channels_out) = (self.x.channels, self.kernel.outer);
        let is_image = self.kernel.spatial[0] == 1 && self.x.spatial[0] == 1;
        let is_image = is_image && (stride[0], padding[0], dilation[0]) == (1, 0, 1);
        let is_depthwise = self.kernel.channels == 1 && groups == channels && channels_out == channels;
        let has_few_channels = groups == 1 && channels <= FEW_CHANNELS[0] && channels_out <= FEW_CHANNELS[1];
        let is_row = self.kernel.spatial[..2] == [1; 2] && self.x.spatial[..2] == [1; 2];
        let is_plain = groups == 1 && padding == [0; 3] && dilation == [1; 3];
        let is_short = channels >= 32 && self.kernel.spatial[2] <= 8 && self.spatial_out()[2] <= 800;
        is_image && (is_depthwise || has_few_channels) || is_row && is_plain && is_short
    }
}

/// A transposed convolution `[batch, channels, ..] * [channels, channels out of a group, ..]`.
struct Transposed {
    x: Volume,
    kernel: Volume,
    groups: usize,
}

/// Bytes of columns that are computed at once.
const COLUMNS: usize = 8 << 20;
/// Elements of the output from which samples and groups are computed in parallel.
const PARALLEL: usize = 256 * 1024;

impl Transposed {
    fn workspace(self, dtype: DType, output: u64) -> Workspace {
        if dtype != DType::BF16 {
            let columns = self.columns(dtype, output);
            let copies = ((self.x.copy() + self.kernel.copy()) * dtype.size()) as u64;
            return columns.and(copies);
        }
        let wide = 4 * (self.x.elements() + self.kernel.elements()) as u64;
        self.columns(DType::F32, 2 * output).and(wide + output)
    }

    /// Columns and what their matrix products pack; `output` in bytes.
    fn columns(&self, dtype: DType, output: u64) -> Workspace {
        let width = dtype.size();
        let rows = self.kernel.elements() / self.kernel.outer;
        let positions = self.x.positions();
        let tile = if rows * positions * width <= COLUMNS { positions } else { (COLUMNS / width / rows).max(1) };
        let gemm = Gemm {
            rows,
            columns: tile.min(positions),
            inner: self.x.channels / self.groups,
            is_left_row_major: false,
            is_right_row_major: true,
            dtype,
        };
        let parts = self.x.outer * self.groups;
        let is_parallel = parts > 1 && output as usize / width >= PARALLEL;
        let at_once = if is_parallel { parts.min(rayon::current_num_threads()) } else { 1 } as u64;
        let each = (rows * gemm.columns * width) as u64 + gemm.scratch().packed;
        Workspace { bytes: at_once * each, kept: gemm.kept(if is_parallel { parts } else { 1 }) }
    }
}
