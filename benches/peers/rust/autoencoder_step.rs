//! Training steps of the KL autoencoder; the same as `pytorch/autoencoder_step.py`.

use burn::tensor::{Device, Tensor};
use clap::{Args, ValueEnum};
use leanburn::nn::losses::{kl_divergence, l1_loss};
use leanburn::prelude::*;

use crate::burn_autoencoder::BurnAutoencoder;
use crate::training_step::{Losses, Subject, Training};
use crate::values::{norm_num_groups, tensor};

/// Of the model in messages.
const NAME: &str = "autoencoder";

#[derive(Args)]
pub struct Arguments {
    /// Voxels along depth, height and width.
    #[arg(long, num_args = 3, required = true)]
    shape: Vec<usize>,
    /// Channels of each level, the finest first.
    #[arg(long, num_args = 1.., required = true)]
    channels: Vec<usize>,
    #[command(flatten)]
    training: Training,
    /// Attention at the last level.
    #[arg(long)]
    attention: bool,
    /// Burn's own layers.
    #[arg(long, conflicts_with = "recompute")]
    burn: bool,
    /// The finest levels in slabs, with these volumes stored whole; everything else recomputed. Joined: all levels but the coarsest.
    #[arg(long, value_enum, conflicts_with_all = ["recompute", "burn"])]
    stream: Option<Keep>,
    /// Planes of a slab.
    #[arg(long, default_value_t = StreamSettings::SLAB_PLANES, requires = "stream")]
    slab_planes: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Keep {
    Two,
    One,
    None,
    Joined,
}

/// From a volume and the noise of its latent: the reconstruction, and mean and deviation of the latent.
type Forward<M> = fn(&M, Tensor<5>, Tensor<5>) -> (Tensor<5>, Tensor<5>, Tensor<5>);

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let training = &arguments.training;
    let device = Device::flex().autodiff();
    let config = config(arguments);
    let volume = [1, 1, arguments.shape[0], arguments.shape[1], arguments.shape[2]];
    config.check_input(volume)?;
    let halvings = arguments.channels.len() - 1;
    let latent = [1, config.latent_channels, volume[2] >> halvings, volume[3] >> halvings, volume[4] >> halvings];
    let (x, noise) = (tensor(volume, 7, 1.0, &device), tensor(latent, 17, 1.0, &device));
    if arguments.burn {
        let model = BurnAutoencoder::new(&config, &device);
        let subject = Subject { name: NAME, model, mode: training.mode(), burn: true };
        return training.steps(subject, |model| losses(training, model, &x, &noise, BurnAutoencoder::forward));
    }
    let (residency, mode) = residency(arguments);
    let subject = Subject { name: NAME, model: config.init(&device).with_residency(residency), mode, burn: false };
    training.steps(subject, |model| losses(training, model, &x, &noise, forward))
}

/// How the segments run, and how the table says it.
fn residency(arguments: &Arguments) -> (ResidencyPolicy, String) {
    let Some(keep) = arguments.stream else { return (arguments.training.residency(), arguments.training.mode()) };
    let keep = match keep {
        Keep::Two => StreamKeep::Two,
        Keep::One => StreamKeep::One,
        Keep::None => StreamKeep::None,
        Keep::Joined => StreamKeep::Joined,
    };
    let settings = StreamSettings::default().with_keep(keep).with_slab_planes(arguments.slab_planes);
    let levels = if keep == StreamKeep::Joined { arguments.channels.len() - 1 } else { 1 };
    let stream =
        |policy: ResidencyPolicy, level| policy.with_rule(format!("*coder.level_{level}"), Residency::Stream(settings));
    (
        (0..levels).fold(ResidencyPolicy::recompute_all(), stream),
        format!("streamed, {keep}, {} planes", settings.slab_planes),
    )
}

fn losses<M>(training: &Training, model: &M, x: &Tensor<5>, noise: &Tensor<5>, forward: Forward<M>) -> Losses {
    let (reconstruction, mean, sigma) = forward(model, training.precision().cast(x.clone()), noise.clone());
    let (l1, kl) = (l1_loss(reconstruction, x.clone()), kl_divergence(mean, sigma));
    Losses { total: l1.clone() + kl.clone() * 1e-6, terms: vec![("kl", kl), ("l1", l1)] }
}

/// [`AutoencoderKl::forward`] with given noise.
fn forward(model: &AutoencoderKl, x: Tensor<5>, noise: Tensor<5>) -> (Tensor<5>, Tensor<5>, Tensor<5>) {
    let (mean, sigma) = model.encode(x);
    let z = mean.clone() + noise.cast(sigma.dtype()) * sigma.clone();
    (model.decode(z), mean, sigma)
}

fn config(arguments: &Arguments) -> AutoencoderKlConfig {
    let levels = arguments.channels.len();
    let mut attention = vec![false; levels];
    attention[levels - 1] = arguments.attention;
    AutoencoderKlConfig::new(arguments.channels.clone(), vec![1; levels], attention)
        .with_norm_num_groups(norm_num_groups(&arguments.channels))
        .with_encoder_nonlocal_attn(false)
        .with_decoder_nonlocal_attn(false)
}
