//! What is computed of a slab: the forward pass of a stage, the gradients of its input and its weights, and what is added up on the way.

use std::ops::Range;

use burn::tensor::{DType, Tensor};

use super::chain::Chain;
use super::planes::{Linear, Reach};
use super::stage::{Layer, Stage};
use crate::engine::run;
use crate::numerics::{cast_to, widen};
use crate::operations::conv_transpose3d;
use crate::operations::conv3d::{BiasGradient, Convolution, DataGradient, Entry, Forward, WeightGradient};
use crate::operations::norm_act::{
    ChannelStatistics, ChannelSums, Moments, NormActApply, NormActGradient, NormActSums, Normalization, slope_gradient,
};
use crate::operations::resample3d::{resize_trilinear, resize_trilinear_gradient};
use crate::operations::upsample_conv3d::UpsampleConv;
use crate::share::{VolumeRanks, gathered};

/// What is known of a stage so far.
#[derive(Debug, Default)]
pub(super) struct Progress {
    moments: Option<Moments>,
    /// Its norm, when forward has been through the whole volume.
    pub(super) normalization: Option<Normalization>,
    /// The statistics that the norm has of the whole batch, when forward has been through it.
    pub(super) of_batch: Option<ChannelStatistics>,
    /// Of this process's planes.
    own_sums: Option<ChannelSums>,
    /// Of the whole volume.
    sums: Option<ChannelSums>,
    weight: Option<Tensor<5>>,
    bias: Option<Tensor<1>>,
    slope: Option<Tensor<1>>,
}

/// Gradients of a stage's parameters, as far as they were asked for: of its weight, and of bias, scale and shift of the norm, and slope.
pub(super) type ParameterGradients = (Option<Tensor<5>>, [Option<Tensor<1>>; 4]);

impl Progress {
    /// With a norm that is known.
    pub(super) fn with_normalization(normalization: Option<Normalization>) -> Self {
        Self { normalization, ..Self::default() }
    }

    /// Norm and activation in front of the convolution.
    fn entry(&self, stage: &Stage) -> Entry {
        assert!(
            self.normalization.is_some() == stage.has_norm(),
            "the passes before this one have made the statistics"
        );
        Entry::of(self.normalization.clone(), stage.activation())
    }

    /// Adds a slab of the stage's input to the moments of its norm.
    pub(super) fn add_moments(&mut self, stage: &Stage, x: &Tensor<5>) {
        let Some(norm) = stage.norm() else { return };
        let moments = Moments::of(x, norm.num_groups);
        self.moments = Some(match self.moments.take() {
            Some(before) => before.merged(moments),
            None => moments,
        });
    }

    /// All slabs have been added to the moments: the norm is known.
    pub(super) fn finish_moments(&mut self, stage: &Stage, ranks: Option<&dyn VolumeRanks>) {
        let Some((norm, moments)) = stage.norm().zip(self.moments.take()) else { return };
        let moments = match ranks {
            Some(ranks) => moments.of_all(|part| gathered(ranks, part)),
            None => moments,
        };
        let moments = match stage.batch() {
            Some(_) => {
                let moments = moments.of_batch();
                self.of_batch = Some(moments.of_channels());
                moments
            }
            None => moments,
        };
        self.normalization = Some(Normalization::of_moments(norm, moments));
    }

    /// Adds a slab to the sums of the norm's gradient and to the gradient of the slope; `gradient` is that of what is convolved.
    pub(super) fn add_sums(&mut self, stage: &Stage, x: &Tensor<5>, gradient: Tensor<5>) {
        if stage.has_slope() {
            add(&mut self.slope, slope_gradient(x, self.normalization.as_ref(), &gradient));
        }
        let Some(normalization) = &self.normalization else { return };
        let sums = run(NormActSums { x, normalization, activation: stage.activation(), gradient });
        self.own_sums = Some(match self.own_sums.take() {
            Some(before) => before.added(sums),
            None => sums,
        });
    }

    /// All slabs have been added to the sums.
    pub(super) fn finish_sums(&mut self, chain: &Chain, number: usize, ranks: Option<&dyn VolumeRanks>) {
        let stage = chain.stage(number);
        let [.., depth, height, width] = chain.dims(stage.of);
        let of_volume = self.own_sums.clone().map(|sums| match ranks {
            Some(ranks) => sums.of_all(|part| gathered(ranks, part)),
            None => sums,
        });
        self.sums = match stage.batch() {
            Some(_) => of_volume.map(|sums| sums.of_batch(depth * height * width)),
            None => of_volume,
        };
    }

    /// Adds a slab to the gradients of weight and bias; `x` and `gradient` are the planes of input and output that go with each other.
    pub(super) fn add_weights(
        &mut self,
        chain: &Chain,
        number: usize,
        planes: &Range<usize>,
        x: &Tensor<5>,
        gradient: &Tensor<5>,
    ) {
        let (stage, reach) = (chain.stage(number), chain.reach(number));
        let Some(weight) = stage.parameters.weight.clone().map(widen) else { return };
        let (of_weight, gradient) = match (&stage.layer, reach) {
            (Layer::TransposedConv { .. }, Reach::Transposed(window)) => {
                let (transposed, _) = stage.transposed(gradient.dims(), window.padding(planes), x.dtype());
                let of_weight =
                    run(conv_transpose3d::WeightGradient { transposed: &transposed, x, gradient, weight: &weight });
                (of_weight, part(gradient, window.inputs(planes).start, window.first_seen_by(planes)))
            }
            (Layer::UpsampleConv { factors, .. }, Reach::Window(window)) => {
                let convolution = stage.convolution(window.padding(planes));
                let upsample = UpsampleConv::of(x.dims(), x.dtype(), *factors, &convolution);
                (upsample.weight_gradient(x, gradient, &weight), gradient.clone())
            }
            (_, Reach::Window(window)) => {
                let shape = &stage.convolution(window.padding(planes)).shape("stream", x.dims(), x.dtype());
                let entry = &self.entry(stage);
                (run(WeightGradient { x, entry, gradient, weight: &weight, shape }), gradient.clone())
            }
            _ => unreachable!("{:?} has no weight", stage.layer),
        };
        add(&mut self.weight, of_weight);
        if let Some(bias) = &stage.parameters.bias {
            let dtype = if bias.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
            add(&mut self.bias, run(BiasGradient { gradient: &gradient, dtype }));
        }
    }

    /// The gradients of the stage's parameters, of this process's planes.
    pub(super) fn gradients(self, stage: &Stage) -> ParameterGradients {
        let of_norm = match (&self.own_sums, &self.normalization) {
            (Some(sums), Some(normalization)) => sums.parameter_gradients(normalization),
            _ => [None, None],
        };
        let [norm_weight, norm_bias] = of_norm;
        let of_bias = like(self.bias, stage.parameters.bias.as_ref());
        let of_slope = like(self.slope, stage.parameters.slope.as_ref());
        (like(self.weight, stage.parameters.weight.as_ref()), [of_bias, norm_weight, norm_bias, of_slope])
    }
}

/// A gradient in the dtype of its parameter.
fn like<const D: usize>(gradient: Option<Tensor<D>>, parameter: Option<&Tensor<D>>) -> Option<Tensor<D>> {
    gradient.zip(parameter).map(|(gradient, parameter)| cast_to(gradient, parameter.dtype()))
}

/// Some planes of a tensor whose first is plane `first`.
fn part(tensor: &Tensor<5>, first: usize, planes: Range<usize>) -> Tensor<5> {
    match planes.len() == tensor.dims()[2] {
        true => tensor.clone(),
        false => tensor.clone().narrow(2, planes.start - first, planes.len()),
    }
}

/// Planes of the volume that a stage makes, from the planes of its input that they see and those of what is added.
pub(super) fn value(
    chain: &Chain,
    progress: &Progress,
    number: usize,
    planes: &Range<usize>,
    x: &Tensor<5>,
    residual: Option<Tensor<5>>,
) -> Tensor<5> {
    let stage = chain.stage(number);
    let plain = match (&stage.layer, chain.reach(number)) {
        (Layer::NormAct { .. }, _) => progress.entry(stage).apply(x.clone()),
        (Layer::Trilinear { factors }, Reach::Linear(linear)) => interpolated(linear, planes, *factors, x),
        (Layer::TransposedConv { .. }, Reach::Transposed(window)) => {
            let [batch_size, channels, _, height, width] = chain.dims(chain.made_by(number));
            let made = [batch_size, channels, planes.len(), height, width];
            let (transposed, weight) = stage.transposed(made, window.gradient_padding(planes), x.dtype());
            let bias = stage.parameters.bias.as_ref();
            run(conv_transpose3d::Forward { transposed: &transposed, x, weight, bias })
        }
        (Layer::UpsampleConv { factors, .. }, Reach::Window(window)) => {
            let convolution = stage.convolution(window.padding(planes));
            let Convolution { weight, bias, .. } = &convolution;
            UpsampleConv::of(x.dims(), x.dtype(), *factors, &convolution).forward(x, weight, bias.as_ref())
        }
        (_, Reach::Window(window)) => {
            let convolution = stage.convolution(window.padding(planes));
            let (shape, entry) = (&convolution.shape("stream", x.dims(), x.dtype()), &progress.entry(stage));
            let Convolution { weight, bias, .. } = &convolution;
            return run(Forward { x, entry, weight, bias: bias.as_ref(), residual, shape });
        }
        (layer, reach) => unreachable!("{layer:?} along {reach:?}"),
    };
    match residual {
        Some(residual) => plain + residual,
        None => plain,
    }
}

/// Planes of an interpolation, from the planes of its input around them.
fn interpolated(linear: &Linear, planes: &Range<usize>, factors: [usize; 3], x: &Tensor<5>) -> Tensor<5> {
    let [_, _, size @ ..] = x.dims();
    let larger = resize_trilinear(x.clone(), std::array::from_fn(|axis| size[axis] * factors[axis]));
    part(&larger, linear.factor * linear.inputs(planes).start, planes.clone())
}

/// The gradient of planes of what a stage convolves or interpolates, from the gradient of the planes that see them.
pub(super) fn convolved_gradient(
    chain: &Chain,
    number: usize,
    planes: &Range<usize>,
    gradient: Tensor<5>,
) -> Tensor<5> {
    let (stage, dtype) = (chain.stage(number), gradient.dtype());
    let [batch_size, channels, _, height, width] = chain.dims(stage.of);
    let dims = [batch_size, channels, planes.len(), height, width];
    match (&stage.layer, chain.reach(number)) {
        (Layer::NormAct { .. }, _) => gradient,
        (Layer::Trilinear { .. }, Reach::Linear(linear)) => {
            let around = linear.around(planes);
            let smaller = resize_trilinear_gradient(gradient, [around.len(), height, width]);
            part(&smaller, around.start, planes.clone())
        }
        (Layer::TransposedConv { .. }, Reach::Transposed(window)) => {
            let (transposed, weight) = stage.transposed(gradient.dims(), window.padding(planes), dtype);
            run(conv_transpose3d::DataGradient { transposed: &transposed, gradient: &gradient, weight })
        }
        (Layer::UpsampleConv { factors, .. }, Reach::Window(window)) => {
            let convolution = stage.convolution(window.gradient_padding(planes));
            UpsampleConv::of(dims, dtype, *factors, &convolution).data_gradient(&gradient, &convolution.weight)
        }
        (_, Reach::Window(window)) => {
            let convolution = stage.convolution(window.gradient_padding(planes));
            let shape = &convolution.shape("stream", dims, dtype);
            run(DataGradient { gradient: &gradient, weight: &convolution.weight, shape })
        }
        (layer, reach) => unreachable!("{layer:?} along {reach:?}"),
    }
}

/// The gradient of planes of a stage's input, from that of what is convolved of it; `x` are the planes, where norm or activation need
/// them.
pub(super) fn input_gradient(
    chain: &Chain,
    progress: &Progress,
    stage: usize,
    x: Option<Tensor<5>>,
    gradient: Tensor<5>,
) -> Tensor<5> {
    let Some(x) = x else { return gradient };
    let activation = chain.stage(stage).activation();
    match (&progress.normalization, &progress.sums) {
        (Some(normalization), Some(sums)) => {
            let positions = chain.positions(chain.stage(stage).of);
            run(NormActApply { x, normalization, activation, gradient, sums, positions })
        }
        _ => run(NormActGradient { x, normalization: None, activation, gradient }).x,
    }
}

/// Adds to a sum, if there is one already.
pub(super) fn add<const D: usize>(sum: &mut Option<Tensor<D>>, tensor: Tensor<D>) {
    *sum = Some(match sum.take() {
        Some(sum) => sum + tensor,
        None => tensor,
    });
}
