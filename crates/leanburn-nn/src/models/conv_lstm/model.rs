//! The convolutional LSTM itself.

use burn::module::Module;
use burn::tensor::{Device, Tensor, assert_shape, ops::ConvOptions};
use leanburn_common::panic_if_invalid;
use leanburn_ops::{Convolution, ResidencyPolicy, conv3d};

use super::config::ConvLstmConfig;
use crate::blocks::{Conv2d, Conv2dConfig, LstmGates, LstmState, quarters};
use crate::segmented::segmented;
use crate::weights::MonaiWeights;

/// Convolutional LSTM; see [`ConvLstmConfig`] for an example.
///
/// With 4 channels and the defaults it has 11,601 parameters.
///
/// # Memory
///
/// Saved for backward: 11 states (images of `hidden_channels`) for each step, which grows with the sequence.
/// Segments are runs of steps (`steps_0`, `steps_8`, ..), and each step in them (`steps_0.step_3`). A recomputed run
/// keeps the state that it starts from: with runs as long as their number, memory grows with the square root of the
/// sequence. Where the steps are recomputed too, backward through a run holds its states and the rest of one step.
#[derive(Module, Debug)]
pub struct ConvLstm {
    gates: Conv2d,
    out: Conv2d,
    #[module(skip)]
    config: ConvLstmConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

impl ConvLstmConfig {
    /// Makes the model, weights distributed as PyTorch's defaults.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> ConvLstm {
        panic_if_invalid("ConvLstm", &self.validate());
        let Self { in_channels, hidden_channels, kernel_size, .. } = *self;
        let gates = Conv2dConfig::new([in_channels + hidden_channels, 4 * hidden_channels], kernel_size);
        ConvLstm {
            gates: gates.with_padding(kernel_size / 2).init(device),
            out: Conv2dConfig::new([hidden_channels, 1], 1).init(device),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }
}

segmented!(ConvLstm, ConvLstmConfig);

impl ConvLstm {
    /// Names of the segments for sequences of `time` images in order of execution, each run before its steps.
    pub fn segments(&self, time: usize) -> Vec<String> {
        let named = |run: Run| {
            let steps = (run.first..run.end).map(move |step| step_name(run.first, step));
            [run_name(run.first)].into_iter().chain(steps)
        };
        self.runs(time).into_iter().flat_map(named).collect()
    }

    /// The forecast.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, time, in_channels, height, width]`
    /// - output: `[batch_size, predict_days, height, width]`, the same on each day
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `in_channels` channels.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<4> {
        let ConvLstmConfig { in_channels, hidden_channels, predict_days, .. } = self.config;
        assert_shape!(x, [_, _, in_channels, ..]);
        let [batch_size, time, _, height, width] = x.dims();
        let start = LstmState::zeros([batch_size, hidden_channels, 1, height, width], x.dtype(), &x.device());
        let runs = self.runs(time);
        let begin = runs.first().map_or(0, |run| run.first);
        let before = Gates::of(&self.gates).detach();
        let step = |state, step| before.step(state, frame(&x, step).detach());
        let state = runs.iter().fold((0..begin).fold(start, step), |state, run| self.run(*run, state, &x));
        let prediction: Tensor<4> = self.out.forward(state.hidden).reshape([batch_size, 1, height, width]);
        prediction.expand([batch_size, predict_days, height, width])
    }

    /// One segment of steps.
    fn run(&self, run: Run, state: LstmState, x: &Tensor<5>) -> LstmState {
        let Run { first, end } = run;
        let name = run_name(first);
        let nested = self.residency.inside(&name);
        let inputs = ((state.hidden, state.cell), x.clone().narrow(1, first, end - first));
        let (hidden, cell) = self.residency.run(&name, &self.gates, inputs, move |gates, (state, x)| {
            let gates = Gates::of(gates);
            (first..end).fold(state, |state, step| {
                // The weights come last: autodiff then collects their gradients from the last step to the first, nested
                // or not.
                let inputs = (state, frame(&x, step - first), (gates.weight.clone(), gates.bias.clone()));
                let options = gates.options.clone();
                let no_module = 0usize;
                nested.run(&step_name(first, step), &no_module, inputs, move |_, (state, frame, (weight, bias))| {
                    let (hidden, cell) = state;
                    let state =
                        Gates { weight, bias, options: options.clone() }.step(LstmState { hidden, cell }, frame);
                    (state.hidden, state.cell)
                })
            })
        });
        LstmState { hidden, cell }
    }

    /// The segments of steps that backward goes through.
    fn runs(&self, time: usize) -> Vec<Run> {
        let steps = self.config.truncate_steps.unwrap_or(time).min(time);
        let length = self.config.segment_steps.unwrap_or_else(|| (steps as f64).sqrt().ceil() as usize).max(1);
        let firsts = (time - steps..time).step_by(length);
        firsts.map(|first| Run { first, end: (first + length).min(time) }).collect()
    }
}

/// Steps `first..end`.
#[derive(Clone, Copy)]
struct Run {
    first: usize,
    end: usize,
}

fn run_name(first: usize) -> String {
    format!("steps_{first}")
}

fn step_name(first: usize, step: usize) -> String {
    format!("{}.step_{step}", run_name(first))
}

/// One image of a sequence as a volume of depth one.
fn frame(x: &Tensor<5>, step: usize) -> Tensor<5> {
    x.clone().narrow(1, step, 1).swap_dims(1, 2)
}

/// The convolution of the gates as all steps of a run share it.
///
/// Weight and bias are in another shape than the parameters. So the gradients of a run's steps are added up in one place
/// before they reach the parameters, kept or recomputed, and come out the same bit for bit.
struct Gates {
    /// `[4 hidden_channels, in_channels + hidden_channels, 1, kernel_size, kernel_size]`.
    weight: Tensor<5>,
    /// `[1, 4 hidden_channels]`.
    bias: Tensor<2>,
    options: ConvOptions<3>,
}

impl Gates {
    fn of(layer: &Conv2d) -> Self {
        let Convolution { weight, bias, options } = layer.convolution();
        Self { weight, bias: bias.expect("made with a bias").unsqueeze(), options }
    }

    fn detach(self) -> Self {
        Self { weight: self.weight.detach(), bias: self.bias.detach(), options: self.options }
    }

    fn step(&self, state: LstmState, frame: Tensor<5>) -> LstmState {
        let hidden_channels = state.hidden.dims()[1];
        let convolution = Convolution {
            weight: self.weight.clone(),
            bias: Some(self.bias.clone().reshape([4 * hidden_channels])),
            options: self.options.clone(),
        };
        let gates = conv3d(Tensor::cat(vec![frame, state.hidden.clone()], 1), convolution);
        let [input, forget, output, update] = quarters(gates);
        state.step(LstmGates { input, forget, output, update })
    }
}

impl MonaiWeights for ConvLstm {
    fn monai_name(path: &str) -> String {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_as_long_as_their_number_or_as_told() {
        let device = Device::flex();
        let config = ConvLstmConfig::new(1);
        let names = |config: ConvLstmConfig, time| -> Vec<String> {
            let names = config.init(&device).segments(time);
            names.into_iter().filter(|name| !name.contains('.')).collect()
        };
        assert_eq!(names(config.clone(), 64).len(), 8);
        assert_eq!(names(config.clone(), 7), ["steps_0", "steps_3", "steps_6"]);
        assert_eq!(names(config.clone().with_segment_steps(Some(5)), 7), ["steps_0", "steps_5"]);
        assert_eq!(names(config.clone().with_truncate_steps(Some(4)), 7), ["steps_3", "steps_5"]);
        assert!(names(config.clone(), 0).is_empty());
        let all = config.with_segment_steps(Some(2)).init(&device).segments(3);
        assert_eq!(all, ["steps_0", "steps_0.step_0", "steps_0.step_1", "steps_2", "steps_2.step_2"]);
    }
}
