//! A system behind a pointer: what planner and session ask of it, regardless of its types.

use std::any::Any;
use std::path::Path;

use burn::tensor::Device;
use leanburn_common::{Bytes, ValidationError};
use leanburn_data::Progress;
use leanburn_plan::{Knob, Recording, Target};
use leanburn_train::planning::{Measured, measure};
use leanburn_train::{RecordStepError, Trainer, record_step};

use crate::batch::Batch;
use crate::codec::Codec;
use crate::data::{Data, DataSize};
use crate::error::{Result, SystemError};
use crate::evaluation::{Curves, PictureLabel};
use crate::field_predictor::FieldPredictor;
use crate::preview::{DataPreview, preview};
use crate::run::{AnyRun, Run};
use crate::shared::{Context, Source, TrainingSection, trainer};
use crate::system::{DataOf, System};

/// [`System`] without its types.
pub(crate) trait AnySystem {
    fn name(&self) -> &'static str;
    fn source(&self) -> Source;
    fn picture_label(&self) -> PictureLabel;
    fn curves(&self) -> &'static [Curves];
    fn errors(&self) -> &'static [&'static str];
    fn smaller_evaluation(&self) -> &'static str;
    fn shares_volumes(&self) -> bool;
    fn validate(&self, context: &Context<'_>) -> Vec<ValidationError>;
    fn teacher(&self) -> Option<&Path>;
    /// The section, for those who know its type.
    fn boxed(&self) -> Box<dyn Any>;
    fn training(&self) -> &TrainingSection;
    fn training_mut(&mut self) -> &mut TrainingSection;
    fn in_channels(&self) -> usize;
    fn start_at_once(&mut self);
    fn multiples(&self) -> [usize; 3];
    fn knob_names(&self) -> &'static [&'static str];
    fn knob(&self, name: &str) -> Option<usize>;
    fn set_knob(&mut self, name: &str, value: Option<usize>);
    fn knobs(&self, micro_batch: usize, extent: [usize; 3]) -> Vec<Knob>;
    fn batch_size_in_memory(&self, context: &Context<'_>, micro_batch: usize, extent: [usize; 3]) -> Bytes;
    fn check_sample(&self, name: &str, shape: [usize; 4]) -> Result<()>;
    /// Size of the data, with the extent of a sample if that is asked for.
    fn data_size(&self, context: &Context<'_>, with_extent: bool) -> Result<DataSize>;
    fn codec(&self, context: &Context<'_>, weights: &Path, device: &Device) -> Result<Option<Codec>>;
    fn predictor(&self, context: &Context<'_>, weights: &Path, device: &Device) -> Result<Option<FieldPredictor>>;
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
    /// The configured data, opened, and its first training samples drawn.
    fn preview(&self, context: &Context<'_>, count: u64, progress: &mut dyn FnMut(Progress<'_>))
    -> Result<DataPreview>;
    /// Real steps on noise of an extent.
    fn measure(&self, context: &Context<'_>, device: &Device, extent: [usize; 3], steps: u64) -> Result<Measured>;
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

    fn shares_volumes(&self) -> bool {
        S::SHARES_VOLUMES
    }

    fn validate(&self, context: &Context<'_>) -> Vec<ValidationError> {
        System::validate(self, context)
    }

    fn teacher(&self) -> Option<&Path> {
        System::teacher(self)
    }

    fn boxed(&self) -> Box<dyn Any> {
        Box::new(self.clone())
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

    fn knob_names(&self) -> &'static [&'static str] {
        S::KNOBS
    }

    fn knob(&self, name: &str) -> Option<usize> {
        System::knob(self, name)
    }

    fn set_knob(&mut self, name: &str, value: Option<usize>) {
        System::set_knob(self, name, value);
    }

    fn knobs(&self, micro_batch: usize, extent: [usize; 3]) -> Vec<Knob> {
        System::knobs(self, micro_batch, extent)
    }

    fn batch_size_in_memory(&self, context: &Context<'_>, micro_batch: usize, extent: [usize; 3]) -> Bytes {
        S::Batch::size(&batch_shape(self, context, micro_batch, extent))
    }

    fn check_sample(&self, name: &str, shape: [usize; 4]) -> Result<()> {
        System::check_sample(self, name, shape)
    }

    fn data_size(&self, context: &Context<'_>, with_extent: bool) -> Result<DataSize> {
        if !with_extent && let Some(size) = DataOf::<S>::expected(context, System::in_channels(self))? {
            return Ok(size);
        }
        let data = DataOf::<S>::open(context, &mut |_| {})?;
        Ok(DataSize { extent: Some(data.extent()?), ..data.size() })
    }

    fn codec(&self, context: &Context<'_>, weights: &Path, device: &Device) -> Result<Option<Codec>> {
        System::codec(self, context, weights, device)
    }

    fn predictor(&self, context: &Context<'_>, weights: &Path, device: &Device) -> Result<Option<FieldPredictor>> {
        System::predictor(self, context, weights, device)
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
        let shape = batch_shape(self, context, micro_batch, extent);
        let build = |device: &Device| trainer_of(self, context, device);
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
        // the data first: how many steps its epochs take, the schedule of a learner has to know
        let data = DataOf::<S>::open(context, progress)?;
        let context = &Context { samples: Some(data.samples_of_epoch()), ..*context };
        let mut workload = self.build(context, device)?;
        self.learn_from(&mut workload, context, device)?;
        for (name, shape) in data.samples()? {
            System::check_sample(self, &name, shape)?; // before anything is written
        }
        let trainer = Trainer::new(workload, trainer(context, System::training(self)), device);
        Ok(Box::new(Run::new(self.clone(), data, trainer, device)))
    }

    fn preview(
        &self,
        context: &Context<'_>,
        count: u64,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<DataPreview> {
        preview(&DataOf::<S>::open(context, progress)?, count)
    }

    fn measure(&self, context: &Context<'_>, device: &Device, extent: [usize; 3], steps: u64) -> Result<Measured> {
        let shape = batch_shape(self, context, System::training(self).batch_size, extent);
        measure(device, steps, |device| trainer_of(self, context, device), |device| S::Batch::random(&shape, device))
    }
}

/// The shapes of a micro-batch.
fn batch_shape<S: System>(
    system: &S,
    context: &Context<'_>,
    micro_batch: usize,
    extent: [usize; 3],
) -> <S::Batch as Batch>::Shape {
    S::Batch::shape_of(context, micro_batch, system.in_channels(), extent)
}

/// The trainer of a system, at step 0.
fn trainer_of<S: System>(system: &S, context: &Context<'_>, device: &Device) -> Result<Trainer<S::Workload>> {
    let workload = system.build(context, device)?;
    Ok(Trainer::new(workload, trainer(context, system.training()), device))
}
