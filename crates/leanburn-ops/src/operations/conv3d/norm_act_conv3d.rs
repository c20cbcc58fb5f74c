//! Convolution that saves its input and nothing else, with norm, activation and skip folded in.

use burn::tensor::Tensor;
use leanburn_kernels::Activation;
use leanburn_kernels::conv::ConvShape;

use super::bias_gradient::BiasGradient;
use super::convolution::Convolution;
use super::data_gradient::DataGradient;
use super::entry::Entry;
use super::forward::Forward;
use super::weight_gradient::WeightGradient;
use crate::engine::run;
use crate::operations::norm_act::{Norm, NormActGradient};
use crate::operations::operation::{AnyTensor, Operation, Outcome, Unsaved, apply};

/// 3D convolution.
///
/// # Shapes
///
/// - input: `[batch_size, channels_in, depth, height, width]`, no axis empty
/// - output: `[batch_size, channels_out, ..]`, each axis
///   `(size + padding - dilation (kernel - 1) - 1) / stride + 1`, rounded down
///
/// # Memory
///
/// Saved for backward: the input, shared with its producer, if the weight needs a gradient; nothing otherwise. On the
/// CPU the workspace is a few rows for each thread: no im2col, no copy of a volume. On GPUs the normalized volume is
/// made, and a volume with its channels first is copied. A float32 patch
/// embedding on the CPU (stride = kernel, of 4,096 voxels or more, without padding) is one product of matrices: its workspace is a copy
/// of the input in forward, and two in backward.
///
/// # Numerics
///
/// The volume's dtype is that of the result. On the CPU the weight is used in float32 and sums are float32 whatever the
/// dtype; in bfloat16 on a processor with AMX, or fast dot products of AVX-512 BF16, the weight is rounded to it, and sums are float32. Elsewhere the weight is cast to the volume's dtype. The weight's gradient has the weight's dtype.
///
/// # Panics
///
/// Panics if an axis of the input is empty (an empty batch too); channels, groups, weight and bias do not go together; a kernel,
/// stride, dilation or the groups are zero; the kernel with its dilation is larger than the padded volume; the padded input, the
/// weight or the output takes more than 128 TiB; or weight or bias are float64 and the input is not.
#[must_use]
pub fn conv3d(x: Tensor<5>, convolution: Convolution) -> Tensor<5> {
    of("conv3d", x, None, Activation::None, convolution, None)
}

/// `conv3d(activation(norm(x))) + residual` as one operation.
///
/// The block that most 3D models are made of. Source of the order:
/// [Identity Mappings](https://arxiv.org/abs/1603.05027).
///
/// # Shapes
///
/// - input: `[batch_size, channels_in, depth, height, width]`, no axis empty
/// - residual and output: `[batch_size, channels_out, ..]` as of [`conv3d`], in the dtype of the input
///
/// # Memory
///
/// Saved for backward: the input, shared with its producer, and mean and deviation of each group. The normalised and
/// the activated volume are computed again in backward; on the CPU row by row, so that they are never in memory, elsewhere
/// whole, one after the other. Backward on the CPU needs one volume of the input's size, the input's gradient. The
/// result is written over the residual if nothing else holds it.
///
/// # Numerics
///
/// Norm and activation in float32 regardless of the dtype (rounded to bfloat16 on a processor with AMX or fast dot products of AVX-512 BF16); otherwise as [`conv3d`].
///
/// # Panics
///
/// As [`conv3d`]; if the residual is of another shape than the output or another dtype than the input; and as
/// [`group_norm_act`](crate::group_norm_act) for the norm.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor, ops::ConvOptions};
/// use leanburn_ops::{Activation, Convolution, Norm, norm_act_conv3d};
///
/// let device = Device::flex();
/// let x = Tensor::random([1, 4, 6, 6, 6], Distribution::Default, &device);
/// let weight = Tensor::random([8, 4, 3, 3, 3], Distribution::Default, &device);
/// let norm = Norm { num_groups: 2, epsilon: 1e-6, weight: None, bias: None };
/// let convolution = Convolution { weight, bias: None, options: ConvOptions::new([1; 3], [1; 3], [1; 3], 1) };
/// let y = norm_act_conv3d(x, Some(norm), Activation::Silu, convolution, None);
/// assert_eq!(y.dims(), [1, 8, 6, 6, 6]);
/// ```
#[must_use]
pub fn norm_act_conv3d(
    x: Tensor<5>,
    norm: Option<Norm>,
    activation: Activation,
    convolution: Convolution,
    residual: Option<Tensor<5>>,
) -> Tensor<5> {
    of("norm_act_conv3d", x, norm, activation, convolution, residual)
}

/// [`norm_act_conv3d`] by another name.
fn of(
    operation: &str,
    x: Tensor<5>,
    norm: Option<Norm>,
    activation: Activation,
    convolution: Convolution,
    residual: Option<Tensor<5>>,
) -> Tensor<5> {
    let shape = convolution.checked(operation, &x, residual.as_ref());
    norm.iter().for_each(|norm| norm.check(operation, &x));
    let Convolution { weight, bias, .. } = convolution;
    let (settings, norm_weight, norm_bias) = Norm::apart(norm);
    // Autodiff goes back through the last inputs first. The residual is first, so that what it was made by comes last:
    // a residual block with a convolution in its skip then holds one gradient of its input at a time.
    let inputs = [residual.into(), x.into(), norm_weight.into(), norm_bias.into(), weight.into(), bias.into()];
    apply(inputs, |[residual, x, norm_weight, norm_bias, weight, bias], tracked| {
        let x = x.given();
        let norm = Norm::together(settings, norm_weight.optional(), norm_bias.optional());
        let entry = Entry::new(norm, activation, &x);
        NormActConv::forward(x, entry, weight.given(), bias.optional(), residual.optional(), shape, tracked[4])
    })
}

/// What [`norm_act_conv3d`] saves.
#[derive(Clone, Debug)]
pub(super) struct NormActConv {
    /// Absent where only the data gradient of a plain convolution will be asked for.
    x: Option<Tensor<5>>,
    entry: Entry,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    shape: ConvShape,
}

impl Operation<6> for NormActConv {
    fn backward(self, gradient: Tensor<5>, needed: [bool; 6]) -> [AnyTensor; 6] {
        self.gradients(gradient, needed, |_, _, _| ())
    }

    fn exchange(&mut self, exchange: &mut dyn FnMut(&mut Tensor<5>)) {
        self.x.iter_mut().for_each(exchange);
    }
}

impl NormActConv {
    /// The output, and what is saved; `for_weight` says whether the weight needs a gradient.
    pub(super) fn forward(
        x: Tensor<5>,
        entry: Entry,
        weight: Tensor<5>,
        bias: Option<Tensor<1>>,
        residual: Option<Tensor<5>>,
        shape: ConvShape,
        for_weight: bool,
    ) -> (impl Outcome, Self) {
        let saves_input = for_weight || !entry.is_plain();
        let saved = Self { x: saves_input.then(|| x.clone()), entry, weight, bias, shape };
        let (entry, weight, bias, shape) = (saved.entry.clone(), saved.weight.clone(), saved.bias.clone(), shape);
        let (dims, dtype, device) = (shape.output_dims(), x.dtype(), x.device());
        let compute = move || {
            run(Forward { x: &x, entry: &entry, weight: &weight, bias: bias.as_ref(), residual, shape: &shape })
        };
        (Unsaved { dims, dtype, device, compute }, saved)
    }

    /// The gradients; `observe` is given the input, what is done to it, and the gradient behind that, where there is one.
    pub(super) fn gradients(
        self,
        gradient: Tensor<5>,
        needed: [bool; 6],
        observe: impl FnOnce(&Tensor<5>, &Entry, &Tensor<5>),
    ) -> [AnyTensor; 6] {
        let Self { x, entry, weight, bias, shape } = self;
        let [for_residual, for_x, for_norm_weight, for_norm_bias, for_weight, for_bias] = needed;
        let bias_gradient =
            bias.filter(|_| for_bias).map(|bias| run(BiasGradient { gradient: &gradient, dtype: bias.dtype() }));
        let weight_gradient = for_weight.then(|| {
            let x = x.as_ref().expect("saved for the weight");
            run(WeightGradient { x, entry: &entry, gradient: &gradient, weight: &weight, shape: &shape })
        });
        // Of a plain convolution nothing else needs the input: it is freed before its gradient is made.
        let x = x.filter(|_| !entry.is_plain());
        let mut x_gradient = None;
        let [mut norm_weight, mut norm_bias] = [None, None];
        let mut residual_gradient = for_residual.then(|| gradient.clone());
        if for_x || for_norm_weight || for_norm_bias {
            let behind_entry = run(DataGradient { gradient: &gradient, weight: &weight, shape: &shape });
            // Before the norm's backward, so that the output's gradient is not held meanwhile.
            residual_gradient = residual_gradient.map(|_| gradient);
            x_gradient = Some(match x {
                None => behind_entry,
                Some(x) => {
                    observe(&x, &entry, &behind_entry);
                    let Entry { normalization, activation } = entry;
                    let gradients = run(NormActGradient { x, normalization, activation, gradient: behind_entry });
                    (norm_weight, norm_bias) = (gradients.weight, gradients.bias);
                    gradients.x
                }
            });
        }
        [
            residual_gradient.into(),
            x_gradient.filter(|_| for_x).into(),
            norm_weight.filter(|_| for_norm_weight).into(),
            norm_bias.filter(|_| for_norm_bias).into(),
            weight_gradient.into(),
            bias_gradient.into(),
        ]
    }
}
