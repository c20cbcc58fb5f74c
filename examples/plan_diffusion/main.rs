//! What a training step of a latent diffusion model needs: the U-Net of MAISI, 178.6 million weights, on latents of 4x128x128x128, planned
//! for a card of 24 GB with one memory saver after another.
//!
//! ```bash
//! cargo run --release --example plan_diffusion
//! ```

use burn::prelude::*;
use leanburn::nn::diffusion::RectifiedFlow;
use leanburn::nn::losses::l1_loss;
use leanburn::nn::models::DiffusionConditions;
use leanburn::prelude::*;

/// Voxels along each axis of a latent: a volume of 512 along each axis, encoded.
const SIDE: usize = 128;

/// MAISI's U-Net, without its embedding of voxel sizes.
fn config() -> DiffusionUNet3dConfig {
    DiffusionUNet3dConfig::new(4, 4, vec![64, 128, 256, 512], vec![2; 4], vec![false, false, true, true])
        .with_num_head_channels(vec![32])
        .with_resblock_updown(true)
        .with_num_class_embeds(Some(128))
}

/// Training on straight lines between latents and noise.
struct Flow {
    learner: Learner<DiffusionUNet3d>,
    precision: Precision,
}

impl Workload for Flow {
    /// Latents, and their classes.
    type Batch = (Tensor<5>, Tensor<1, Int>);

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.learner]
    }

    fn loss(&mut self, _learner: usize, (latents, classes): &Self::Batch, _position: StepPosition) -> Option<Losses> {
        let device = latents.device();
        let flow = RectifiedFlow::new(1000, 30).with_use_discrete_timesteps(false);
        let noise = leanburn::ops::random::normal(latents.dims(), &device);
        let times = flow.training_times(Default::default(), latents.dims()[0], &device);
        let noisy = flow.add_noise(latents.clone(), noise.clone(), times.clone());
        let conditions = DiffusionConditions { class_labels: Some(classes.clone()), ..DiffusionConditions::default() };
        let velocity = self.learner.module().forward(self.precision.cast(noisy), times, conditions);
        Some(Losses::of(l1_loss(velocity, latents.clone() - noise), Vec::new()))
    }
}

fn trainer(precision: Precision, policy: ResidencyPolicy) -> impl Fn(&Device) -> Result<Trainer<Flow>, TrainError> {
    move |device| {
        let model = config().init(device).with_residency(policy.clone());
        let learner = Learner::new("diffusion", model, LearnerConfig::default())?;
        Ok(Trainer::new(Flow { learner, precision }, TrainerConfig::default(), device))
    }
}

fn batch(device: &Device) -> (Tensor<5>, Tensor<1, Int>) {
    (Tensor::zeros([1, 4, SIDE, SIDE, SIDE], device), Tensor::zeros([1], device))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let card = Planner::card("rtx-4090")?;
    for (name, precision, policy) in [
        ("float32", Precision::F32, ResidencyPolicy::keep()),
        ("float32, recomputed", Precision::F32, ResidencyPolicy::recompute_all()),
        ("bfloat16", Precision::Bf16, ResidencyPolicy::keep()),
        ("bfloat16, recomputed", Precision::Bf16, ResidencyPolicy::recompute_all()),
    ] {
        let plan = card.plan(trainer(precision, policy), batch)?;
        println!("{name}: {plan}");
        if name == "bfloat16, recomputed" {
            for (cause, bytes) in plan.timeline.causes_at(plan.timeline.peak_index()) {
                println!("  {:<40} {bytes:>10}", cause.to_string());
            }
        }
    }
    Ok(())
}
