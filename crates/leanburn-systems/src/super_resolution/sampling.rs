//! Fine fields out of noise.

use burn::tensor::{Device, Tensor, TensorData};
use leanburn_data::Window;
use leanburn_nn::diffusion::{Ddpm, Sampler};
use leanburn_nn::models::Sr3UNet;
use leanburn_ops::random;
use leanburn_train::MainModel;

use super::section::SuperResolutionSection;
use super::workload::{SuperResolutionWorkload, enlarged, predict};

impl SuperResolutionSection {
    /// Samples of the fine field of a window, one after the other: as many and in as many steps as validations make. The seed alone decides
    /// them.
    pub(super) fn samples(
        &self,
        workload: &SuperResolutionWorkload,
        unet: &Sr3UNet,
        window: &Window,
        seed: u64,
        device: &Device,
    ) -> Vec<Vec<f32>> {
        let [days, channels, height, width] = window.input_shape;
        let coarse = TensorData::new(window.input.clone(), [1, days, channels, height, width]);
        let [height, width] = self.fine([height, width]);
        let condition = enlarged(Tensor::from_data(coarse, device), [height, width]);
        let (noise, objective) = (workload.noise(), &self.training.objective);
        let sampler = Ddpm::new(noise.process.clone(), objective.num_inference_steps);
        let mut network = |noisy: Tensor<5>, time: f64| {
            let told = noise.told(time, 1, device);
            predict(unet, workload.precision(), [condition.clone(), noisy], told)
        };
        let mut sample = |number: usize| {
            random::seed(device, random::derive(seed, &[number as u64]));
            let start = random::normal([1, 1, 1, height, width], device);
            let mut draw = |like: &Tensor<5>| random::normal(like.dims(), &like.device());
            let sample = sampler.sample_with(start, &mut network, &mut draw);
            sample.into_data().convert::<f32>().try_to_vec().expect("the values were just made f32")
        };
        random::scoped(|| (0..objective.num_samples).map(&mut sample).collect())
    }

    /// The weights that samples are made with, without autodiff.
    pub(super) fn trained(workload: &SuperResolutionWorkload) -> Sr3UNet {
        workload.model().trained()
    }
}

/// The mean of samples.
pub(super) fn mean(samples: &[Vec<f32>]) -> Vec<f32> {
    let values = samples.first().map_or(0, Vec::len);
    let sum = |at: usize| samples.iter().map(|sample| f64::from(sample[at])).sum::<f64>();
    (0..values).map(|at| (sum(at) / samples.len() as f64) as f32).collect()
}
