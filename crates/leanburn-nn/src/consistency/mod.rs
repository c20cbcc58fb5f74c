//! Consistency models: from noise to sample in one step or a few.
//!
//! Song et al., [Consistency Models](https://arxiv.org/abs/2303.01469): a denoiser that gives the same sample for all points of one way from
//! noise to sample, and is the identity at the smallest noise level
//! ([`EdmPreconditioning::consistency`](crate::diffusion::EdmPreconditioning::consistency)). It is trained to give the same for neighbouring
//! noise levels.
//!
//! | training | levels | lower neighbour | target | loss |
//! |---|---|---|---|---|
//! | consistency training | [`Curriculum::Progressive`], [`LevelWeights::Uniform`] | [`on_a_line`] | average of weights, [`TargetEma::Adaptive`] | [`Distance::L2`] |
//! | [improved](https://arxiv.org/abs/2310.14189) | [`Curriculum::Doubling`], [`LevelWeights::LogNormal`] | [`on_a_line`] | the model itself | [`Distance::PSEUDO_HUBER`], [`Weighting::InverseGap`] |
//! | distillation | [`Curriculum::Fixed`] | [`heun_step`] with a frozen teacher | average of weights, [`TargetEma::Fixed`] | [`Distance::L2`] |
//! | [easy tuning](https://arxiv.org/abs/2406.14548) | [`EasyTuning`] | [`on_a_line`] | the model itself | [`Distance::PseudoHuber`], [`Weighting::Karras`] |
//!
//! [`ConsistencyLoss`] takes both neighbours through the networks under the same random numbers, so that dropout drops the same.
//! [`Multistep`] samples in one step or several; [`Karras`](crate::diffusion::Karras) samplers take such a model as well.

mod distance;
mod levels;
mod loss;
mod sampling;
mod schedule;

pub use distance::{Distance, Weighting};
pub use levels::{EasyTuning, LevelWeights, NoiseLevels};
pub use loss::{ConsistencyLoss, NoiseLevelPair, heun_step, on_a_line};
pub use sampling::Multistep;
pub use schedule::{Curriculum, TargetEma};
