//! A system behind a pointer: what planner and session ask of it, whatever its types.

use burn::tensor::Device;
use leanburn_common::{Bytes, ValidationError};
use leanburn_data::Progress;
use leanburn_plan::{Recording, Target};
use leanburn_train::{RecordStepError, TrainError, Trainer, record_step};

use crate::batch::Batch;
use crate::data::Data;
use crate::error::{Result, SystemError};
use crate::evaluation::{Curves, PictureLabel};
use crate::run::{AnyRun, Run};
use crate::shared::{Context, Source, TrainingSection, trainer};
use crate::system::System;

/// [`System`] without its types.
pub(crate) trait AnySystem {
    fn name(&self) -> &'static str;
    fn source(&self) -> Source;
    fn picture_label(&self) -> PictureLabel;
    fn curves(&self) -> &'static [Curves];
    fn errors(&self) -> &'static [&'static str];
    fn smaller_evaluation(&self) -> &'static str;
    fn validate(&self, context: &Context<'_>) -> Vec<ValidationError>;
    fn training(&self) -> &TrainingSection;
    fn training_mut(&mut self) -> &mut TrainingSection;
    fn in_channels(&self) -> usize;
    fn start_at_once(&mut self);
    fn multiples(&self) -> [usize; 3];
    fn attention_block(&self) -> Option<usize>;
    fn set_attention_block(&mut self, block: Option<usize>);
    fn largest_attention_block(&self, micro_batch: usize, extent: [usize; 3]) -> Option<usize>;
    fn batch_size_in_memory(&self, context: &Context<'_>, micro_batch: usize, extent: [usize; 3]) -> Bytes;
    fn check_sample(&self, name: &str, shape: [usize; 4]) -> Result<()>;
    /// The extent of a sample, read from the data.
    fn extent(&self, context: &Context<'_>) -> Result<[usize; 3]>;
    /// Numbers that are trained.
    fn parameters(&self, context: &Context<'_>) -> Result<usize>;
    /// A step of micro-batches of an extent, recorded.
    fn record(
        &self,
        context: &Context<'_>,
        target: Target,
        micro_batch: usize,
        extent: [usize; 3],
    ) -> Result<Recording>;
    /// A run on the configured data, at its beginning.
    fn open(
        &self,
        context: &Context<'_>,
        device: &Device,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Box<dyn AnyRun>>;
    /// A run on noise of an extent, for measurements.
    fn on_noise(&self, context: &Context<'_>, device: &Device, extent: [usize; 3]) -> Result<Box<dyn AnyRun>>;
}

impl<S: System> AnySystem for S {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn source(&self) -> Source {
        S::SOURCE
    }

    fn picture_label(&self) -> PictureLabel {
        S::PICTURE
    }

    fn curves(&self) -> &'static [Curves] {
        S::CURVES
    }

    fn errors(&self) -> &'static [&'static str] {
        S::ERRORS
    }

    fn smaller_evaluation(&self) -> &'static str {
        S::SMALLER_EVALUATION
    }

    fn validate(&self, context: &Context<'_>) -> Vec<ValidationError> {
        System::validate(self, context)
    }

    fn training(&self) -> &TrainingSection {
        System::training(self)
    }

    fn training_mut(&mut self) -> &mut TrainingSection {
        System::training_mut(self)
    }

    fn in_channels(&self) -> usize {
        System::in_channels(self)
    }

    fn start_at_once(&mut self) {
        System::start_at_once(self);
    }

    fn multiples(&self) -> [usize; 3] {
        System::multiples(self)
    }

    fn attention_block(&self) -> Option<usize> {
        System::attention_block(self)
    }

    fn set_attention_block(&mut self, block: Option<usize>) {
        System::set_attention_block(self, block);
    }

    fn largest_attention_block(&self, micro_batch: usize, extent: [usize; 3]) -> Option<usize> {
        System::largest_attention_block(self, micro_batch, extent)
    }

    fn batch_size_in_memory(&self, context: &Context<'_>, micro_batch: usize, extent: [usize; 3]) -> Bytes {
        S::Batch::size(&self.batch_shape(context, micro_batch, extent))
    }

    fn check_sample(&self, name: &str, shape: [usize; 4]) -> Result<()> {
        System::check_sample(self, name, shape)
    }

    fn extent(&self, context: &Context<'_>) -> Result<[usize; 3]> {
        System::open(self, context, &mut |_| {})?.extent()
    }

    fn parameters(&self, context: &Context<'_>) -> Result<usize> {
        Ok(S::parameters(&self.build(context, &Device::flex().autodiff())?))
    }

    fn record(
        &self,
        context: &Context<'_>,
        target: Target,
        micro_batch: usize,
        extent: [usize; 3],
    ) -> Result<Recording> {
        let [depth, height, width] = extent;
        let shape = [System::in_channels(self), depth, height, width];
        System::check_sample(self, &format!("a volume of {depth}x{height}x{width}"), shape)?;
        let shape = self.batch_shape(context, micro_batch, extent);
        let build = |device: &Device| {
            let workload = self.build(context, device)?;
            Ok(Trainer::new(workload, trainer(context, System::training(self)), device))
        };
        record_step(target, build, |device| S::Batch::zeros(&shape, device)).map_err(|error| match error {
            RecordStepError::Build(error) => error,
            RecordStepError::Step(error) => error.into(),
            error => SystemError::Input {
                subject: context.name.to_string(),
                expected: "a training step that can be recorded".into(),
                found: error.to_string(),
                remedy: "this is a defect of leanburn: please report it with the configuration".into(),
            },
        })
    }

    fn open(
        &self,
        context: &Context<'_>,
        device: &Device,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Box<dyn AnyRun>> {
        let workload = self.build(context, device)?;
        let data = System::open(self, context, progress)?;
        for (name, shape) in data.samples()? {
            System::check_sample(self, &name, shape)?; // before anything is written
        }
        let trainer = Trainer::new(workload, trainer(context, System::training(self)), device);
        Ok(Box::new(Run::on_data(self.clone(), data, trainer, device)))
    }

    fn on_noise(&self, context: &Context<'_>, device: &Device, extent: [usize; 3]) -> Result<Box<dyn AnyRun>> {
        let workload = self.build(context, device)?;
        let trainer = Trainer::new(workload, trainer(context, System::training(self)), device);
        let shape = self.batch_shape(context, System::training(self).batch_size, extent);
        let there = device.clone();
        let batches = std::iter::from_fn(move || Some(Ok::<_, TrainError>(S::Batch::random(&shape, &there))));
        Ok(Box::new(Run::on_batches(self.clone(), Box::new(batches), trainer, device)))
    }
}
