//! What is computed of a slab: the forward pass of a stage, the gradients of its input and its weights, and what is added up on the way.

use std::ops::Range;

use burn::tensor::{DType, Tensor};

use super::chain::Chain;
use super::stage::{Layer, Parameters, Stage};
use crate::engine::run;
use crate::numerics::{cast_to, widen};
use crate::operations::conv3d::{BiasGradient, Convolution, DataGradient, Entry, Forward, WeightGradient};
use crate::operations::norm_act::{ChannelSums, Moments, NormActApply, NormActGradient, NormActSums, Normalization};
use crate::operations::upsample_conv3d::UpsampleConv;

/// What is known of a stage so far.
#[derive(Debug, Default)]
pub(super) struct Progress {
    moments: Option<Moments>,
    /// Its norm, when forward has been through the whole volume.
    pub(super) normalization: Option<Normalization>,
    sums: Option<ChannelSums>,
    weight: Option<Tensor<5>>,
    bias: Option<Tensor<1>>,
}

/// Gradients of a stage's parameters, as far as they were asked for.
pub(super) type ParameterGradients = (Option<Tensor<5>>, [Option<Tensor<1>>; 3]);

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

    /// Adds a slab of the stage's input to the moments of its norm, which are complete with the last one.
    pub(super) fn add_moments(&mut self, stage: &Stage, x: &Tensor<5>, is_last: bool) {
        let Some(norm) = stage.norm() else { return };
        let moments = Moments::of(x, norm.num_groups);
        let moments = match self.moments.take() {
            Some(before) => before.merged(moments),
            None => moments,
        };
        match is_last {
            true => self.normalization = Some(Normalization::of_moments(norm, moments)),
            false => self.moments = Some(moments),
        }
    }

    /// Adds a slab to the sums of the norm's gradient; `gradient` is that of what is convolved.
    pub(super) fn add_sums(&mut self, stage: &Stage, x: &Tensor<5>, gradient: Tensor<5>) {
        let Some(normalization) = &self.normalization else { return };
        let sums = run(NormActSums { x, normalization, activation: stage.activation(), gradient });
        self.sums = Some(match self.sums.take() {
            Some(before) => before.added(sums),
            None => sums,
        });
    }

    /// Adds a slab to the gradients of weight and bias; `gradient` is that of the planes of the output.
    pub(super) fn add_weights(
        &mut self,
        chain: &Chain,
        stage: usize,
        planes: &Range<usize>,
        x: &Tensor<5>,
        gradient: &Tensor<5>,
    ) {
        let convolution = chain.stage(stage).convolution(chain.reach(stage).padding(planes));
        let weight = &widen(convolution.weight.clone());
        let of_weight = match &chain.stage(stage).layer {
            Layer::Conv { .. } => {
                let (shape, entry) =
                    (&convolution.shape("stream", x.dims(), x.dtype()), &self.entry(chain.stage(stage)));
                run(WeightGradient { x, entry, gradient, weight, shape })
            }
            Layer::UpsampleConv { factors, .. } => {
                UpsampleConv::of(x.dims(), x.dtype(), *factors, &convolution).weight_gradient(x, gradient, weight)
            }
        };
        add(&mut self.weight, of_weight);
        if let Some(bias) = &convolution.bias {
            let dtype = if bias.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
            add(&mut self.bias, run(BiasGradient { gradient, dtype }));
        }
    }

    /// The gradients of the stage's parameters.
    pub(super) fn gradients(self, stage: &Stage) -> ParameterGradients {
        let Parameters { weight, bias, .. } = &stage.parameters;
        let of_norm = match (&self.sums, &self.normalization) {
            (Some(sums), Some(normalization)) => sums.parameter_gradients(normalization),
            _ => [None, None],
        };
        let [norm_weight, norm_bias] = of_norm;
        let of_bias = self.bias.zip(bias.as_ref()).map(|(gradient, bias)| cast_to(gradient, bias.dtype()));
        (self.weight.map(|gradient| cast_to(gradient, weight.dtype())), [of_bias, norm_weight, norm_bias])
    }
}

/// Planes of the volume that a stage makes, from the planes of its input that they see and those of what is added.
pub(super) fn value(
    chain: &Chain,
    progress: &Progress,
    stage: usize,
    planes: &Range<usize>,
    x: &Tensor<5>,
    residual: Option<Tensor<5>>,
) -> Tensor<5> {
    let convolution = chain.stage(stage).convolution(chain.reach(stage).padding(planes));
    let Convolution { weight, bias, .. } = &convolution;
    match &chain.stage(stage).layer {
        Layer::Conv { .. } => {
            let (shape, entry) =
                (&convolution.shape("stream", x.dims(), x.dtype()), &progress.entry(chain.stage(stage)));
            run(Forward { x, entry, weight, bias: bias.as_ref(), residual, shape })
        }
        Layer::UpsampleConv { factors, .. } => {
            UpsampleConv::of(x.dims(), x.dtype(), *factors, &convolution).forward(x, weight, bias.as_ref())
        }
    }
}

/// The gradient of planes of what a stage convolves, from the gradient of the planes that see them.
pub(super) fn convolved_gradient(
    chain: &Chain,
    stage: usize,
    planes: &Range<usize>,
    gradient: &Tensor<5>,
) -> Tensor<5> {
    let [batch_size, channels, _, height, width] = chain.dims(chain.stage(stage).of);
    let dims = [batch_size, channels, planes.len(), height, width];
    let convolution = chain.stage(stage).convolution(chain.reach(stage).gradient_padding(planes));
    let (weight, dtype) = (&convolution.weight, gradient.dtype());
    match &chain.stage(stage).layer {
        Layer::Conv { .. } => run(DataGradient { gradient, weight, shape: &convolution.shape("stream", dims, dtype) }),
        Layer::UpsampleConv { factors, .. } => {
            UpsampleConv::of(dims, dtype, *factors, &convolution).data_gradient(gradient, weight)
        }
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
