//! Networks of each position by itself: from the input to the first layer, and from the last to the output.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{Activation, ResidencyPolicy, Stages, StreamSettings, Unstreamable, norm_act_conv3d, stream};

use crate::blocks::{Conv3d, Conv3dConfig};

/// Pointwise convolutions with an activation between them.
///
/// # Memory
///
/// Saved for backward: the input alone where the volume is deeper than a slab, since the network runs in slabs along the depth then, and
/// what is inside of it is made again in backward. Elsewhere (fields on planes) what each convolution gives too, unless it is recomputed.
#[derive(Module, Debug)]
pub struct FnoMlp {
    convolutions: Vec<Conv3d>,
}

impl FnoMlp {
    /// From `channels_in` through the channels `inside` to `channels_out`.
    pub(super) fn new(channels_in: usize, inside: &[usize], channels_out: usize, device: &Device) -> Self {
        let ends: Vec<usize> = inside.iter().copied().chain([channels_out]).collect();
        let starts = [channels_in].into_iter().chain(inside.iter().copied());
        let convolution = |(start, end): (usize, usize)| Conv3dConfig::new([start, end], 1).init(device);
        Self { convolutions: starts.zip(ends).map(convolution).collect() }
    }

    /// The convolution that the network is, if it is but one.
    pub(super) fn linear(&self) -> Option<&Conv3d> {
        match &self.convolutions[..] {
            [convolution] => Some(convolution),
            _ => None,
        }
    }

    /// The network as the segment called `name`, behind the first of the activations, with the second between its convolutions.
    pub(super) fn forward(
        &self,
        x: Tensor<5>,
        activations: [Activation; 2],
        residency: &ResidencyPolicy,
        name: &str,
    ) -> Tensor<5> {
        let run = move |mlp: &Self, x: Tensor<5>| match mlp.stages(activations) {
            Ok(stages) if mlp.linear().is_none() && x.dims()[2] > StreamSettings::SLAB_PLANES => {
                stream(x, stages, StreamSettings::default())
            }
            _ => mlp.whole(x, activations),
        };
        residency.run_stages(name, self, x, run, |mlp| mlp.stages(activations))
    }

    fn whole(&self, x: Tensor<5>, [before, between]: [Activation; 2]) -> Tensor<5> {
        let mut activation = before;
        self.convolutions.iter().fold(x, |x, convolution| {
            let activation = std::mem::replace(&mut activation, between);
            norm_act_conv3d(x, None, activation, convolution.convolution(), None)
        })
    }

    fn stages(&self, [before, between]: [Activation; 2]) -> Result<Stages, Unstreamable> {
        let (mut stages, mut activation) = (Stages::new(), before);
        let input = stages.input();
        self.convolutions.iter().fold(input, |x, convolution| {
            let activation = std::mem::replace(&mut activation, between);
            stages.norm_act_conv3d(x, None, activation, convolution.convolution(), None)
        });
        Ok(stages)
    }
}
