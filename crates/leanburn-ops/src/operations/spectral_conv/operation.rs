//! The layer of a Fourier neural operator in memory that grows with its input alone.

use burn::tensor::Tensor;
use leanburn_kernels::conv::{ConvSettings, ConvShape};
use leanburn_kernels::fourier::{Mixing, Part, Transform};
use leanburn_kernels::{Activation, check_volume};

use super::mixing::Mix;
use super::transform::{AddVolume, ToSpectra};
use crate::engine::run;
use crate::numerics::cast_to;
use crate::operations::check::{assert_dims, assert_not_empty, assert_parameter, assert_per_channel, valid};
use crate::operations::conv3d::{BiasGradient, DataGradient, Entry, Forward, WeightGradient};
use crate::operations::norm_act::NormActGradient;
use crate::operations::operation::{AnyTensor, Operation, Outcome, Unsaved, apply};

const OPERATION: &str = "spectral_conv";

/// What each kept frequency is multiplied with.
#[derive(Clone, Debug)]
pub struct SpectralWeights {
    /// `[2, channels_in, channels_out, depth, height, width]` of the frequencies: real parts, then imaginary parts.
    pub values: Tensor<6>,
    /// The frequencies along depth, height and width, in whole waves along the axis, in the order of the values. Of a real volume
    /// half of the spectrum says all: along the width none is negative.
    pub frequencies: [Vec<i32>; 3],
    /// Depth, height and width of the output.
    pub size: [usize; 3],
}

/// A convolution with a kernel of one voxel.
#[derive(Clone, Debug)]
pub struct Pointwise {
    /// `[channels_out, channels_in, 1, 1, 1]`.
    pub weight: Tensor<5>,
    /// `[channels_out]`.
    pub bias: Option<Tensor<1>>,
}

/// `F^-1(R F(a)) + W a + b` with `a = activation(x)`: the Fourier coefficients `F` of a few frequencies, multiplied by complex matrices
/// `R`, and a convolution `W` of each position beside them, if there is one.
///
/// The layer of the [Fourier Neural Operator](https://arxiv.org/abs/2010.08895), from one pre-activation to the next. Coefficients are
/// amplitudes (`norm="forward"` of NumPy and PyTorch), so that the same weights work on another grid. As in the inverse transform to
/// real values, imaginary parts that the conjugates cancel do not count; frequencies that a grid does not have, beyond half of its
/// length, are zero. One and two dimensions are volumes with a depth, or depth and height, of one with the frequency 0.
///
/// # Shapes
///
/// - input: `[batch_size, channels_in, depth, height, width]`, no axis empty, any length
/// - output: `[batch_size, channels_out, size..]`; with `pointwise`, of the size of the input
///
/// # Memory
///
/// Saved for backward: the kept coefficients of the activated input, in float32, and with an activation or `pointwise` the input, shared
/// with its producer. Neither the activated volume nor a whole spectrum is made on the CPU; its workspace is a plane and a few spectra
/// for each thread. Backward needs one volume of the input's size, the input's gradient. The gradient of the spectrum's weights, which is as
/// large as these, is made when the volumes are gone. Elsewhere the activated volume and the spectrum behind the first axis are made, in
/// float32, and products of spectra copy the weights.
///
/// # Numerics
///
/// Transforms are products with matrices of cosines and sines, of which backward takes the exact transposes. float32 regardless of the
/// dtype; on the CPU results do not depend on the number of threads, bit for bit.
///
/// # Panics
///
/// Panics if an axis is empty (an empty batch too) or without a frequency, a frequency along the width is negative, the size of the
/// output is another one than that of the input where there is `pointwise`, shapes or dtypes do not go together, or a volume takes more than
/// 128 TiB.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_ops::{Activation, SpectralWeights, spectral_conv};
///
/// // Twice the waves of up to two periods along the width of a line, on a grid of another length.
/// let device = Device::flex();
/// let x = Tensor::random([1, 1, 1, 1, 13], Distribution::Normal(0.0, 1.0), &device);
/// let real = Tensor::<6>::full([1, 1, 1, 1, 1, 3], 2.0, &device);
/// let values = Tensor::cat(vec![real.clone(), real.zeros_like()], 0);
/// let weights = SpectralWeights { values, frequencies: [vec![0], vec![0], vec![0, 1, 2]], size: [1, 1, 20] };
/// assert_eq!(spectral_conv(x, Activation::None, weights, None).dims(), [1, 1, 1, 1, 20]);
/// ```
#[must_use]
pub fn spectral_conv(
    x: Tensor<5>,
    activation: Activation,
    weights: SpectralWeights,
    pointwise: Option<Pointwise>,
) -> Tensor<5> {
    let layer = Layer::checked(&x, &weights, pointwise.as_ref());
    let [weight, bias] = match pointwise {
        Some(Pointwise { weight, bias }) => [weight.into(), bias.into()],
        None => [None::<Tensor<5>>.into(), None::<Tensor<1>>.into()],
    };
    apply([x.into(), weights.values.into(), weight, bias], |[x, values, weight, bias], tracked| {
        let pointwise = weight.optional().map(|weight| Pointwise { weight, bias: bias.optional() });
        SpectralConv::forward(x.given(), activation, values.given(), pointwise, layer, tracked[1])
    })
}

/// The shapes of a layer.
#[derive(Clone, Debug)]
struct Layer {
    /// To coefficients; the transpose of the way back.
    transforms: [Transform; 2],
    mixing: Mixing,
    /// Of the input, of the output.
    dims: [[usize; 5]; 2],
    pointwise: Option<ConvShape>,
}

impl Layer {
    /// The shapes.
    ///
    /// # Panics
    ///
    /// Panics if they do not go together.
    fn checked(x: &Tensor<5>, weights: &SpectralWeights, pointwise: Option<&Pointwise>) -> Self {
        let SpectralWeights { values, frequencies, size } = weights;
        assert_not_empty(OPERATION, "input", x);
        let dims @ [batch_size, channels, input @ ..] = x.dims();
        let transforms = [Transform::to_amplitudes(input, frequencies), Transform::of_waves(*size, frequencies)]
            .map(|transform| valid(OPERATION, transform));
        let ([depth, height, width], channels_out) = (transforms[0].modes(), values.dims()[2]);
        let expected = [
            ("parts", 2),
            ("channels_in", channels),
            ("channels_out", channels_out),
            ("frequencies of the depth", depth),
            ("frequencies of the height", height),
            ("frequencies of the width", width),
        ];
        assert_dims(OPERATION, "weight of the spectrum", values, expected);
        assert_parameter(OPERATION, "weight of the spectrum", values, x.dtype());
        let mixing = valid(OPERATION, Mixing::new([batch_size, channels, channels_out, depth * height * width]));
        let pointwise = pointwise.map(|Pointwise { weight, bias }| {
            assert!(
                *size == input,
                "{OPERATION}: the output is {size:?}, expected the size of the input, {input:?}, beside a pointwise convolution"
            );
            let dims_of_weight = [("channels_out", channels_out), ("channels_in", channels), ("depth", 1), ("height", 1), ("width", 1)];
            assert_dims(OPERATION, "pointwise weight", weight, dims_of_weight);
            assert_parameter(OPERATION, "pointwise weight", weight, x.dtype());
            assert_per_channel(OPERATION, "bias", bias.as_ref(), channels_out, x.dtype());
            valid(OPERATION, ConvShape::new(dims, weight.dims(), ConvSettings::default()))
        });
        let output = [batch_size, channels_out, size[0], size[1], size[2]];
        valid(OPERATION, check_volume("the output", &output));
        Self { transforms, mixing, dims: [dims, output], pointwise }
    }
}

/// What [`spectral_conv`] saves.
#[derive(Clone, Debug)]
struct SpectralConv {
    /// Absent where no gradient needs it.
    x: Option<Tensor<5>>,
    activation: Activation,
    /// The coefficients of the activated input, where the weights need a gradient.
    spectra: Option<Tensor<4>>,
    values: Tensor<6>,
    pointwise: Option<Pointwise>,
    layer: Layer,
}

impl SpectralConv {
    /// The output, and what is saved; `for_values` says whether the weights of the spectrum need a gradient.
    fn forward(
        x: Tensor<5>,
        activation: Activation,
        values: Tensor<6>,
        pointwise: Option<Pointwise>,
        layer: Layer,
        for_values: bool,
    ) -> (impl Outcome, Self) {
        let to_spectra =
            move |x: &Tensor<5>, layer: &Layer| run(ToSpectra { x, activation, transform: &layer.transforms[0] });
        let spectra = for_values.then(|| to_spectra(&x, &layer));
        let saves_input = pointwise.is_some() || activation != Activation::None;
        let saved = Self { x: saves_input.then(|| x.clone()), activation, spectra, values, pointwise, layer };
        let Self { spectra, values, pointwise, layer, .. } = saved.clone();
        let (dims, dtype, device) = (layer.dims[1], x.dtype(), x.device());
        let compute = move || {
            let spectra = spectra.unwrap_or_else(|| to_spectra(&x, &layer));
            let mixed = run(Mix { part: Part::Output, operands: [&spectra, &flat(&values)], mixing: &layer.mixing });
            let beside = pointwise.as_ref().zip(layer.pointwise.as_ref()).map(|(Pointwise { weight, bias }, shape)| {
                let entry = Entry::of(None, activation);
                run(Forward { x: &x, entry: &entry, weight, bias: bias.as_ref(), residual: None, shape })
            });
            run(AddVolume { spectra: mixed, transform: &layer.transforms[1], to: beside, dims, dtype })
        };
        (Unsaved { dims, dtype, device, compute }, saved)
    }
}

impl Operation<4> for SpectralConv {
    fn backward(self, gradient: Tensor<5>, [for_x, for_values, for_weight, for_bias]: [bool; 4]) -> [AnyTensor; 4] {
        let Self { x, activation, spectra, values, pointwise, layer } = self;
        let [transform, waves] = &layer.transforms;
        let beside = pointwise.as_ref().zip(layer.pointwise.as_ref());
        let bias = beside.and_then(|(pointwise, _)| pointwise.bias.as_ref()).filter(|_| for_bias);
        let bias = bias.map(|bias| run(BiasGradient { gradient: &gradient, dtype: bias.dtype() }));
        let weight = beside.filter(|_| for_weight).map(|(Pointwise { weight, .. }, shape)| {
            let (x, entry) = (x.as_ref().expect("saved beside a pointwise convolution"), Entry::of(None, activation));
            run(WeightGradient { x, entry: &entry, gradient: &gradient, weight, shape })
        });
        let of_output = run(ToSpectra { x: &gradient, activation: Activation::None, transform: waves });
        let mix = |part, other: &Tensor<4>| match part {
            Part::Weight => run(Mix { part, operands: [other, &of_output], mixing: &layer.mixing }),
            _ => run(Mix { part, operands: [&of_output, other], mixing: &layer.mixing }),
        };
        let x = for_x.then(|| {
            let of_input = mix(Part::Input, &flat(&values));
            let to = beside
                .map(|(Pointwise { weight, .. }, shape)| run(DataGradient { gradient: &gradient, weight, shape }));
            let dtype = gradient.dtype();
            drop(gradient);
            let volume = run(AddVolume { spectra: of_input, transform, to, dims: layer.dims[0], dtype });
            match x {
                Some(x) => run(NormActGradient { x, normalization: None, activation, gradient: volume }).x,
                None => volume,
            }
        });
        // behind the volumes, which are gone: it is as large as the weights
        let of_values = for_values.then(|| {
            let sums = mix(Part::Weight, spectra.as_ref().expect("saved for the weights"));
            cast_to(sums.reshape(values.dims()), values.dtype())
        });
        [x.into(), of_values.into(), weight.into(), bias.into()]
    }

    fn exchange(&mut self, exchange: &mut dyn FnMut(&mut Tensor<5>)) {
        self.x.iter_mut().for_each(exchange);
    }
}

/// The weights as spectra, `[2, channels_in, channels_out, modes]`.
fn flat(values: &Tensor<6>) -> Tensor<4> {
    let [parts, channels_in, channels_out, depth, height, width] = values.dims();
    values.clone().reshape([parts, channels_in, channels_out, depth * height * width])
}
