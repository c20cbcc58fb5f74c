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

/// Ways to stream everything that can be, the fastest first.
const WAYS: [(StreamKeep, usize); 5] =
    [(StreamKeep::Two, 8), (StreamKeep::One, 8), (StreamKeep::None, 8), (StreamKeep::None, 4), (StreamKeep::Joined, 4)];

/// Planes of a slab where joined levels take too much in those of [`WAYS`].
const THIN: [usize; 2] = [2, 1];

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
        let way = |(keep, slab_planes)| self.streamed(&Way { keep, slab_planes, apart: Vec::new() }, task, extent);
        let thin = |slab_planes| self.joined(slab_planes, task, extent);
        for streamed in WAYS.into_iter().map(way).chain(THIN.into_iter().map(thin)) {
            let (streamed, needed) = streamed?;
            if needed <= budget {
                return Ok(streamed);
            }
            smallest = smallest.min(needed);
        }
        let [depth, height, width] = extent;
        Err(SystemError::Input {
            subject: "budget".into(),
            expected: format!("at least {} for {depth} x {height} x {width}, streamed", smallest.rounded_up()),
            found: budget.to_string(),
            remedy: "give a larger budget, or take less at a time: a volume in patches (--patch 64,64,64), a smaller sample (--size)"
                .into(),
        })
    }

    /// Streamed in one way, and what that needs.
    fn streamed(&self, way: &Way, task: CodecTask, extent: [usize; 3]) -> Result<(Self, Bytes)> {
        let streamed = self.with_model(self.model().with_policy(way.policy(self.model())));
        let needed = streamed.needed(task, extent)?;
        Ok((streamed, needed))
    }

    /// Streamed with levels joined, without those that take less by themselves. (A plane of a coarse level is several of a finer one behind
    /// it: it may be cheaper to store the volume between them.)
    fn joined(&self, slab_planes: usize, task: CodecTask, extent: [usize; 3]) -> Result<(Self, Bytes)> {
        let mut way = Way { keep: StreamKeep::Joined, slab_planes, apart: Vec::new() };
        let mut best = self.streamed(&way, task, extent)?;
        for name in streamable(self.model()).filter(|name| self.is_outermost(name)) {
            way.apart.push(name);
            let one = self.streamed(&way, task, extent)?;
            if one.1 < best.1 {
                best = one;
            } else {
                way.apart.pop();
            }
        }
        Ok(best)
    }

    /// Whether no other segment is around it.
    fn is_outermost(&self, name: &str) -> bool {
        let around = |other: &str| name.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'));
        !self.model().unstreamable().iter().any(|(other, _)| around(other))
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
        let [input, output] = [input, output].map(|dims| Bytes(4 * dims.iter().product::<usize>() as u64));
        // The volume lies beside the step, which takes a padded copy over; to encode, the padded volume too. Behind the step there are the
        // result and a cropped copy of it.
        let beside = if task == CodecTask::Encode { input + input } else { input };
        Ok(planner.other_bytes() + (step + beside).max(input + output + output))
    }
}

/// How everything that can be streamed is.
struct Way {
    keep: StreamKeep,
    slab_planes: usize,
    /// Segments that are not joined with their neighbours.
    apart: Vec<String>,
}

impl Way {
    fn policy(&self, model: &dyn LatentModel) -> ResidencyPolicy {
        let settings = StreamSettings::default().with_keep(self.keep).with_slab_planes(self.slab_planes);
        let stream = |policy: ResidencyPolicy, name: String| {
            let keep = if self.apart.contains(&name) { StreamKeep::None } else { self.keep };
            policy.with_rule(name, Residency::Stream(settings.with_keep(keep)))
        };
        streamable(model).fold(ResidencyPolicy::keep(), stream)
    }
}

/// Names of everything that can be streamed.
fn streamable(model: &dyn LatentModel) -> impl Iterator<Item = String> {
    model.unstreamable().into_iter().filter(|(_, obstacle)| obstacle.is_none()).map(|(name, _)| name)
}
