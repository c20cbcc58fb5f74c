//! Norm, dropout and activation between two convolutions.

use burn::config::Config;
use burn::module::Module;
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::{Convolution, StageEntry, Stages, Unstreamable, Volume, activate, group_norm_act, norm_act_conv3d};
use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::dropout::{Dropout, DropoutConfig};
use super::norm::{Norm, NormConfig};
use super::prelu::Prelu;
use crate::validation::Rules;

/// An activation function, with a parameter or without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivationConfig {
    /// [`Prelu`]: a leaky ReLU whose slope is learned.
    #[default]
    Prelu,
    /// `max(x, 0)`.
    Relu,
    /// `x` where positive, the given slope times `x` elsewhere.
    LeakyRelu(f64),
    /// `x * sigmoid(x)`.
    Silu,
}

impl ActivationConfig {
    /// The function, if it has no parameter.
    fn function(self) -> Option<Activation> {
        match self {
            Self::Prelu => None,
            Self::Relu => Some(Activation::Relu),
            Self::LeakyRelu(slope) => Some(Activation::LeakyRelu(slope)),
            Self::Silu => Some(Activation::Silu),
        }
    }
}

/// Configuration of [`NormAct`]; the defaults are those of MONAI's convolutions.
#[derive(Config, Debug)]
pub struct NormActConfig {
    /// Number of channels.
    pub num_channels: usize,
    /// The norm.
    #[config(default = "NormConfig::Instance")]
    pub norm: NormConfig,
    /// Probability with which an element is dropped behind the norm.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// The activation.
    #[config(default = "ActivationConfig::Prelu")]
    pub activation: ActivationConfig,
}

impl NormActConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.count("num_channels", self.num_channels);
        if let NormConfig::Group(groups) = self.norm {
            validation.groups("norm", groups, "num_channels", &[self.num_channels]);
        }
        validation.below_one("dropout", self.dropout);
        if let ActivationConfig::LeakyRelu(slope) = self.activation {
            validation.check(slope.is_finite(), "activation", "a finite slope", slope, "use 0.01");
        }
        validation.errors()
    }

    /// Makes the layer.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> NormAct {
        panic_if_invalid("NormAct", &self.validate());
        NormAct {
            norm: self.norm.init(self.num_channels, Initializer::Ones, device),
            dropout: (self.dropout > 0.0).then(|| DropoutConfig::new(self.dropout).init()),
            prelu: (self.activation == ActivationConfig::Prelu).then(|| Prelu::new(device)),
            activation: self.activation.function().unwrap_or_default(),
        }
    }
}

/// `activation(dropout(norm(x)))`, alone or fused with the convolution after it. MONAI's `ADN` in the order `NDA`.
///
/// # Memory
///
/// Saved for backward, alone or with the convolution: the input. A norm over the batch or dropout stands apart from the
/// convolution: then the activation's input is held too.
#[derive(Module, Debug)]
pub struct NormAct {
    norm: Option<Norm>,
    dropout: Option<Dropout>,
    prelu: Option<Prelu>,
    #[module(skip)]
    activation: Activation,
}

impl NormAct {
    /// A layer that gives its input.
    pub fn identity() -> Self {
        Self { norm: None, dropout: None, prelu: None, activation: Activation::None }
    }

    /// A norm, or none, and an activation without parameters.
    pub(crate) fn of_parts(norm: Option<Norm>, activation: Activation) -> Self {
        Self { norm, activation, ..Self::identity() }
    }

    /// Applies the layer.
    ///
    /// # Shapes
    ///
    /// - input and output: `[batch_size, num_channels, depth, height, width]`
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.of(x).value()
    }

    /// The convolution of what the layer gives, plus a residual if there is one, as one operation.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, num_channels, depth, height, width]`
    /// - residual and output: `[batch_size, channels_out, ..]` as of [`conv3d`](leanburn_ops::conv3d)
    pub fn then_conv3d(&self, x: Tensor<5>, convolution: Convolution, residual: Option<Tensor<5>>) -> Tensor<5> {
        self.of(x).then_conv3d(convolution, residual)
    }

    /// What the layer makes of a volume, for several users: running statistics move once, and the same elements are dropped for all.
    pub(crate) fn of(&self, x: Tensor<5>) -> Normed<'_> {
        let (x, norm) = self.fold(x);
        Normed { x, norm, prelu: self.prelu.as_ref(), activation: self.activation }
    }

    /// The layer in [stages](Stages), of a volume of so many channels: what is in front of a convolution or alone, and the volume that it takes.
    ///
    /// # Errors
    ///
    /// [`Unstreamable`] with dropout.
    pub(crate) fn in_stages(
        &self,
        stages: &mut Stages,
        x: Volume,
        num_channels: usize,
    ) -> Result<(Volume, StageEntry), Unstreamable> {
        if self.dropout.is_some() {
            return Err(Unstreamable::new("it has dropout, which is not described in stages"));
        }
        let (x, entry) = Norm::entry(self.norm.as_ref(), stages, x, num_channels);
        Ok((
            x,
            match &self.prelu {
                Some(prelu) => entry.with_slope(prelu.slope()),
                None => entry.with_activation(self.activation.into()),
            },
        ))
    }

    /// The volume, and the norm for the operation that it is folded into; or the volume behind norm and dropout.
    fn fold(&self, x: Tensor<5>) -> (Tensor<5>, Option<leanburn_ops::Norm>) {
        match &self.dropout {
            None => Norm::fold(self.norm.as_ref(), x),
            Some(dropout) => (dropout.forward(Norm::normed(self.norm.as_ref(), x)), None),
        }
    }
}

/// What a [`NormAct`] makes of a volume: nothing is computed before it is asked for but a norm over the batch and dropout.
pub(crate) struct Normed<'a> {
    x: Tensor<5>,
    norm: Option<leanburn_ops::Norm>,
    prelu: Option<&'a Prelu>,
    activation: Activation,
}

impl Normed<'_> {
    /// The volume itself.
    pub(crate) fn value(&self) -> Tensor<5> {
        let (x, norm) = (self.x.clone(), self.norm.clone());
        match (self.prelu, norm) {
            (Some(prelu), norm) => prelu.forward(x, norm),
            (None, Some(norm)) => group_norm_act(x, norm, self.activation.into()),
            (None, None) => activate(x, self.activation.into()),
        }
    }

    /// The convolution of it, plus a residual if there is one, as one operation.
    pub(crate) fn then_conv3d(&self, convolution: Convolution, residual: Option<Tensor<5>>) -> Tensor<5> {
        let (x, norm) = (self.x.clone(), self.norm.clone());
        match self.prelu {
            Some(prelu) => prelu.then_conv3d(x, norm, convolution, residual),
            None => norm_act_conv3d(x, norm, self.activation.into(), convolution, residual),
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Distribution, Tolerance};

    use super::*;
    use crate::blocks::conv::Conv3dConfig;
    use crate::validation::keys;

    #[test]
    fn the_convolution_is_that_of_what_the_layer_gives() {
        let device = Device::flex();
        let conv = Conv3dConfig::new([4, 3], 3).with_padding(1).init(&device);
        let x = Tensor::<5>::random([2, 4, 3, 4, 5], Distribution::Normal(1.0, 2.0), &device);
        let residual = Tensor::<5>::random([2, 3, 3, 4, 5], Distribution::Default, &device);
        let norms = [NormConfig::Batch, NormConfig::Instance, NormConfig::Group(2), NormConfig::None];
        for (norm, activation) in norms.into_iter().flat_map(|norm| {
            [ActivationConfig::Prelu, ActivationConfig::Relu, ActivationConfig::LeakyRelu(0.1), ActivationConfig::Silu]
                .map(|activation| (norm, activation))
        }) {
            let layer = NormActConfig::new(4).with_norm(norm).with_activation(activation).init(&device);
            let expected = conv.forward(layer.forward(x.clone())) + residual.clone();
            let found = layer.then_conv3d(x.clone(), conv.convolution(), Some(residual.clone()));
            found.into_data().assert_approx_eq::<f32>(&expected.into_data(), Tolerance::absolute(1e-5));
        }
        let y = NormAct::identity().forward(x.clone());
        assert_eq!(y.into_data(), x.into_data());
    }

    #[test]
    fn dropout_drops_in_training_alone() {
        let device = Device::flex().autodiff();
        let layer = NormActConfig::new(2).with_dropout(0.5).init(&device);
        let x = Tensor::<5>::random([1, 2, 8, 8, 8], Distribution::Default, &device);
        let zeros = |y: Tensor<5>| y.equal_elem(0.0).int().sum().into_scalar::<i64>();
        let dropped = zeros(layer.forward(x.clone()));
        assert!((300..700).contains(&dropped), "{dropped} of 1024");
        assert_eq!(zeros(layer.valid().forward(x.inner())), 0);
    }

    #[test]
    fn for_several_users_the_same_elements_are_dropped_and_estimates_move_once() {
        let device = Device::flex().autodiff();
        let config = NormActConfig::new(2).with_norm(NormConfig::Batch).with_dropout(0.5);
        let layer = config.init(&device);
        let x = Tensor::<5>::random([1, 2, 8, 8, 8], Distribution::Normal(3.0, 1.0), &device);
        let identity = Conv3dConfig::new([2, 2], 1).with_bias(false).init(&device).convolution();
        let weight = Tensor::<2>::eye(2, &device).reshape([2, 2, 1, 1, 1]);
        let normed = layer.of(x);
        let (first, second) = (normed.value(), normed.then_conv3d(Convolution { weight, ..identity }, None));
        first.into_data().assert_approx_eq::<f32>(&second.into_data(), Tolerance::absolute(1e-6));
        let Some(Norm::Batch(norm)) = &layer.norm else { panic!("a norm over the batch") };
        let mean = norm.running_mean().into_data();
        mean.assert_approx_eq::<f32>(&[0.3, 0.3].into(), Tolerance::absolute(0.03));
    }

    #[test]
    fn each_error_is_found() {
        let valid = || NormActConfig::new(4);
        assert_eq!(keys(valid().validate()), [""; 0]);
        assert_eq!(keys(NormActConfig::new(0).validate()), ["num_channels"]);
        assert_eq!(keys(valid().with_norm(NormConfig::Group(3)).validate()), ["norm"]);
        assert_eq!(keys(valid().with_dropout(1.0).validate()), ["dropout"]);
        assert_eq!(keys(valid().with_activation(ActivationConfig::LeakyRelu(f64::NAN)).validate()), ["activation"]);
    }
}
