//! Fine fields: out of noise, or what a network gives at once.

use burn::tensor::{Device, Tensor, TensorData};
use leanburn_data::Window;
use leanburn_nn::diffusion::{Ddpm, Sampler};
use leanburn_nn::models::Sr3UNet;
use leanburn_ops::random;
use leanburn_train::Precision;

use super::model::SuperResolver;
use super::section::SuperResolutionSection;
use super::workload::{FieldNoise, SuperResolutionWorkload, enlarged, planes, predict, refine};

impl SuperResolutionSection {
    /// The fine fields of a window by the trained weights: of a diffusion model as many samples, in as many steps, as validations make,
    /// decided by the seed alone; of others the one that they give.
    pub(super) fn fine_fields(
        &self,
        (workload, trained): (&SuperResolutionWorkload, &SuperResolver),
        window: &Window,
        seed: u64,
        device: &Device,
    ) -> Vec<Vec<f32>> {
        let [days, channels, height, width] = window.input_shape;
        let coarse = TensorData::new(window.input.clone(), [1, days, channels, height, width]);
        let coarse = planes(Tensor::from_data(coarse, device));
        let fields = match (trained, workload.noise()) {
            (SuperResolver::Diffusion(unet), Some(noise)) => {
                let condition = enlarged(coarse, self.fine([height, width]));
                random::scoped(|| {
                    random::seed(device, seed);
                    self.sample((unet, workload.precision()), noise, condition)
                })
            }
            _ => refine(trained, workload.precision(), coarse),
        };
        let [count, _, _, height, width] = fields.dims();
        let values: Vec<f32> = fields.into_data().convert::<f32>().try_to_vec().expect("the values were just made f32");
        values.chunks_exact(height * width).take(count).map(<[f32]>::to_vec).collect()
    }

    /// Samples `[num_samples, 1, 1, height, width]` for a condition `[1, channels, 1, height, width]`, all together.
    fn sample(&self, unet: (&Sr3UNet, Precision), noise: &FieldNoise, condition: Tensor<5>) -> Tensor<5> {
        let (objective, device) = (&self.training.objective, condition.device());
        let ([_, _, _, height, width], count) = (condition.dims(), objective.num_samples);
        let condition = condition.repeat_dim(0, count);
        let mut network = |noisy: Tensor<5>, time: f64| {
            predict(unet.0, unet.1, [condition.clone(), noisy], noise.told(time, count, &device))
        };
        let start = random::normal([count, 1, 1, height, width], &device);
        let mut draw = |like: &Tensor<5>| random::normal(like.dims(), &like.device());
        let sampler = Ddpm::new(noise.process.clone(), objective.num_inference_steps);
        sampler.sample_with(start, &mut network, &mut draw)
    }
}

/// The mean of fields.
pub(super) fn mean(fields: &[Vec<f32>]) -> Vec<f32> {
    let values = fields.first().map_or(0, Vec::len);
    let sum = |at: usize| fields.iter().map(|field| f64::from(field[at])).sum::<f64>();
    (0..values).map(|at| (sum(at) / fields.len() as f64) as f32).collect()
}
