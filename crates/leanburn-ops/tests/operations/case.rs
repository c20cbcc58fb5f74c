//! One operation on inputs of given shapes, in all the modes that must agree.

use burn::prelude::*;
use burn::tensor::{DType, TensorData};
use leanburn_ops::{backward, recompute};
use proptest::test_runner::{Config, RngSeed};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Volumes, kernels of convolutions, and vectors (scales, shifts, biases).
pub type Inputs = (Vec<Tensor<5>>, Vec<Tensor<5>>, Vec<Tensor<1>>);

/// An operation on its inputs.
pub trait Operation: Fn(Inputs) -> Tensor<5> + Clone + Send + Sync + 'static {}

impl<F: Fn(Inputs) -> Tensor<5> + Clone + Send + Sync + 'static> Operation for F {}

/// Shapes of an operation's inputs.
#[derive(Clone, Debug, Default)]
pub struct Case {
    pub volumes: Vec<[usize; 5]>,
    pub kernels: Vec<[usize; 5]>,
    pub vectors: Vec<usize>,
    /// Whether the operation itself has float32 constants, so that its float64 is no better.
    pub single_precision_constants: bool,
}

/// What an operation gives: its output, and the gradients of a weighted sum of it, in the order of the inputs.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    output: TensorData,
    gradients: Vec<Option<TensorData>>,
}

/// How an operation is computed.
#[derive(Clone, Debug)]
struct Run {
    /// What the values of the volumes are rounded to.
    stored: DType,
    volumes: DType,
    parameters: DType,
    mode: Mode,
    /// Which inputs have a gradient; all of them if none is named.
    tracked: Option<usize>,
    device: Device,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Direct,
    /// In a segment that runs again in backward.
    Recomputed,
    /// Volumes, and the gradient of the output, are not contiguous.
    Views,
}

impl Run {
    fn new(stored: DType, volumes: DType, parameters: DType) -> Self {
        Self { stored, volumes, parameters, mode: Mode::Direct, tracked: None, device: Device::flex() }
    }

    /// The input of an index, with values of the first dtype stored in the second.
    fn leaf<const D: usize>(&self, index: usize, dims: [usize; D], [values_in, dtype]: [DType; 2]) -> Tensor<D> {
        let data = TensorData::new(values(index as u64, dims.iter().product()), dims);
        let data = data.convert_dtype(values_in).convert_dtype(dtype);
        let is_tracked = self.tracked.is_none_or(|tracked| tracked == index);
        Tensor::from_data(data, (&self.device.clone().autodiff(), dtype)).set_require_grad(is_tracked)
    }
}

/// Cases of a property, the same in every run unless the environment asks for other ones.
pub fn cases(count: u32) -> Config {
    let config = Config::with_cases(count);
    let rng_seed = match config.rng_seed {
        RngSeed::Random => RngSeed::Fixed(3),
        fixed => fixed,
    };
    Config { rng_seed, failure_persistence: None, ..config }
}

impl Case {
    /// Compares `ours` with `plain`, and with itself.
    ///
    /// # Panics
    ///
    /// Panics where they differ.
    pub fn check(&self, ours: impl Operation, plain: impl Operation) {
        use DType::{F32, F64};
        let single = self.run(&Run::new(F32, F32, F32), &ours);
        assert_close(&single, &self.run(&Run::new(F32, F64, F64), &plain), 1e-5, "float32");
        let exact = if self.single_precision_constants { 1e-7 } else { 1e-10 };
        let double = self.run(&Run::new(F32, F64, F64), &ours);
        assert_close(&double, &self.run(&Run::new(F32, F64, F64), &plain), exact, "float64");
        // A sum over a small volume may nearly cancel, and with it the digits of what is rounded in between.
        self.check_half(&ours, &plain, 16.0);
        for mode in [Mode::Recomputed, Mode::Views] {
            let other = self.run(&Run { mode, ..Run::new(F32, F32, F32) }, &ours);
            assert!(other == single, "{mode:?} differs from the direct mode");
        }
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool of threads");
            let other = pool.install(|| self.run(&Run::new(F32, F32, F32), &ours));
            assert!(other == single, "{threads} threads give other results");
        }
        self.check_frozen(&single, &ours);
    }

    /// Compares both half precisions with float64 on the rounded volumes: 2^-8 and 2^-10, times `slack`.
    pub fn check_half(&self, ours: &impl Operation, plain: &impl Operation, slack: f64) {
        use DType::{BF16, F16, F32, F64};
        for (half, tolerance) in [(BF16, 2f64.powi(-8)), (F16, 2f64.powi(-10))] {
            let rounded = self.run(&Run::new(half, half, F32), ours);
            self.assert_dtypes(&rounded, half);
            let expected = self.run(&Run::new(half, F64, F64), plain);
            assert_close(&rounded, &expected, slack * tolerance, &format!("{half:?}"));
        }
    }

    /// Compares another device with the CPU: in float32 (directly, recomputed, on views), and in half precision where the
    /// device computes in it.
    #[cfg(feature = "cube")]
    pub fn check_on(&self, device: &Device, operation: impl Operation) {
        self.check_modes_on(device, &[Mode::Direct, Mode::Recomputed, Mode::Views], operation);
    }

    /// The same, but directly alone: for cases that are large.
    #[cfg(feature = "cube")]
    pub fn check_directly_on(&self, device: &Device, operation: impl Operation) {
        self.check_modes_on(device, &[Mode::Direct], operation);
    }

    #[cfg(feature = "cube")]
    fn check_modes_on(&self, device: &Device, modes: &[Mode], operation: impl Operation) {
        use DType::{BF16, F16, F32};
        let expected = self.run(&Run::new(F32, F32, F32), &operation);
        for &mode in modes {
            let run = Run { mode, device: device.clone(), ..Run::new(F32, F32, F32) };
            assert_close(&self.run(&run, &operation), &expected, 1e-4, &format!("{mode:?} on {device:?}"));
        }
        for (half, tolerance) in [(BF16, 2f64.powi(-8)), (F16, 2f64.powi(-10))] {
            if !device.supports_dtype(half) {
                continue;
            }
            let expected = self.run(&Run::new(half, F32, F32), &operation);
            let run = Run { device: device.clone(), ..Run::new(half, half, F32) };
            let rounded = self.run(&run, &operation);
            self.assert_dtypes(&rounded, half);
            assert_close(&rounded, &expected, 16.0 * tolerance, &format!("{half:?} on {device:?}"));
        }
    }

    /// Each input alone has the gradient that it has among the others, and the others have none.
    fn check_frozen(&self, all: &Outcome, ours: &impl Operation) {
        for alone in 0..all.gradients.len() {
            let run = Run { tracked: Some(alone), ..Run::new(DType::F32, DType::F32, DType::F32) };
            let found = self.run(&run, ours);
            assert!(found.output == all.output, "input {alone} alone: another output");
            for (index, (found, expected)) in found.gradients.iter().zip(&all.gradients).enumerate() {
                let expected = expected.as_ref().filter(|_| index == alone);
                assert!(found.as_ref() == expected, "input {alone} alone: another gradient of input {index}");
            }
        }
    }

    /// The output and the gradients of volumes have the volumes' dtype, the gradients of parameters theirs.
    fn assert_dtypes(&self, outcome: &Outcome, half: DType) {
        assert_eq!(outcome.output.dtype(), half, "dtype of the output");
        for (index, gradient) in outcome.gradients.iter().enumerate() {
            let expected = if index < self.volumes.len() { half } else { DType::F32 };
            assert_eq!(gradient.as_ref().expect("a gradient").dtype(), expected, "dtype of gradient {index}");
        }
    }

    fn run(&self, run: &Run, operation: &impl Operation) -> Outcome {
        let mut indices = 0..;
        let mut index = || indices.next().expect("there is always one more");
        let (volumes, parameters) = ([run.stored, run.volumes], [DType::F32, run.parameters]);
        let volumes: Vec<_> = self.volumes.iter().map(|dims| run.leaf(index(), *dims, volumes)).collect();
        let kernels: Vec<_> = self.kernels.iter().map(|dims| run.leaf(index(), *dims, parameters)).collect();
        let vectors: Vec<_> = self.vectors.iter().map(|length| run.leaf(index(), [*length], parameters)).collect();

        let inputs = (volumes.clone(), kernels.clone(), vectors.clone());
        let output = run.mode.output(inputs, operation.clone());
        let mut gradients = backward(run.mode.weighted_sum(output.clone()));
        let volumes = volumes.iter().chain(&kernels).map(|tensor| gradients.take(tensor).map(Tensor::into_data));
        let mut taken: Vec<_> = volumes.collect();
        taken.extend(vectors.iter().map(|tensor| gradients.take(tensor).map(Tensor::into_data)));
        Outcome { output: output.into_data(), gradients: taken }
    }
}

impl Mode {
    fn output(self, inputs: Inputs, operation: impl Operation) -> Tensor<5> {
        let (volumes, kernels, vectors) = inputs;
        match self {
            Self::Direct => operation((volumes, kernels, vectors)),
            Self::Recomputed => {
                // Results of an operation: their gradients go through gates, those of the leaves do not.
                let volumes: Vec<_> = volumes.into_iter().map(|volume| volume * 1.0).collect();
                let nothing: Vec<burn::nn::Linear> = Vec::new();
                recompute(&nothing, (volumes, kernels, vectors), move |_, inputs| operation(inputs))
            }
            Self::Views => {
                let volumes = volumes.into_iter().map(|volume| {
                    let width = volume.dims()[4];
                    volume.pad([(0, 0), (0, 0), (0, 0), (0, 0), (1, 2)], 0.0f32).narrow(4, 1, width)
                });
                operation((volumes.collect(), kernels, vectors))
            }
        }
    }

    /// `sum(weights * output)` in float64 where the device has it, with random weights that every dtype holds.
    fn weighted_sum(self, output: Tensor<5>) -> Tensor<1> {
        let dims = output.dims();
        let weights = TensorData::new(values(99, dims.iter().product()), dims);
        let device = output.device();
        let precise = if device.supports_dtype(DType::F64) { DType::F64 } else { DType::F32 };
        let weights = weights.convert_dtype(DType::BF16).convert_dtype(precise);
        let weights = Tensor::<5>::from_data(weights, (&device, precise));
        let (output, weights) = match self {
            Self::Views => (output.swap_dims(2, 4), weights.swap_dims(2, 4)),
            _ => (output, weights),
        };
        (output.cast(precise) * weights).sum()
    }
}

/// Values in -1 to 1, a stream for each input.
fn values(stream: u64, length: usize) -> Vec<f64> {
    let mut random = StdRng::seed_from_u64(stream);
    (0..length).map(|_| random.random_range(-1.0..1.0)).collect()
}

fn assert_close(found: &Outcome, expected: &Outcome, tolerance: f64, what: &str) {
    let error = difference(&found.output, &expected.output) / length(&expected.output).max(f64::MIN_POSITIVE);
    assert!(error <= tolerance, "{what}: output off by {error:.1e}");
    assert_eq!(found.gradients.len(), expected.gradients.len());
    // Each element of a vector's gradient is a sum over a volume, which may come out at nearly nothing by chance.
    let typical = (expected.output.num_elements() as f64 / 3.0).sqrt();
    for (index, (found, expected)) in found.gradients.iter().zip(&expected.gradients).enumerate() {
        let (found, expected) = (found.as_ref().expect("a gradient"), expected.as_ref().expect("a gradient"));
        let least = if expected.shape().num_dims() == 1 { 0.1 * typical } else { f64::MIN_POSITIVE };
        let error = difference(found, expected) / length(expected).max(least);
        assert!(error <= tolerance, "{what}: gradient of input {index} off by {error:.1e}");
    }
}

fn length(values: &TensorData) -> f64 {
    values.iter::<f64>().map(|value| value.powi(2)).sum::<f64>().sqrt()
}

fn difference(found: &TensorData, expected: &TensorData) -> f64 {
    assert_eq!(found.shape(), expected.shape());
    found.iter::<f64>().zip(expected.iter::<f64>()).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}
