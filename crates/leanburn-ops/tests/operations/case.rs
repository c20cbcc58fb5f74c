//! One operation on inputs of given shapes, in all the ways that must agree.

use burn::prelude::*;
use burn::tensor::{DType, TensorData};
use leanburn_ops::{backward, recompute};
use proptest::test_runner::{Config, RngSeed};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Volumes, kernels of convolutions, and vectors (scales, shifts, biases).
pub type Inputs = (Vec<Tensor<5>>, Vec<Tensor<5>>, Vec<Tensor<1>>);

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
    way: Way,
    /// Which inputs have a gradient; all of them if none is named.
    tracked: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Direct,
    /// In a segment that runs again in backward.
    Recomputed,
    /// Volumes, and the gradient of the output, are not contiguous.
    Views,
}

impl Run {
    fn new(stored: DType, volumes: DType, parameters: DType) -> Self {
        Self { stored, volumes, parameters, way: Way::Direct, tracked: None }
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
    pub fn check<F, G>(&self, ours: F, plain: G)
    where
        F: Fn(Inputs) -> Tensor<5> + Clone + Send + Sync + 'static,
        G: Fn(Inputs) -> Tensor<5> + Clone + Send + Sync + 'static,
    {
        use DType::{BF16, F16, F32, F64};
        let single = self.run(&Run::new(F32, F32, F32), &ours);
        assert_close(&single, &self.run(&Run::new(F32, F64, F64), &plain), 1e-5, "float32");
        let exact = if self.single_precision_constants { 1e-7 } else { 1e-10 };
        let double = self.run(&Run::new(F32, F64, F64), &ours);
        assert_close(&double, &self.run(&Run::new(F32, F64, F64), &plain), exact, "float64");
        for (half, tolerance) in [(BF16, 2f64.powi(-8)), (F16, 2f64.powi(-10))] {
            let rounded = self.run(&Run::new(half, half, F32), &ours);
            self.assert_dtypes(&rounded, half);
            assert_close(&rounded, &self.run(&Run::new(half, F64, F64), &plain), tolerance, &format!("{half:?}"));
        }
        for way in [Way::Recomputed, Way::Views] {
            let other = self.run(&Run { way, ..Run::new(F32, F32, F32) }, &ours);
            assert!(other == single, "{way:?} differs from the direct way");
        }
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool of threads");
            let other = pool.install(|| self.run(&Run::new(F32, F32, F32), &ours));
            assert!(other == single, "{threads} threads give other results");
        }
        self.check_frozen(&single, &ours);
    }

    /// Each input alone has the gradient that it has among the others, and the others have none.
    fn check_frozen<F>(&self, all: &Outcome, ours: &F)
    where
        F: Fn(Inputs) -> Tensor<5> + Clone + Send + Sync + 'static,
    {
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

    fn run<F>(&self, run: &Run, operation: &F) -> Outcome
    where
        F: Fn(Inputs) -> Tensor<5> + Clone + Send + Sync + 'static,
    {
        let device = Device::flex().autodiff();
        let mut count = 0;
        // The next input, rounded to `stored`.
        let mut leaf = |dims: &[usize], stored: DType, dtype: DType| {
            let values = TensorData::new(values(count, dims.iter().product()), dims.to_vec());
            count += 1;
            (values.convert_dtype(stored).convert_dtype(dtype), run.tracked.is_none_or(|tracked| tracked + 1 == count as usize))
        };
        let volumes: Vec<_> = self.volumes.iter().map(|dims| {
            let (data, tracked) = leaf(dims, run.stored, run.volumes);
            Tensor::<5>::from_data(data, (&device, run.volumes)).set_require_grad(tracked)
        }).collect();
        let kernels: Vec<_> = self.kernels.iter().map(|dims| {
            let (data, tracked) = leaf(dims, DType::F32, run.parameters);
            Tensor::<5>::from_data(data, (&device, run.parameters)).set_require_grad(tracked)
        }).collect();
        let vectors: Vec<_> = self.vectors.iter().map(|length| {
            let (data, tracked) = leaf(&[*length], DType::F32, run.parameters);
            Tensor::<1>::from_data(data, (&device, run.parameters)).set_require_grad(tracked)
        }).collect();

        let inputs = (volumes.clone(), kernels.clone(), vectors.clone());
        let output = run.way.output(inputs, operation.clone());
        let mut gradients = backward(run.way.weighted_sum(output.clone()));
        let volumes = volumes.iter().chain(&kernels).map(|tensor| gradients.take(tensor).map(Tensor::into_data));
        let mut taken: Vec<_> = volumes.collect();
        taken.extend(vectors.iter().map(|tensor| gradients.take(tensor).map(Tensor::into_data)));
        Outcome { output: output.into_data(), gradients: taken }
    }
}

impl Way {
    fn output<F>(self, inputs: Inputs, operation: F) -> Tensor<5>
    where
        F: Fn(Inputs) -> Tensor<5> + Send + Sync + 'static,
    {
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

    /// `sum(weights * output)` in float64, with random weights that every dtype holds.
    fn weighted_sum(self, output: Tensor<5>) -> Tensor<1> {
        let dims = output.dims();
        let weights = TensorData::new(values(99, dims.iter().product()), dims);
        let weights = weights.convert_dtype(DType::BF16).convert_dtype(DType::F64);
        let weights = Tensor::<5>::from_data(weights, (&output.device(), DType::F64));
        let (output, weights) = match self {
            Self::Views => (output.swap_dims(2, 4), weights.swap_dims(2, 4)),
            _ => (output, weights),
        };
        (output.cast(DType::F64) * weights).sum()
    }
}

/// Values in -1 to 1, a stream for each input.
fn values(stream: u64, length: usize) -> Vec<f64> {
    let mut random = StdRng::seed_from_u64(stream);
    (0..length).map(|_| random.random_range(-1.0..1.0)).collect()
}

fn assert_close(found: &Outcome, expected: &Outcome, tolerance: f64, what: &str) {
    let error = relative_error(&found.output, &expected.output);
    assert!(error <= tolerance, "{what}: output off by {error:.1e}");
    assert_eq!(found.gradients.len(), expected.gradients.len());
    for (index, (found, expected)) in found.gradients.iter().zip(&expected.gradients).enumerate() {
        let (found, expected) = (found.as_ref().expect("a gradient"), expected.as_ref().expect("a gradient"));
        let error = relative_error(found, expected);
        assert!(error <= tolerance, "{what}: gradient of input {index} off by {error:.1e}");
    }
}

/// `|found - expected| / |expected|`.
fn relative_error(found: &TensorData, expected: &TensorData) -> f64 {
    assert_eq!(found.shape(), expected.shape());
    let norm = |squares: f64| squares.sqrt();
    let difference: f64 = found.iter::<f64>().zip(expected.iter::<f64>()).map(|(a, b)| (a - b).powi(2)).sum();
    let length: f64 = expected.iter::<f64>().map(|value| value.powi(2)).sum();
    norm(difference) / norm(length).max(f64::MIN_POSITIVE)
}
