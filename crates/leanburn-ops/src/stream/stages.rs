//! The stages of a segment as blocks describe them: the words of the operations, one behind the other.

use burn::tensor::Tensor;
use burn::tensor::ops::ConvTransposeOptions;
use leanburn_kernels::Activation;

use super::stage::{Layer, NormPlan, Parameters, Stage};
use super::statistics::BatchStatistics;
use super::unstreamable::Unstreamable;
use crate::operations::conv3d::Convolution;
use crate::operations::norm_act::Norm;
use crate::recompute::Tensors;

/// A volume of [`Stages`]: an input, or what a stage makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Volume(pub(super) usize);

/// What a segment computes, one stage after the other, in the words of the operations: what [`stream`](super::stream) runs in slabs.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor, ops::ConvOptions};
/// use leanburn_ops::{Activation, Convolution, Norm, StreamSettings, Stages, norm_act_conv3d, stream};
///
/// let device = Device::flex();
/// let x = Tensor::<5>::random([1, 4, 9, 6, 6], Distribution::Default, &device);
/// let weight = Tensor::random([4, 4, 3, 3, 3], Distribution::Default, &device);
/// let norm = Norm { num_groups: 2, epsilon: 1e-6, weight: None, bias: None };
/// let convolution = Convolution { weight, bias: None, options: ConvOptions::new([1; 3], [1; 3], [1; 3], 1) };
///
/// let mut stages = Stages::new();
/// let input = stages.input();
/// stages.norm_act_conv3d(input, Some(norm.clone()), Activation::Silu, convolution.clone(), Some(input));
/// let slab_by_slab = stream(x.clone(), stages, StreamSettings::default().with_slab_planes(2));
///
/// let whole = norm_act_conv3d(x.clone(), Some(norm), Activation::Silu, convolution, Some(x));
/// assert!((slab_by_slab - whole).abs().max().into_scalar::<f32>() < 1e-5);
/// ```
#[derive(Clone, Debug)]
pub struct Stages {
    /// How many volumes go in.
    pub(super) inputs: usize,
    pub(super) stages: Vec<Stage>,
}

/// Norm and activation in front of a convolution, or alone.
#[derive(Clone, Debug, Default)]
pub struct StageEntry {
    norm: Option<StageNorm>,
    activation: Activation,
    slope: Option<Tensor<1>>,
}

/// A norm of a stage.
#[derive(Clone, Debug)]
struct StageNorm {
    norm: Norm,
    batch: Option<BatchStatistics>,
}

impl StageEntry {
    fn of(norm: Option<Norm>, activation: Activation) -> Self {
        let entry = Self::default().with_activation(activation);
        norm.into_iter().fold(entry, Self::with_norm)
    }

    /// With a group norm.
    #[must_use]
    pub fn with_norm(mut self, norm: Norm) -> Self {
        self.norm = Some(StageNorm { norm, batch: None });
        self
    }

    /// With a norm of each channel over the whole batch, of all processes' batches inside [`with_rank_sums`](crate::with_rank_sums).
    /// `statistics` is given mean and variance of each channel, `[channels]` and without a gradient, and the number of values of each: once,
    /// when forward is over.
    #[must_use]
    pub fn with_batch_norm(
        mut self,
        epsilon: f64,
        weight: Tensor<1>,
        bias: Tensor<1>,
        statistics: impl Fn(Tensor<1>, Tensor<1>, usize) + Send + Sync + 'static,
    ) -> Self {
        let norm = Norm { num_groups: weight.dims()[0], epsilon, weight: Some(weight), bias: Some(bias) };
        self.norm = Some(StageNorm { norm, batch: Some(BatchStatistics::new(statistics)) });
        self
    }

    /// With an activation.
    #[must_use]
    pub fn with_activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }

    /// With a leaky ReLU of a learned slope, `[1]`, as of [`norm_prelu`](crate::norm_prelu).
    #[must_use]
    pub fn with_slope(mut self, slope: Tensor<1>) -> Self {
        self.slope = Some(slope);
        self
    }
}

/// One volume or several that go into a segment.
pub trait Volumes: Tensors {
    /// The volumes in the order of [`Stages::inputs`].
    fn into_volumes(self) -> Vec<Tensor<5>>;
}

impl Volumes for Tensor<5> {
    fn into_volumes(self) -> Vec<Tensor<5>> {
        vec![self]
    }
}

impl Volumes for (Tensor<5>, Tensor<5>) {
    fn into_volumes(self) -> Vec<Tensor<5>> {
        vec![self.0, self.1]
    }
}

impl Default for Stages {
    fn default() -> Self {
        Self::new()
    }
}

impl Stages {
    /// No stage yet, behind one input.
    #[must_use]
    pub fn new() -> Self {
        Self::of_inputs(1)
    }

    /// No stage yet, behind so many inputs.
    ///
    /// # Panics
    ///
    /// Panics without an input.
    #[must_use]
    pub fn of_inputs(inputs: usize) -> Self {
        assert!(inputs > 0, "Stages: expected at least one input, found none");
        Self { inputs, stages: Vec::new() }
    }

    /// The input of the segment, the first if there are several.
    #[must_use]
    pub fn input(&self) -> Volume {
        Volume(0)
    }

    /// All inputs of the segment.
    pub fn inputs(&self) -> impl Iterator<Item = Volume> + use<> {
        (0..self.inputs).map(Volume)
    }

    /// What the last stage makes; the last input where there is none.
    #[must_use]
    pub fn last(&self) -> Volume {
        Volume(self.inputs + self.stages.len() - 1)
    }

    /// Appends [`norm_act_conv3d`](crate::norm_act_conv3d).
    ///
    /// # Panics
    ///
    /// Panics if a volume is of other stages.
    pub fn norm_act_conv3d(
        &mut self,
        x: Volume,
        norm: Option<Norm>,
        activation: Activation,
        convolution: Convolution,
        residual: Option<Volume>,
    ) -> Volume {
        self.entry_conv3d(x, StageEntry::of(norm, activation), convolution, residual)
    }

    /// Appends the convolution of what `entry` makes of the volume, plus a residual.
    ///
    /// # Panics
    ///
    /// Panics if a volume is of other stages.
    pub fn entry_conv3d(
        &mut self,
        x: Volume,
        entry: StageEntry,
        convolution: Convolution,
        residual: Option<Volume>,
    ) -> Volume {
        let Convolution { weight, bias, options } = convolution;
        let (norm, activation, of_entry) = entry.apart();
        let parameters = Parameters { weight: Some(weight), bias, ..of_entry };
        self.push(x, Layer::Conv { norm, activation, options }, residual, parameters)
    }

    /// Appends what `entry` makes of the volume, plus a residual.
    ///
    /// # Panics
    ///
    /// Panics if a volume is of other stages.
    pub fn entry(&mut self, x: Volume, entry: StageEntry, residual: Option<Volume>) -> Volume {
        let (norm, activation, parameters) = entry.apart();
        self.push(x, Layer::NormAct { norm, activation }, residual, parameters)
    }

    /// Appends [`group_norm_act`](crate::group_norm_act), or [`activate`](crate::activate()) without a norm, plus a residual.
    ///
    /// # Panics
    ///
    /// Panics if a volume is of other stages.
    pub fn norm_act(
        &mut self,
        x: Volume,
        norm: Option<Norm>,
        activation: Activation,
        residual: Option<Volume>,
    ) -> Volume {
        self.entry(x, StageEntry::of(norm, activation), residual)
    }

    /// Appends [`conv3d`](crate::conv3d()).
    ///
    /// # Panics
    ///
    /// Panics if the volume is of other stages.
    pub fn conv3d(&mut self, x: Volume, convolution: Convolution) -> Volume {
        self.norm_act_conv3d(x, None, Activation::None, convolution, None)
    }

    /// Appends [`upsample_conv3d`](crate::upsample_conv3d()).
    ///
    /// # Panics
    ///
    /// Panics if the volume is of other stages.
    pub fn upsample_conv3d(&mut self, x: Volume, factors: [usize; 3], convolution: Convolution) -> Volume {
        let Convolution { weight, bias, options } = convolution;
        self.push(x, Layer::UpsampleConv { factors, options }, None, Parameters::of(Some(weight), bias))
    }

    /// Appends [`conv_transpose3d`](crate::conv_transpose3d()), plus a residual.
    ///
    /// # Panics
    ///
    /// Panics if a volume is of other stages.
    pub fn conv_transpose3d(
        &mut self,
        x: Volume,
        weight: Tensor<5>,
        bias: Option<Tensor<1>>,
        options: ConvTransposeOptions<3>,
        residual: Option<Volume>,
    ) -> Volume {
        self.push(x, Layer::TransposedConv { options }, residual, Parameters::of(Some(weight), bias))
    }

    /// Appends [`interpolate3d`](crate::interpolate3d), trilinear with outer edges that stay, by a factor for each axis.
    ///
    /// # Panics
    ///
    /// Panics if the volume is of other stages.
    pub fn trilinear(&mut self, x: Volume, factors: [usize; 3]) -> Volume {
        self.push(x, Layer::Trilinear { factors }, None, Parameters::of(None, None))
    }

    /// The stages, if each of them can be cut along the depth.
    ///
    /// # Errors
    ///
    /// [`Unstreamable`] with what stands against it.
    pub fn streamable(self) -> Result<Self, Unstreamable> {
        match self.stages.iter().find_map(Stage::obstacle) {
            Some(obstacle) => Err(obstacle),
            None => Ok(self),
        }
    }

    fn push(&mut self, x: Volume, layer: Layer, plus: Option<Volume>, parameters: Parameters) -> Volume {
        let last = self.last();
        assert!(x <= last && plus <= Some(last), "Stages: expected volumes of these stages, found {x:?} and {plus:?}");
        self.stages.push(Stage { of: x.0, layer, plus: plus.map(|Volume(index)| index), parameters });
        self.last()
    }
}

impl StageEntry {
    /// Norm and activation without their parameters, and these.
    fn apart(self) -> (Option<NormPlan>, Activation, Parameters) {
        let Self { norm, activation, slope } = self;
        let mut parameters = Parameters { slope, ..Parameters::of(None, None) };
        let norm = norm.map(|StageNorm { norm: Norm { num_groups, epsilon, weight, bias }, batch }| {
            (parameters.norm_weight, parameters.norm_bias) = (weight, bias);
            NormPlan { num_groups, epsilon, batch }
        });
        (norm, activation, parameters)
    }
}
