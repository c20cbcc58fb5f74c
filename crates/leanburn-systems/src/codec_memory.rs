//! A codec within a budget: what a volume needs, and how much of the model has to run in slabs.

use burn::tensor::{Device, Tensor};
use leanburn_common::Bytes;
use leanburn_ops::recording::{mark_step, without_autodiff};
use leanburn_ops::{Residency, ResidencyPolicy, StreamKeep, StreamSettings};
use leanburn_plan::record;
use leanburn_train::planning::Planner;

use crate::codec::{Codec, LatentModel};
use crate::error::{Result, SystemError};

/// What a [`Codec`] does with a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodecTask {
    /// A volume to its reconstruction.
    Reconstruct,
    /// A volume to its latent.
    Encode,
    /// A latent to its volume.
    Decode,
}

impl CodecTask {
    fn run(self, model: &dyn LatentModel, x: Tensor<5>) -> Tensor<5> {
        match self {
            Self::Reconstruct => model.decode(model.encode(x)),
            Self::Encode => model.encode(x),
            Self::Decode => model.decode(x),
        }
    }
}

/// Ways to stream, the fastest first.
const WAYS: [(StreamKeep, usize); 7] = [
    (StreamKeep::Two, 8),
    (StreamKeep::One, 8),
    (StreamKeep::None, 8),
    (StreamKeep::None, 4),
    (StreamKeep::Joined, 4),
    (StreamKeep::Joined, 2),
    (StreamKeep::Joined, 1),
];

impl Codec {
    /// The codec that does `task` with a volume, or a latent, of this extent within a budget: as it is if that fits, else with everything
    /// that can be [streamed](Residency::Stream) in slabs, which gives the same numbers to rounding.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`] with what the smallest takes, if that is more.
    pub fn within(&self, budget: Bytes, task: CodecTask, extent: [usize; 3]) -> Result<Self> {
        let mut smallest = self.needed(task, extent)?;
        if smallest <= budget {
            return Ok(self.with_model(self.model().with_policy(self.model().policy())));
        }
        for (keep, slab_planes) in WAYS {
            let settings = StreamSettings::default().with_keep(keep).with_slab_planes(slab_planes);
            let streamed = self.with_model(self.model().with_policy(streamed(self.model(), settings)));
            let needed = streamed.needed(task, extent)?;
            if needed <= budget {
                return Ok(streamed);
            }
            smallest = smallest.min(needed);
        }
        let [depth, height, width] = extent;
        Err(SystemError::Input {
            subject: "budget".into(),
            expected: format!("at least {smallest} for {depth} x {height} x {width}, streamed"),
            found: budget.to_string(),
            remedy: "go through the volume in patches, such as --patch 64,64,64, or give a larger budget".into(),
        })
    }

    /// The most that the process holds of a volume, or a latent, of this extent while `task` is done, as planned, with a margin: the model,
    /// what it computes, and the volume and the result as they lie in memory.
    ///
    /// # Errors
    ///
    /// If the model cannot be recorded.
    pub fn needed(&self, task: CodecTask, extent: [usize; 3]) -> Result<Bytes> {
        let planner = Planner::on(self.device());
        let shape = self.shape();
        let (channels, scales) = match task {
            CodecTask::Decode => (shape.latent_channels, [1; 3]),
            CodecTask::Reconstruct | CodecTask::Encode => (shape.in_channels, shape.multiples),
        };
        let [depth, height, width] = [0, 1, 2].map(|axis| extent[axis].next_multiple_of(scales[axis]));
        let input = [1, channels, depth, height, width];
        let mut output = input;
        let step = |device: &Device| {
            let model = self.model().like(device).with_policy(self.model().policy());
            mark_step(device);
            let x = self.precision().cast(without_autodiff(Tensor::zeros(input, device)));
            output = task.run(&*model, x).dims();
        };
        let (recording, ()) = record(planner.target(), step).map_err(|error| SystemError::Input {
            subject: "the model".into(),
            expected: "one whose memory can be planned".into(),
            found: error.to_string(),
            remedy: "leave the budget out".into(),
        })?;
        let step = planner.memory_model().needed(&recording.timeline(planner.memory_model()));
        // the volume and a padded copy of it, the result and a cropped copy, in float32
        let lying = [input, output].map(|dims| 2 * 4 * dims.iter().product::<usize>() as u64);
        Ok(step + planner.other_bytes() + Bytes(lying.iter().sum()))
    }
}

/// Everything that can be streamed.
fn streamed(model: &dyn LatentModel, settings: StreamSettings) -> ResidencyPolicy {
    let names = model.unstreamable().into_iter().filter(|(_, obstacle)| obstacle.is_none()).map(|(name, _)| name);
    let stream = |policy: ResidencyPolicy, name| policy.with_rule(name, Residency::Stream(settings));
    names.fold(ResidencyPolicy::keep(), stream)
}
