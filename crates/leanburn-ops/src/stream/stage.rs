//! The stages of a segment: norm and activation, alone or in front of a convolution, with what is added; enlargements.

use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use burn::tensor::{DType, Tensor};
use leanburn_kernels::Activation;

use super::planes::{Linear, Reach, Window};
use super::statistics::BatchStatistics;
use super::unstreamable::Unstreamable;
use crate::operations::conv_transpose3d::{self, Transposed};
use crate::operations::conv3d::Convolution;
use crate::operations::norm_act::{Norm, check_slope, leaky_relu};
use crate::operations::upsample_conv3d::UpsampleConv;
use crate::struct_of_tensors;

/// One stage; each makes a volume, numbered behind the inputs.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// Its input.
    pub(super) of: usize,
    pub(super) layer: Layer,
    /// The volume that is added to the result.
    pub(super) plus: Option<usize>,
    pub(super) parameters: Parameters,
}

/// What a stage does, without its parameters.
#[derive(Clone, Debug)]
pub(super) enum Layer {
    /// `activation(norm(x))`.
    NormAct { norm: Option<NormPlan>, activation: Activation },
    /// `conv3d(activation(norm(x)))`.
    Conv { norm: Option<NormPlan>, activation: Activation, options: ConvOptions<3> },
    /// `conv3d(nearest(x))`.
    UpsampleConv { factors: [usize; 3], options: ConvOptions<3> },
    /// `conv_transpose3d(x)`.
    TransposedConv { options: ConvTransposeOptions<3> },
    /// Each axis by its factor, between the centres of the voxels.
    Trilinear { factors: [usize; 3] },
}

/// A norm without its parameters.
#[derive(Clone, Debug)]
pub(super) struct NormPlan {
    pub(super) num_groups: usize,
    pub(super) epsilon: f64,
    /// Where the statistics are those of the whole batch. Each channel is a group then.
    pub(super) batch: Option<BatchStatistics>,
}

struct_of_tensors! {
    /// The parameters of a stage.
    #[derive(Clone, Debug)]
    pub(super) struct Parameters {
        pub(super) weight: Option<Tensor<5>>,
        pub(super) bias: Option<Tensor<1>>,
        pub(super) norm_weight: Option<Tensor<1>>,
        pub(super) norm_bias: Option<Tensor<1>>,
        pub(super) slope: Option<Tensor<1>>,
    }
}

impl Parameters {
    /// Without those of a norm and an activation.
    pub(super) fn of(weight: Option<Tensor<5>>, bias: Option<Tensor<1>>) -> Self {
        Self { weight, bias, norm_weight: None, norm_bias: None, slope: None }
    }

    /// Which of them there are, in the order in which they are taken apart.
    pub(super) fn present(&self) -> [bool; 5] {
        let vectors = [&self.bias, &self.norm_weight, &self.norm_bias, &self.slope].map(Option::is_some);
        let [bias, norm_weight, norm_bias, slope] = vectors;
        [self.weight.is_some(), bias, norm_weight, norm_bias, slope]
    }
}

/// A stage without its parameters.
pub(super) type Plan = (usize, Layer, Option<usize>);

impl Stage {
    /// Plan and parameters.
    pub(super) fn apart(self) -> (Plan, Parameters) {
        ((self.of, self.layer, self.plus), self.parameters)
    }

    /// The stage that was taken [apart](Self::apart).
    pub(super) fn together(((of, layer, plus), parameters): (Plan, Parameters)) -> Self {
        Self { of, layer, plus, parameters }
    }

    fn norm_plan(&self) -> Option<&NormPlan> {
        match &self.layer {
            Layer::Conv { norm, .. } | Layer::NormAct { norm, .. } => norm.as_ref(),
            _ => None,
        }
    }

    /// The norm in front of the convolution.
    pub(super) fn norm(&self) -> Option<Norm> {
        let Parameters { norm_weight, norm_bias, .. } = &self.parameters;
        let settings = self.norm_plan().map(|plan| (plan.num_groups, plan.epsilon));
        Norm::together(settings, norm_weight.clone(), norm_bias.clone())
    }

    /// Who is told the statistics of the norm, if they are those of the whole batch.
    pub(super) fn batch(&self) -> Option<&BatchStatistics> {
        self.norm_plan().and_then(|plan| plan.batch.as_ref())
    }

    /// With the function of the learned slope, if there is one.
    ///
    /// # Panics
    ///
    /// Panics if the slope is none for its channels.
    pub(super) fn with_function_of_slope(mut self, dtype: DType) -> Self {
        if let (Some(slope), Layer::Conv { activation, .. } | Layer::NormAct { activation, .. }) =
            (&self.parameters.slope, &mut self.layer)
        {
            check_slope("stream", slope, dtype);
            *activation = leaky_relu(slope.clone());
        }
        self
    }

    pub(super) fn has_slope(&self) -> bool {
        self.parameters.slope.is_some()
    }

    /// Whether norm or activation change what is convolved.
    pub(super) fn changes_input(&self) -> bool {
        self.has_norm() || self.has_slope() || self.activation() != Activation::None
    }

    pub(super) fn has_weight(&self) -> bool {
        self.parameters.weight.is_some()
    }

    pub(super) fn activation(&self) -> Activation {
        match self.layer {
            Layer::Conv { activation, .. } | Layer::NormAct { activation, .. } => activation,
            _ => Activation::None,
        }
    }

    pub(super) fn has_norm(&self) -> bool {
        self.norm_plan().is_some()
    }

    /// The depth axis of the stage, for volumes of these depths.
    pub(super) fn reach(&self, input: usize, output: usize) -> Reach {
        let span = |dilation: usize| dilation * (self.weight().dims()[2] - 1) + 1;
        let window = |factor, options: &ConvOptions<3>| Window {
            factor,
            stride: options.stride[0],
            span: span(options.dilation[0]),
            padding: options.padding[0].0,
            input,
            output,
        };
        match &self.layer {
            Layer::NormAct { .. } => Reach::Window(Window::pointwise(input)),
            Layer::Conv { options, .. } => Reach::Window(window(1, options)),
            Layer::UpsampleConv { factors, options } => Reach::Window(window(factors[0], options)),
            Layer::TransposedConv { options } => Reach::Transposed(Window {
                factor: 1,
                stride: options.stride[0],
                span: span(options.dilation[0]),
                padding: options.padding[0],
                input: output,
                output: input,
            }),
            Layer::Trilinear { factors } => Reach::Linear(Linear { factor: factors[0], input }),
        }
    }

    /// Why it cannot be cut along the depth, if it cannot.
    pub(super) fn obstacle(&self) -> Option<Unstreamable> {
        let (Window { factor, stride, span, padding, .. }, behind) = match (self.reach(1, 1), &self.layer) {
            (Reach::Window(window), Layer::Conv { options, .. } | Layer::UpsampleConv { options, .. }) => {
                (window, options.padding[0].1)
            }
            (Reach::Transposed(window), Layer::TransposedConv { options }) => {
                // else the last planes would see nothing
                (
                    window,
                    options.padding[0].max(if options.padding_out[0] > options.padding[0] { usize::MAX } else { 0 }),
                )
            }
            _ => return None,
        };
        let can_be = padding.max(behind) < span && stride <= span && (span - 1).is_multiple_of(factor);
        (!can_be).then(|| {
            Unstreamable::new(format!(
                "expected a kernel longer along the depth than its padding and at least as long as its stride, by one longer than a \
                 multiple of the enlargement in front of it, or transposed with at least as much padding as is added; found a length of \
                 {span}, padding {padding}, stride {stride}, enlargement {factor}"
            ))
        })
    }

    /// The weight of a convolution.
    fn weight(&self) -> &Tensor<5> {
        self.parameters.weight.as_ref().expect("convolutions have one")
    }

    /// The convolution, with so many zero planes in front and behind.
    ///
    /// # Panics
    ///
    /// Panics if the stage has none.
    pub(super) fn convolution(&self, padding: (usize, usize)) -> Convolution {
        let (Layer::Conv { options, .. } | Layer::UpsampleConv { options, .. }) = &self.layer else {
            panic!("{:?} is no convolution", self.layer)
        };
        let mut options = options.clone();
        options.padding[0] = padding;
        Convolution { weight: self.weight().clone(), bias: self.parameters.bias.clone(), options }
    }

    /// The convolution whose transpose the stage is, from planes of its output to planes of its input, with so many zero planes in front
    /// and behind; and its weight.
    ///
    /// # Panics
    ///
    /// Panics if the stage is none.
    pub(super) fn transposed(
        &self,
        output: [usize; 5],
        padding: (usize, usize),
        dtype: DType,
    ) -> (Transposed, &Tensor<5>) {
        let Layer::TransposedConv { options } = &self.layer else { panic!("{:?} is not transposed", self.layer) };
        let ConvTransposeOptions { stride, padding: [_, height, width], dilation, groups, .. } = *options;
        let padding = [padding, (height, height), (width, width)];
        let options = ConvOptions::new_with_padding(stride, padding, dilation, groups);
        let convolution = Convolution { weight: self.weight().clone(), bias: None, options };
        (Transposed(convolution.shape("stream", output, dtype)), self.weight())
    }

    /// Multiplications that make a volume of the dimensions `output` of one of the dimensions `input`, at least one for each element.
    ///
    /// Kernels of three or four planes without a stride are counted half: their transforms leave half of the products.
    pub(super) fn work(&self, input: [usize; 5], output: [usize; 5]) -> u64 {
        let positions = |[batch_size, _, depth, height, width]: [usize; 5]| batch_size * depth * height * width;
        let products = match &self.layer {
            Layer::NormAct { .. } | Layer::Trilinear { .. } => output[1] * positions(output),
            Layer::Conv { options, .. } => {
                let all = self.weight().shape().num_elements() * positions(output);
                let is_transformed = matches!(self.weight().dims()[2], 3 | 4) && options.stride[0] == 1;
                if is_transformed { all / 2 } else { all }
            }
            Layer::UpsampleConv { factors, .. } => {
                let [channels_out, channels_in, kernel @ ..] = self.weight().dims();
                // Taps that meet the same voxel are one.
                let taps: usize = kernel.iter().zip(factors).map(|(taps, factor)| (taps - 1) / factor + 1).product();
                channels_out * channels_in * taps * positions(output)
            }
            Layer::TransposedConv { .. } => self.weight().shape().num_elements() * positions(input),
        };
        products as u64
    }

    /// Dimensions of what the stage makes of a volume of the dimensions `input`.
    ///
    /// # Panics
    ///
    /// Panics if shapes and dtypes do not go together.
    pub(super) fn output_dims(&self, input: [usize; 5], dtype: DType) -> [usize; 5] {
        const OPERATION: &str = "stream";
        match &self.layer {
            Layer::NormAct { .. } => input,
            Layer::Conv { options, .. } => {
                self.convolution(options.padding[0]).shape(OPERATION, input, dtype).output_dims()
            }
            Layer::UpsampleConv { factors, options } => {
                UpsampleConv::of(input, dtype, *factors, &self.convolution(options.padding[0])).output_dims()
            }
            Layer::TransposedConv { options } => {
                let bias = self.parameters.bias.as_ref();
                conv_transpose3d::shape(OPERATION, input, dtype, (self.weight(), bias), options).input_dims()
            }
            Layer::Trilinear { factors } => {
                let [batch_size, channels, depth, height, width] = input;
                [batch_size, channels, depth * factors[0], height * factors[1], width * factors[2]]
            }
        }
    }
}
