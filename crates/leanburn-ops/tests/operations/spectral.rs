//! Spectral convolution: against its definition by dense matrices, and against NumPy's FFT.

use std::f64::consts::TAU;

use burn::prelude::*;
use burn::tensor::{DType, TensorData};
use leanburn_ops::{Activation, Convolution, Pointwise, SpectralWeights, backward, spectral_conv};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::case::{Case, Inputs};
use crate::plain;

/// A spectral convolution without its tensors.
#[derive(Clone, Copy, Debug)]
pub struct Spectral {
    /// Of the input.
    pub dims: [usize; 5],
    pub channels_out: usize,
    /// Of the output.
    pub size: [usize; 3],
    /// Frequencies of both signs along depth and height, and from zero along the width.
    pub modes: [usize; 3],
    pub activation: Activation,
    pub is_beside_pointwise: bool,
}

impl Spectral {
    fn new(dims: [usize; 5], channels_out: usize, modes: [usize; 3]) -> Self {
        let [_, _, size @ ..] = dims;
        Self { dims, channels_out, size, modes, activation: Activation::None, is_beside_pointwise: false }
    }

    /// As a layer of a neural operator.
    pub fn layer(self, activation: Activation) -> Self {
        Self { activation, is_beside_pointwise: true, ..self }
    }

    fn to(self, size: [usize; 3]) -> Self {
        Self { size, ..self }
    }

    fn frequencies(&self) -> [Vec<i32>; 3] {
        [0, 1, 2].map(|axis| {
            let modes = self.modes[axis] as i32;
            let negative = if axis < 2 && modes > 1 { -modes } else { 0 };
            (0..modes).chain(negative..0).collect()
        })
    }

    fn kept(&self) -> [usize; 3] {
        self.frequencies().map(|frequencies| frequencies.len())
    }

    fn values(&self) -> [usize; 6] {
        let [depth, height, width] = self.kept();
        [2, self.dims[1], self.channels_out, depth, height, width]
    }

    pub fn case(&self) -> Case {
        let [_, channels_in, ..] = self.dims;
        let values = [2, channels_in, self.channels_out, 1, self.kept().iter().product()];
        let pointwise = self.is_beside_pointwise.then_some([self.channels_out, channels_in, 1, 1, 1]);
        Case {
            volumes: vec![self.dims],
            kernels: [values].into_iter().chain(pointwise).collect(),
            vectors: pointwise.iter().map(|weight| weight[0]).collect(),
            ..Case::default()
        }
    }

    pub fn run(&self, (volumes, kernels, vectors): Inputs) -> Tensor<5> {
        let values = kernels[0].clone().reshape(self.values());
        let weights = SpectralWeights { values, frequencies: self.frequencies(), size: self.size };
        let pointwise =
            kernels.get(1).map(|weight| Pointwise { weight: weight.clone(), bias: vectors.first().cloned() });
        spectral_conv(volumes[0].clone(), self.activation, weights, pointwise)
    }

    /// The waves of the frequencies on a grid times a factor: cosines and sines, `[frequencies, positions]`.
    fn waves(&self, size: [usize; 3], factor: f64, like: &Tensor<5>) -> [Tensor<2>; 2] {
        let frequencies = self.frequencies();
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for k in grid(self.kept()) {
            for n in grid(size) {
                let turns: f64 =
                    (0..3).map(|axis| f64::from(frequencies[axis][k[axis]]) * n[axis] as f64 / size[axis] as f64).sum();
                cos.push(factor * (TAU * turns).cos());
                sin.push(factor * (TAU * turns).sin());
            }
        }
        let dims: [usize; 2] = [self.kept().iter().product(), size.iter().product()];
        [cos, sin].map(|values| Tensor::from_data(TensorData::new(values, dims), (&like.device(), like.dtype())))
    }

    /// The definition, for sizes that have every frequency.
    fn run_plain(&self, (volumes, kernels, vectors): Inputs) -> Tensor<5> {
        let x = plain::activate(volumes[0].clone(), self.activation);
        let ([batch_size, channels_in, ..], channels_out) = (self.dims, self.channels_out);
        let [positions, modes] = [&self.dims[2..], &self.kept()[..]].map(|sizes| sizes.iter().product::<usize>());
        let [cos, sin] = self.waves([self.dims[2], self.dims[3], self.dims[4]], 1.0 / positions as f64, &x);
        let rows = x.clone().reshape([batch_size * channels_in, positions]);
        let [real, imaginary] = [cos, sin.neg()]
            .map(|waves| rows.clone().matmul(waves.transpose()).reshape([batch_size, channels_in, 1, modes]));
        let [r_real, r_imaginary] =
            [0, 1].map(|part| kernels[0].clone().narrow(0, part, 1).reshape([1, channels_in, channels_out, modes]));
        let sum =
            |products: Tensor<4>| -> Tensor<2> { products.sum_dim(1).reshape([batch_size * channels_out, modes]) };
        let y_real = sum(real.clone() * r_real.clone() - imaginary.clone() * r_imaginary.clone());
        let y_imaginary = sum(real * r_imaginary + imaginary * r_real);
        // The waves that the conjugates belong to, too.
        let twice: Vec<f64> =
            grid(self.kept()).map(|[_, _, k]| if k == 0 || 2 * k == self.size[2] { 1.0 } else { 2.0 }).collect();
        let twice = Tensor::<2>::from_data(TensorData::new(twice, [1, modes]), (&x.device(), x.dtype()));
        let [cos, sin] = self.waves(self.size, 1.0, &x);
        let y = (y_real * twice.clone()).matmul(cos) - (y_imaginary * twice).matmul(sin);
        let y = y.reshape([batch_size, channels_out, self.size[0], self.size[1], self.size[2]]);
        match kernels.get(1) {
            None => y,
            Some(weight) => {
                let options = burn::tensor::ops::ConvOptions::new([1; 3], [0; 3], [1; 3], 1);
                let convolution = Convolution { weight: weight.clone(), bias: vectors.first().cloned(), options };
                y + plain::conv3d(x, convolution)
            }
        }
    }

    fn check(self) {
        self.case().check(move |inputs| self.run(inputs), move |inputs| self.run_plain(inputs));
    }
}

fn grid([a, b, c]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| [i, j, k])))
}

#[test]
fn spectral_conv_in_one_dimension() {
    Spectral::new([2, 3, 1, 1, 16], 2, [1, 1, 5]).check();
    Spectral::new([1, 2, 1, 1, 13], 3, [1, 1, 7]).to([1, 1, 20]).check();
}

#[test]
fn spectral_conv_in_two_dimensions_as_a_layer() {
    Spectral::new([2, 3, 1, 9, 14], 4, [1, 3, 5]).layer(Activation::Gelu).check();
    Spectral::new([1, 2, 1, 7, 8], 3, [1, 2, 4]).layer(Activation::None).check();
}

#[test]
fn spectral_conv_in_three_dimensions() {
    Spectral::new([1, 3, 5, 6, 7], 2, [2, 2, 3]).to([4, 8, 6]).check();
    Spectral::new([2, 2, 4, 5, 8], 2, [2, 2, 4]).layer(Activation::Silu).check();
}

fn values(seed: u64, len: usize) -> Vec<f64> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..len).map(|_| random.random_range(-1.0..1.0)).collect()
}

/// What `fixtures/make_spectral_conv.py` computes from.
fn formula(len: usize) -> Vec<f64> {
    (0..len).map(|index| index as f64).map(|index| (1.0 + 0.7 * index).sin() + 0.3 * (2.9 * index).cos()).collect()
}

/// A case of the fixture, and its output.
#[derive(serde::Deserialize)]
struct Known {
    dims: [usize; 5],
    channels_out: usize,
    size: [usize; 3],
    modes: [usize; 3],
    output: Vec<f64>,
}

/// That of NumPy, in float64: powers of two, odd and prime lengths, every frequency of an even axis, and another grid.
#[test]
fn spectral_conv_equals_an_fft_library() {
    let cases: Vec<Known> = serde_json::from_str(include_str!("../fixtures/spectral_conv.json")).unwrap();
    assert_eq!(cases.len(), 7);
    for Known { dims, channels_out, size, modes, output: expected } in cases {
        let spectral = Spectral::new(dims, channels_out, modes).to(size);
        for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F64, 1e-8)] {
            let tensor = |dims: [usize; 5]| {
                let data = TensorData::new(formula(dims.iter().product()), dims);
                Tensor::<5>::from_data(data, (&Device::flex(), dtype))
            };
            let inputs = (vec![tensor(dims)], vec![tensor(spectral.case().kernels[0])], Vec::new());
            let found: Vec<f64> = spectral.run(inputs).into_data().iter().collect();
            let largest = expected.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
            assert_eq!(found.len(), expected.len());
            let error = found.iter().zip(&expected).fold(0.0f64, |error, (a, b)| error.max((a - b).abs())) / largest;
            assert!(error < tolerance, "{dtype:?} {spectral:?}: {error:e}");
        }
    }
}

/// `<S x, g> = <x, S^T g>`, with the transpose that backward takes.
#[test]
fn backward_of_spectral_conv_is_the_transpose() {
    let spectral = Spectral::new([2, 4, 6, 10, 15], 3, [2, 3, 5]).to([8, 9, 20]);
    let device = Device::flex().autodiff();
    let tensor = |seed, dims: [usize; 5]| {
        Tensor::<5>::from_data(TensorData::new(values(seed, dims.iter().product()), dims), (&device, DType::F32))
    };
    let x = tensor(1, spectral.dims).require_grad();
    let y = spectral.run((vec![x.clone()], vec![tensor(2, spectral.case().kernels[0])], Vec::new()));
    // Near the output, so that the products do not cancel.
    let g = y.clone().detach() + tensor(3, y.dims()) * 0.1;
    let gradient = backward((y.clone() * g.clone()).sum()).take(&x).unwrap();
    let inner = |a: Tensor<5>, b: Tensor<5>| -> f64 {
        a.into_data().iter::<f64>().zip(b.into_data().iter::<f64>()).map(|(a, b)| a * b).sum()
    };
    let (forward, backward) = (inner(y, g), inner(x.inner(), gradient));
    assert!((forward / backward - 1.0).abs() < 1e-6, "{forward} {backward}");
}

/// The same weights on a finer grid give the same function, for waves that both grids have.
#[test]
fn spectral_conv_does_not_depend_on_the_grid() {
    let wave = |n: usize| {
        let place = |index: usize| TAU * index as f64 / n as f64;
        let values: Vec<f64> =
            grid([1, n, n]).map(|[_, y, x]| (2.0 * place(x) - place(y)).cos() + place(x).sin()).collect();
        Tensor::<5>::from_data(TensorData::new(values, [1, 1, 1, n, n]), (&Device::flex(), DType::F32))
    };
    let run = |n: usize| {
        let spectral = Spectral::new([1, 1, 1, n, n], 2, [1, 3, 4]);
        let [_, i, o, d, h, w] = spectral.values();
        let kernel = TensorData::new(values(5, 2 * i * o * d * h * w), [2, i, o, 1, d * h * w]);
        spectral.run((vec![wave(n)], vec![Tensor::from_data(kernel, (&Device::flex(), DType::F32))], Vec::new()))
    };
    let (coarse, fine) = (run(8), run(24));
    let every_third = Tensor::<1, Int>::from_data(TensorData::from([0i32, 3, 6, 9, 12, 15, 18, 21]), &Device::flex());
    let fine = fine.select(3, every_third.clone()).select(4, every_third);
    let error: f64 = (coarse - fine).abs().max().into_data().iter::<f64>().sum();
    assert!(error < 1e-5, "{error:e}");
}
