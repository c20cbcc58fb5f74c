//! The stages of a segment: norm, activation and convolution with what is added to it, or enlargement and convolution.

use std::fmt;

use burn::tensor::{Tensor, ops::ConvOptions};
use leanburn_kernels::Activation;

use crate::operations::conv3d::Convolution;
use crate::operations::norm_act::Norm;
use crate::struct_of_tensors;

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

/// One stage; number `i` makes volume `i + 1`.
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
    /// `conv3d(activation(norm(x)))`; the norm has so many groups and such an epsilon.
    Conv { norm: Option<(usize, f64)>, activation: Activation, options: ConvOptions<3> },
    /// `conv3d(nearest(x))`.
    UpsampleConv { factors: [usize; 3], options: ConvOptions<3> },
}

struct_of_tensors! {
    /// The parameters of a stage.
    #[derive(Clone, Debug)]
    pub(super) struct Parameters {
        pub(super) weight: Tensor<5>,
        pub(super) bias: Option<Tensor<1>>,
        pub(super) norm_weight: Option<Tensor<1>>,
        pub(super) norm_bias: Option<Tensor<1>>,
    }
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
        self.push(x, layer, residual, Parameters { weight, bias, norm_weight, norm_bias })
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
        let parameters = Parameters { weight, bias, norm_weight: None, norm_bias: None };
        self.push(x, Layer::UpsampleConv { factors, options }, None, parameters)
    }

    fn push(&mut self, x: Volume, layer: Layer, plus: Option<Volume>, parameters: Parameters) -> Volume {
        let last = self.last();
        assert!(x <= last && plus <= Some(last), "Stages: expected volumes of these stages, found {x:?} and {plus:?}");
        self.stages.push(Stage { of: x.0, layer, plus: plus.map(|Volume(index)| index), parameters });
        self.last()
    }
}

impl Parameters {
    /// Which of them there are, in the order in which they are taken apart.
    pub(super) fn present(&self) -> [bool; 4] {
        [true, self.bias.is_some(), self.norm_weight.is_some(), self.norm_bias.is_some()]
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

    /// The norm in front of the convolution.
    pub(super) fn norm(&self) -> Option<Norm> {
        let Layer::Conv { norm, .. } = &self.layer else { return None };
        let Parameters { norm_weight, norm_bias, .. } = &self.parameters;
        Norm::together(*norm, norm_weight.clone(), norm_bias.clone())
    }

    /// Whether norm or activation change what is convolved.
    pub(super) fn changes_input(&self) -> bool {
        self.has_norm() || self.activation() != Activation::None
    }

    pub(super) fn activation(&self) -> Activation {
        match self.layer {
            Layer::Conv { activation, .. } => activation,
            Layer::UpsampleConv { .. } => Activation::None,
        }
    }

    pub(super) fn has_norm(&self) -> bool {
        matches!(self.layer, Layer::Conv { norm: Some(_), .. })
    }

    /// The convolution with so many zero planes in front and behind.
    pub(super) fn convolution(&self, padding: (usize, usize)) -> Convolution {
        let Parameters { weight, bias, .. } = self.parameters.clone();
        let mut options = self.options().clone();
        options.padding[0] = padding;
        Convolution { weight, bias, options }
    }

    pub(super) fn options(&self) -> &ConvOptions<3> {
        let (Layer::Conv { options, .. } | Layer::UpsampleConv { options, .. }) = &self.layer;
        options
    }
}

/// Why a segment cannot be streamed; by default because it is not described in [`Stages`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unstreamable(String);

impl Default for Unstreamable {
    fn default() -> Self {
        Self::new("what it computes is not described in stages")
    }
}

impl fmt::Display for Unstreamable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Unstreamable {
    /// The reason, as in "attention sees the whole volume".
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// The message about a segment, with what to do.
    #[must_use]
    pub fn in_segment(&self, name: &str) -> String {
        format!("the segment `{name}` cannot be streamed: {}; recompute it instead", self.0)
    }
}
