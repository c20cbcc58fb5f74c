//! The commands, one file each.

mod advice;
mod budget;
mod calc;
mod calc_report;
mod calibrate;
mod cards;
mod codec;
mod compare;
mod data;
mod devices;
mod evaluate;
mod files;
mod fit;
mod launch;
mod load;
mod measure;
mod observer;
mod outcome;
mod output;
mod plan;
mod plan_report;
mod predict;
mod ranks;
mod recipes;
mod reconstruct;
mod sample;
mod sampling;
mod segment;
mod signals;
mod stages;
mod train;
mod trained;
mod utilisation;
mod window;

use std::fmt::Display;

use clap::Subcommand;
use leanburn_systems::SystemError;
use leanburn_train::or_out_of_memory;

use crate::error::Result;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a model from a configuration.
    Train(train::Train),
    /// Train with several processes: `mpirun` with `leanburn train`.
    Launch(launch::Launch),
    /// Say what a training step will need, without running it.
    Plan(plan::Plan),
    /// Show what a model will see: the data of a configuration, and its first training samples on a page.
    Data(data::Data),
    /// Find the fastest way to train within a budget, and write its configuration.
    Fit(fit::Fit),
    /// Run steps and print their planned and measured peak.
    Measure(measure::Measure),
    /// Measure this processor's rates, for the plans' times.
    Calibrate,
    /// Validation metrics of trained weights, on the data of their run or on other data.
    Evaluate(evaluate::Evaluate),
    /// Reconstruct volumes with a trained autoencoder (KL, voxel or discrete).
    Reconstruct(reconstruct::Reconstruct),
    /// Label volumes with a trained segmentation model.
    Segment(segment::Segment),
    /// Encode volumes into their latents: the mean, or vectors of the codebook. A .safetensors file keeps grid and exact values.
    Encode(codec::Encode),
    /// Decode latents into volumes, in the normalized units that the model was trained in.
    Decode(codec::Decode),
    /// Sample new volumes with a trained latent diffusion model.
    Sample(sampling::Sample),
    /// Predict fields with a trained forecaster or neural operator.
    Predict(predict::Predict),
    /// Estimate a network's memory by the classic rule of thumb.
    Calc(calc::Calc),
    /// List the devices that can compute.
    Devices(devices::Devices),
    /// List the configurations that come with the command.
    Recipes(recipes::Recipes),
    /// Write a recipe's configuration into a file to edit.
    Init(recipes::Init),
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// [`CommandError`](crate::error::CommandError) with what to do, also where a device has no more memory.
    pub fn run(self) -> Result<()> {
        or_too_large("out of memory", || self.dispatch())
    }

    fn dispatch(self) -> Result<()> {
        leanburn_ops::instructions().map_err(|unknown| SystemError::Input {
            subject: leanburn_ops::INSTRUCTIONS_VARIABLE.into(),
            expected: unknown.expected,
            found: unknown.found,
            remedy: "set it to one of these, or not at all: then kernels take the best that this processor has".into(),
        })?;
        match self {
            Self::Train(train) => train.run(),
            Self::Launch(launch) => launch.run(),
            Self::Plan(plan) => plan.run(),
            Self::Data(data) => data.run(),
            Self::Fit(fit) => fit.run(),
            Self::Measure(measure) => measure.run(),
            Self::Calibrate => calibrate::run(),
            Self::Evaluate(evaluate) => evaluate.run(),
            Self::Reconstruct(reconstruct) => reconstruct.run(),
            Self::Segment(segment) => segment.run(),
            Self::Encode(encode) => encode.run(),
            Self::Decode(decode) => decode.run(),
            Self::Sample(sample) => sample.run(),
            Self::Predict(predict) => predict.run(),
            Self::Calc(calc) => calc.run(),
            Self::Devices(devices) => devices.run(),
            Self::Recipes(recipes) => recipes.run(),
            Self::Init(init) => init.run(),
        }
    }
}

/// Runs something; where a device has no more memory, that is its error, which begins with `what`.
fn or_too_large<T>(what: impl Display, run: impl FnOnce() -> Result<T>) -> Result<T> {
    or_out_of_memory(run).unwrap_or_else(|reason| {
        let remedy = "give it a smaller volume (`--patch` where the command has it), or a `--device` with more memory";
        Err(SystemError::OutOfMemory { reason: format!("{what}: {reason}"), remedy: remedy.into() }.into())
    })
}
