//! The stages of a segment as blocks describe them: the words of the operations, one behind the other.

use burn::tensor::Tensor;
use burn::tensor::ops::ConvTransposeOptions;
use leanburn_kernels::Activation;

use super::stage::{Layer, Parameters, Stage};
use super::unstreamable::Unstreamable;
use crate::operations::conv3d::Convolution;
use crate::operations::norm_act::Norm;

/// A volume of [`Stages`]: the input, or what a stage makes.
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
#[derive(Clone, Debug, Default)]
pub struct Stages {
    pub(super) stages: Vec<Stage>,
}

impl Stages {
    /// No stage yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The input of the segment.
    #[must_use]
    pub fn input(&self) -> Volume {
        Volume(0)
    }

    /// What the last stage makes; the input where there is none.
    #[must_use]
    pub fn last(&self) -> Volume {
        Volume(self.stages.len())
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
        let (norm, norm_weight, norm_bias) = Norm::apart(norm);
        let Convolution { weight, bias, options } = convolution;
        let layer = Layer::Conv { norm, activation, options };
        self.push(x, layer, residual, Parameters { weight: Some(weight), bias, norm_weight, norm_bias })
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
        let (norm, norm_weight, norm_bias) = Norm::apart(norm);
        let parameters = Parameters { weight: None, bias: None, norm_weight, norm_bias };
        self.push(x, Layer::NormAct { norm, activation }, residual, parameters)
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

    /// Appends [`conv_transpose3d`](crate::conv_transpose3d()).
    ///
    /// # Panics
    ///
    /// Panics if the volume is of other stages.
    pub fn conv_transpose3d(
        &mut self,
        x: Volume,
        weight: Tensor<5>,
        bias: Option<Tensor<1>>,
        options: ConvTransposeOptions<3>,
    ) -> Volume {
        self.push(x, Layer::TransposedConv { options }, None, Parameters::of(Some(weight), bias))
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
