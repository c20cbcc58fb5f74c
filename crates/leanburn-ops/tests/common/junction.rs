//! A segment of two inputs, whole and in stages: a transposed convolution of each into one sum, a norm over the batch with a learned slope
//! in front of two convolutions, and a slope without a norm in front of a third.
#![allow(dead_code)] // each test binary uses a part

use std::sync::{Arc, Mutex};

use burn::prelude::*;
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use burn::tensor::{DType, TensorData};
use leanburn_ops::{
    Convolution, StageEntry, Stages, StreamSettings, backward, conv_transpose3d, conv3d, random, stream,
};

const EPSILON: f64 = 1e-5;

/// Inputs and parameters.
pub struct Junction {
    skip: Tensor<5>,
    below: Tensor<5>,
    up: [Tensor<5>; 2],
    weights: [Tensor<5>; 3],
    scale: Tensor<1>,
    shift: Tensor<1>,
    bias: Tensor<1>,
    slopes: [Tensor<1>; 2],
}

/// What it makes, and mean and variance of each channel of the batch.
pub struct Made {
    pub output: Tensor<5>,
    pub statistics: Vec<Tensor<1>>,
}

impl Junction {
    /// With inputs of `[batch_size, .., depth, height, width]`, of `channels` and twice as many; the output has twice as many too, and
    /// twice the size along each axis. Drawn from the [seed](random::seed) of the thread.
    pub fn new([batch_size, depth, height, width]: [usize; 4], channels: usize, dtype: DType, device: &Device) -> Self {
        fn leaf<const D: usize>(dims: [usize; D], dtype: DType, device: &Device) -> Tensor<D> {
            (random::normal(dims, device) * 0.4 + 0.1).cast(dtype).detach().require_grad()
        }
        let wide = 2 * channels;
        let volume = |channels| leaf([batch_size, channels, depth, height, width], dtype, device);
        let vector = || leaf([wide], dtype, device);
        Self {
            skip: volume(channels),
            below: volume(wide),
            up: [channels, wide].map(|channels| leaf([channels, wide, 3, 3, 3], dtype, device)),
            weights: [3, 1, 3].map(|kernel| leaf([wide, wide, kernel, kernel, kernel], dtype, device)),
            scale: vector(),
            shift: vector(),
            bias: vector(),
            slopes: [0.3, -0.2].map(|slope| Tensor::<1>::full([1], slope, (device, dtype)).require_grad()),
        }
    }

    /// The convolution of this number.
    fn convolution(&self, index: usize) -> Convolution {
        let weight = self.weights[index].clone();
        let padding = weight.dims()[2] / 2;
        let options = ConvOptions::new([1; 3], [padding; 3], [1; 3], 1);
        Convolution { weight, bias: (index == 0).then(|| self.bias.clone()), options }
    }

    fn transposed() -> ConvTransposeOptions<3> {
        ConvTransposeOptions::new([2; 3], [1; 3], [1; 3], [1; 3], 1)
    }

    /// Plain, or streamed.
    pub fn run(&self, streamed: Option<StreamSettings>) -> Made {
        let inputs = (self.skip.clone() * 1.5, self.below.clone() * 0.5); // no leaves
        match streamed {
            None => self.plain(inputs),
            Some(settings) => self.streamed(inputs, settings),
        }
    }

    fn plain(&self, (skip, below): (Tensor<5>, Tensor<5>)) -> Made {
        let up = |x, index: usize, bias| conv_transpose3d(x, self.up[index].clone(), bias, Self::transposed());
        let u = up(skip, 0, Some(self.shift.clone())) + up(below, 1, None);
        let over_batch = |x: Tensor<5>| [0, 2, 3, 4].into_iter().fold(x, |x, axis| x.mean_dim(axis));
        let mean = over_batch(u.clone());
        let centred = u - mean.clone();
        let variance = over_batch(centred.clone().square());
        let of_channels = |values: &Tensor<1>| values.clone().reshape([1, -1, 1, 1, 1]);
        let norm = centred / (variance.clone() + EPSILON).sqrt() * of_channels(&self.scale) + of_channels(&self.shift);
        let prelu = |x: Tensor<5>, slope: &Tensor<1>| {
            x.clone().clamp_min(0.0) + x.clamp_max(0.0) * slope.clone().reshape([1; 5])
        };
        let n = prelu(norm, &self.slopes[0]);
        let h = conv3d(n.clone(), self.convolution(0)) + conv3d(n, self.convolution(1));
        let output = conv3d(prelu(h, &self.slopes[1]), self.convolution(2));
        Made { output, statistics: vec![mean.reshape([-1]), variance.reshape([-1])] }
    }

    fn streamed(&self, inputs: (Tensor<5>, Tensor<5>), settings: StreamSettings) -> Made {
        let mut stages = Stages::of_inputs(2);
        let [skip, below] = [0, 1].map(|index| stages.inputs().nth(index).unwrap());
        let of_below = stages.conv_transpose3d(below, self.up[1].clone(), None, Self::transposed(), None);
        let shift = Some(self.shift.clone());
        let u = stages.conv_transpose3d(skip, self.up[0].clone(), shift, Self::transposed(), Some(of_below));
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener = told.clone();
        let [batch_size, _, depth, height, width] = self.skip.dims();
        let values = batch_size * 8 * depth * height * width;
        let entry = StageEntry::default().with_slope(self.slopes[0].clone());
        let entry =
            entry.with_batch_norm(EPSILON, self.scale.clone(), self.shift.clone(), move |mean, variance, count| {
                assert_eq!(count, values, "values of a channel");
                listener.lock().unwrap().extend([mean, variance]);
            });
        let shortcut = stages.entry_conv3d(u, entry.clone(), self.convolution(1), None);
        let h = stages.entry_conv3d(u, entry, self.convolution(0), Some(shortcut));
        stages.entry_conv3d(h, StageEntry::default().with_slope(self.slopes[1].clone()), self.convolution(2), None);
        let output = stream(inputs, stages, settings);
        let statistics = std::mem::take(&mut *told.lock().unwrap());
        Made { output, statistics }
    }

    /// The output, the gradients of inputs and parameters of a loss that depends on every voxel, and the statistics of the batch.
    pub fn outcome(&self, streamed: Option<StreamSettings>) -> Vec<TensorData> {
        let Made { output, statistics } = self.run(streamed);
        let mut all = vec![output.clone().into_data()];
        let mut gradients = backward((output.clone() * output.clone() * output).mean());
        let volumes = [&self.skip, &self.below].into_iter().chain(&self.up).chain(&self.weights);
        all.extend(volumes.map(|volume| gradients.take(volume).expect("a gradient").into_data()));
        let vectors = [&self.scale, &self.shift, &self.bias].into_iter().chain(&self.slopes);
        all.extend(vectors.map(|vector| gradients.take(vector).expect("a gradient").into_data()));
        all.extend(statistics.into_iter().map(Tensor::into_data));
        all
    }
}
