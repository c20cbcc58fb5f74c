//! Training steps of the U-Net of a latent diffusion model; the same as `pytorch/diffusion_step.py`.

use burn::tensor::{Device, Tensor};
use clap::Args;
use leanburn::nn::losses::l2_loss;
use leanburn::nn::models::{DiffusionConditions, DiffusionUNet3dConfig};

use crate::training_step::{Subject, Training};
use crate::values::{norm_num_groups, tensor};

#[derive(Args)]
pub struct Arguments {
    /// Voxels of the latent along depth, height and width.
    #[arg(long, num_args = 3, required = true)]
    shape: Vec<usize>,
    /// Channels of the latent.
    #[arg(long)]
    latent_channels: usize,
    /// Channels of each level, the finest first.
    #[arg(long, num_args = 1.., required = true)]
    channels: Vec<usize>,
    /// Channels of an attention head.
    #[arg(long)]
    head_channels: usize,
    /// The finest level with attention; 0 is the finest of all.
    #[arg(long)]
    attention_from: usize,
    #[command(flatten)]
    training: Training,
}

/// The time of the noisy latent.
const TIME: f32 = 500.0;

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let training = &arguments.training;
    let device = Device::flex().autodiff();
    let config = config(arguments);
    let [depth, height, width] = arguments.shape[..] else { unreachable!("clap takes three") };
    let latent = [1, arguments.latent_channels, depth, height, width];
    config.check_input(latent)?;
    let [x, noise] = [7, 17].map(|salt| tensor(latent, salt, 1.0, &device));
    let model = config.init(&device).with_residency(training.residency());
    let subject = Subject { name: "diffusion", model, mode: training.mode(), burn: false };
    training.steps(subject, |model| {
        let times = Tensor::from_floats([TIME], &device);
        let prediction = model.forward(training.precision().cast(x.clone()), times, DiffusionConditions::default());
        l2_loss(prediction, noise.clone()).into()
    })
}

fn config(arguments: &Arguments) -> DiffusionUNet3dConfig {
    let (levels, latent) = (arguments.channels.len(), arguments.latent_channels);
    let attention = (0..levels).map(|level| level >= arguments.attention_from).collect();
    DiffusionUNet3dConfig::new(latent, latent, arguments.channels.clone(), vec![1; levels], attention)
        .with_norm_num_groups(norm_num_groups(&arguments.channels))
        .with_num_head_channels(vec![arguments.head_channels])
}
