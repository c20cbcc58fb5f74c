//! Why a step cannot be recorded, and what to write instead.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A step that cannot be recorded, with what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the step cannot be recorded: {obstacle} ({reason}); {}", obstacle.remedy())]
pub struct RecordError {
    obstacle: Obstacle,
    reason: String,
}

impl RecordError {
    /// Part of a step that is on another device than the one that it is given.
    pub fn of_other_device(part: impl fmt::Display) -> Self {
        Self { obstacle: Obstacle::OtherDevice, reason: format!("{part} is not on the device that is given") }
    }

    /// What the recording itself says.
    pub(crate) fn incomplete(error: impl fmt::Debug) -> Self {
        Self { obstacle: Obstacle::OtherDevice, reason: format!("{error:?}") }
    }

    /// What stands in the way.
    pub fn obstacle(&self) -> Obstacle {
        self.obstacle
    }
}

/// What a step does that has no place in a recording, where tensors have no values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// It seeds the device by `Device::seed`.
    Seed,
    /// It reads values: `into_scalar`, `into_data`, or a shape that depends on them.
    Value,
    /// It uses Burn's own autodiff calls: `backward`, `grad`, `inner`, `from_inner`, `valid`.
    Autodiff,
    /// It moves a tensor under autodiff, as Burn's `BatchNorm` does in training.
    Move,
    /// It has tensors of another device, or of another recording.
    OtherDevice,
}

impl Obstacle {
    /// What Burn's panics say at each of them.
    const SIGNS: [(Self, &'static [&'static str]); 5] = [
        (Self::Seed, &["seeding is not supported during graph capture"]),
        (Self::Value, &["has no concrete value", "has no initialized value"]),
        (Self::Autodiff, &["Capture tensors do not support autodiff"]),
        (Self::Move, &["Cannot move a tensor to a capture device with autodiff enabled"]),
        (
            Self::OtherDevice,
            &[
                "are not on the same device",
                "on the wrong backend",
                "Cannot move",
                "are on different backends",
                "autodiff-wrapped float tensor",
                "must have an enabled autodiff context",
                "must use an autodiff primitive",
                "may use an autodiff primitive",
                "autodiff float input reached concrete dispatch",
                "are float tensors of one device",
                "capture scope is already complete",
                "must run inside CaptureDevice::capture_scope",
            ],
        ),
    ];

    /// What to write instead.
    fn remedy(self) -> &'static str {
        match self {
            Self::Seed => {
                "call `leanburn::ops::random::seed` (`seed` of the prelude) instead of `Device::seed`: on a device that records it \
                 does nothing"
            }
            Self::Value => {
                "compute with tensors (`mask_where` in place of a branch), hand what is to be reported to `Losses::of`, and read \
                 other values between steps; `leanburn::ops::recording::value_or` gives a number in their place"
            }
            Self::Autodiff => {
                "write `leanburn::ops::backward(loss)`, and `without_autodiff`, `require_grad` and `valid` of \
                 `leanburn::ops::recording`, which compute the same on every device"
            }
            Self::Move => {
                "write `leanburn::nn::blocks::BatchNorm` in place of Burn's `BatchNorm` (`BatchNorm::from` takes its weights and \
                 running statistics), and make other tensors on the device that is given instead of moving them"
            }
            Self::OtherDevice => {
                "make modules, batches and constants on the device that is given, anew for each recording"
            }
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seed => "it seeds the device, and a recording draws nothing",
            Self::Value => "it reads the value of a tensor, and recorded tensors have none",
            Self::Autodiff => "it calls Burn's own `backward`, `grad`, `inner`, `from_inner` or `valid`",
            Self::Move => "it moves a tensor under autodiff, as Burn's `BatchNorm` does in training",
            Self::OtherDevice => "it has tensors of another device",
        })
    }
}

/// Runs something on a recording device; what stands in the way, where Burn panics because it cannot be recorded.
///
/// # Panics
///
/// Panics as `step` does if that is for another reason.
pub(crate) fn or_obstacle<T>(step: impl FnOnce() -> T) -> Result<T, RecordError> {
    // All that the step has changed is of the recording, and gone with it.
    catch_unwind(AssertUnwindSafe(step)).map_err(|payload| match error_of(payload.as_ref()) {
        Some(error) => error,
        None => resume_unwind(payload),
    })
}

fn error_of(payload: &(dyn Any + Send)) -> Option<RecordError> {
    let message = payload.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| payload.downcast_ref::<&str>().copied())?;
    Obstacle::SIGNS.into_iter().find_map(|(obstacle, signs)| {
        let shows = |line: &&str| signs.iter().any(|sign| line.contains(sign));
        let reason = message.lines().find(shows)?.trim().to_string();
        Some(RecordError { obstacle, reason })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_of_the_step_is_no_obstacle() {
        let defect = catch_unwind(|| or_obstacle(|| -> () { panic!("index out of bounds") }));
        assert!(defect.is_err());
        assert_eq!(or_obstacle(|| 3), Ok(3));
    }
}
