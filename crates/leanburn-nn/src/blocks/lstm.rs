//! Long short-term memory at every position of a volume.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor, activation, ops::ConvOptions};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::numerics::{cast_to, widen};
use leanburn_ops::{Activation, Convolution, norm_act_conv3d};

use super::initial;
use crate::validation::Rules;

/// What an LSTM remembers between steps, both `[batch_size, hidden_channels, depth, height, width]`.
///
/// The cell is float32 regardless of the dtype of the hidden state, as it sums over all steps.
#[derive(Clone, Debug)]
pub struct LstmState {
    /// What the LSTM gives out.
    pub hidden: Tensor<5>,
    /// What it keeps to itself.
    pub cell: Tensor<5>,
}

impl LstmState {
    /// Zeros.
    pub fn zeros(shape: [usize; 5], dtype: DType, device: &Device) -> Self {
        let zeros = |dtype| Tensor::zeros(shape, (device, dtype));
        Self { hidden: zeros(dtype), cell: widen(zeros(dtype)) }
    }

    /// One step: `cell = forget * cell + input * update`, `hidden = output * tanh(cell)`.
    ///
    /// Source: [Long Short-Term Memory](https://doi.org/10.1162/neco.1997.9.8.1735), with the forget gate of
    /// [Learning to Forget](https://doi.org/10.1162/089976600300015015). The gates come before their activations.
    pub fn step(self, gates: LstmGates) -> Self {
        let dtype = self.hidden.dtype();
        let [input, forget, output] =
            [gates.input, gates.forget, gates.output].map(|gate| activation::sigmoid(widen(gate)));
        let cell = forget * self.cell + input * activation::tanh(widen(gates.update));
        let hidden = output * activation::tanh(cell.clone());
        Self { hidden: cast_to(hidden, dtype), cell }
    }
}

/// The gates of a step, before their activations.
#[derive(Clone, Debug)]
pub struct LstmGates {
    /// How much of the update enters the cell.
    pub input: Tensor<5>,
    /// How much of the cell stays.
    pub forget: Tensor<5>,
    /// What may enter the cell.
    pub update: Tensor<5>,
    /// How much of the cell is shown.
    pub output: Tensor<5>,
}

/// The quarters of the channels. The whole goes with the last of them: a step that held it longer would hold more than its plan.
pub(crate) fn quarters(gates: Tensor<5>) -> [Tensor<5>; 4] {
    let channels = gates.dims()[1] / 4;
    [0, 1, 2, 3].map(|index| gates.clone().narrow(1, index * channels, channels))
}

/// Configuration of [`Lstm`].
#[derive(Config, Debug)]
pub struct LstmConfig {
    /// Channels of the input.
    pub input_channels: usize,
    /// Channels of the state.
    pub hidden_channels: usize,
    /// Whether a second LSTM reads the sequence from its end.
    #[config(default = false)]
    pub bidirectional: bool,
}

impl LstmConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([("input_channels", self.input_channels), ("hidden_channels", self.hidden_channels)]);
        validation.errors()
    }

    /// Makes the layer, weights and biases uniform in `±1/sqrt(hidden_channels)` as PyTorch has them.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> Lstm {
        panic_if_invalid("Lstm", &self.validate());
        let reader = || {
            let (hidden, gates) = (self.hidden_channels, 4 * self.hidden_channels);
            LstmReader {
                weight_ih: initial::uniform(hidden, [gates, self.input_channels], device),
                weight_hh: initial::uniform(hidden, [gates, hidden], device),
                bias_ih: initial::uniform(hidden, [gates], device),
                bias_hh: initial::uniform(hidden, [gates], device),
            }
        };
        Lstm { ahead: reader(), back: self.bidirectional.then(reader) }
    }
}

/// An LSTM at every position of a volume; the depth is the sequence.
///
/// Equal to PyTorch's `LSTM` of one layer. Of the reader from the end one step is enough: what it gives out at the last
/// place of the sequence has seen that place only.
///
/// # Memory
///
/// Saved for backward: about 9 states for each place of the sequence.
#[derive(Module, Debug)]
pub struct Lstm {
    ahead: LstmReader,
    back: Option<LstmReader>,
}

/// One direction of an [`Lstm`].
#[derive(Module, Debug)]
pub struct LstmReader {
    weight_ih: Param<Tensor<2>>,
    weight_hh: Param<Tensor<2>>,
    bias_ih: Param<Tensor<1>>,
    bias_hh: Param<Tensor<1>>,
}

impl Lstm {
    /// What the layer gives out at the last place of the sequence, both directions one after the other.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, input_channels, time, height, width]`
    /// - output: `[batch_size, hidden_channels or twice as many, 1, height, width]`
    pub fn last(&self, x: Tensor<5>) -> Tensor<5> {
        let time = x.dims()[2];
        let ahead = self.ahead.read(x.clone());
        match &self.back {
            None => ahead,
            Some(back) => Tensor::cat(vec![ahead, back.read(x.narrow(2, time - 1, 1))], 1),
        }
    }
}

impl LstmReader {
    /// The hidden state after the whole sequence.
    fn read(&self, x: Tensor<5>) -> Tensor<5> {
        let [batch_size, _, time, height, width] = x.dims();
        let hidden_channels = self.weight_hh.dims()[1];
        let shape = [batch_size, hidden_channels, 1, height, width];
        let start = LstmState::zeros(shape, x.dtype(), &x.device());
        let [from_input, from_hidden] =
            [(&self.weight_ih, &self.bias_ih), (&self.weight_hh, &self.bias_hh)].map(pointwise);
        let step = |state: LstmState, place| {
            let frame =
                norm_act_conv3d(x.clone().narrow(2, place, 1), None, Activation::None, from_input.clone(), None);
            let hidden = state.hidden.clone();
            let gates = norm_act_conv3d(hidden, None, Activation::None, from_hidden.clone(), Some(frame));
            let [input, forget, update, output] = quarters(gates);
            state.step(LstmGates { input, forget, update, output })
        };
        (0..time).fold(start, step).hidden
    }
}

/// A linear map of every position.
fn pointwise((weight, bias): (&Param<Tensor<2>>, &Param<Tensor<1>>)) -> Convolution {
    let [outputs, inputs] = weight.dims();
    Convolution {
        weight: weight.val().reshape([outputs, inputs, 1, 1, 1]),
        bias: Some(bias.val()),
        options: ConvOptions::new([1; 3], [0; 3], [1; 3], 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(value: f32) -> Tensor<5> {
        Tensor::<1>::from_floats([value], &Device::flex()).reshape([1; 5])
    }

    #[test]
    fn a_step_is_that_of_the_formulas() {
        let state = LstmState { hidden: one(9.0), cell: one(0.5) };
        let next = state.step(LstmGates { input: one(1.0), forget: one(-1.0), update: one(2.0), output: one(0.25) });
        let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
        let cell = sigmoid(-1.0) * 0.5 + sigmoid(1.0) * 2f32.tanh();
        assert!((next.cell.into_scalar::<f32>() - cell).abs() < 1e-6);
        assert!((next.hidden.into_scalar::<f32>() - sigmoid(0.25) * cell.tanh()).abs() < 1e-6);
    }

    #[test]
    fn the_cell_is_float32_and_the_hidden_state_of_the_dtype_of_the_input() {
        let start = LstmState::zeros([1; 5], DType::BF16, &Device::flex());
        let gate = || one(1.0).cast(DType::BF16);
        let next = start.step(LstmGates { input: gate(), forget: gate(), update: gate(), output: gate() });
        assert_eq!((next.hidden.dtype(), next.cell.dtype()), (DType::BF16, DType::F32));
    }
}
