//! A system in training: its trainer, its data and its batches, behind one pointer.

use std::path::Path;

use burn::tensor::Device;
use image::RgbImage;
use leanburn_data::Intensity;
use leanburn_train::{CheckpointStore, Group, LearnerMemory, StepReport, TrainError, Trainer};

use crate::batch::{Batch, Batches};
use crate::data::{Data, DataSize};
use crate::error::Result;
use crate::evaluation::Metrics;
use crate::next::Next;
use crate::system::{DataOf, System};
use crate::weight_source::{Initialized, WeightSource};

/// A system in training, regardless of its types.
pub(crate) trait AnyRun {
    /// Steps taken so far.
    fn steps(&self) -> u64;

    /// Makes this process one of a group that trains one model.
    fn join_group(&mut self, group: &Group) -> std::result::Result<(), TrainError>;

    /// Takes a step.
    fn step(&mut self) -> std::result::Result<StepReport, TrainError>;

    /// Starts from weights, those that fit.
    fn initialize(&mut self, source: &WeightSource) -> Result<Vec<Initialized>>;

    /// Goes on from a checkpoint.
    fn resume(&mut self, checkpoint: &Path) -> std::result::Result<(), TrainError>;

    /// What all ranks do next, when each has said whether it was asked to stop and whether the run is over. Meanwhile a rank that does not
    /// lead serves the [saves](Self::save) of the leading one.
    fn next(&mut self, is_stopped: bool, is_over: bool) -> Next;

    /// Serves the save of the leading rank that follows the last step, where it needs the other ranks.
    fn serve_save(&mut self);

    /// Saves a checkpoint, as the leading rank. Where states are split over ranks, the others serve it.
    fn save(&mut self, store: &CheckpointStore) -> Result<()>;

    /// Saves the trained weights alone, those of other models beside the file.
    fn save_weights(&self, weights: &Path) -> Result<()>;

    /// What the channels of the data were normalized by.
    fn normalization(&self) -> &[Intensity];

    /// The metrics over the validation samples.
    ///
    /// The outer error says that the evaluation did not fit into memory.
    fn evaluate(&self) -> std::result::Result<Result<Metrics>, TrainError>;

    /// What the models make of a sample. The outer error says that it did not fit into memory.
    fn picture(&self) -> std::result::Result<Result<RgbImage>, TrainError>;

    /// What each learner holds between steps.
    fn memory(&mut self) -> Vec<(&'static str, LearnerMemory)>;

    /// The files of the data, in their order.
    fn data_names(&self) -> Vec<String>;

    /// What somebody should know of the data.
    fn data_remarks(&self) -> Vec<String>;

    /// Size of the data, and extent of a sample.
    fn data_size(&self) -> Result<DataSize>;

    /// Steps to train for, the data's epochs counted.
    fn last_step(&self) -> u64;
}

/// A system in training.
pub(crate) struct Run<S: System> {
    system: S,
    data: DataOf<S>,
    /// Opened with the first step, when it is known where the run begins.
    batches: Option<Batches<S::Batch>>,
    trainer: Trainer<S::Workload>,
    /// Where it trains.
    device: Device,
    /// Where it evaluates: the device without autodiff.
    plain_device: Device,
}

impl<S: System> Run<S> {
    /// At the position of the trainer.
    pub fn new(system: S, data: DataOf<S>, trainer: Trainer<S::Workload>, device: &Device) -> Self {
        let plain_device = device.clone().inner();
        Self { system, data, batches: None, trainer, device: device.clone(), plain_device }
    }
}

impl<S: System> AnyRun for Run<S> {
    fn steps(&self) -> u64 {
        self.trainer.steps()
    }

    fn join_group(&mut self, group: &Group) -> std::result::Result<(), TrainError> {
        self.trainer.join_group(group.clone())
    }

    fn step(&mut self) -> std::result::Result<StepReport, TrainError> {
        let (batch_size, order) = (self.system.training().batch_size, self.trainer.batch_order());
        let batches =
            self.batches.get_or_insert_with(|| S::Batch::batches(&self.data, batch_size, order, &self.device));
        self.trainer.step(batches)
    }

    fn initialize(&mut self, source: &WeightSource) -> Result<Vec<Initialized>> {
        S::initialize(self.trainer.workload_mut(), source)
    }

    fn resume(&mut self, checkpoint: &Path) -> std::result::Result<(), TrainError> {
        self.trainer.resume_split(checkpoint) // the run folder has compared the items of a step
    }

    fn next(&mut self, is_stopped: bool, is_over: bool) -> Next {
        loop {
            match Next::of(self.trainer.group(), [(Next::Over, is_over), (Next::Interrupted, is_stopped)]) {
                Next::Save => self.trainer.gather_states(),
                next => return next,
            }
        }
    }

    fn serve_save(&mut self) {
        if self.trainer.shards_optimizer() {
            let next = Next::of(self.trainer.group(), []);
            assert!(next == Next::Save, "the leading rank saves after its last step");
            self.trainer.gather_states();
        }
    }

    fn save(&mut self, store: &CheckpointStore) -> Result<()> {
        if self.trainer.shards_optimizer() {
            Next::of(self.trainer.group(), [(Next::Save, true)]);
            self.trainer.gather_states();
        }
        self.trainer.save(store)?;
        Ok(())
    }

    fn save_weights(&self, weights: &Path) -> Result<()> {
        Ok(S::save_weights(self.trainer.workload(), weights)?)
    }

    fn normalization(&self) -> &[Intensity] {
        self.data.normalization()
    }

    fn evaluate(&self) -> std::result::Result<Result<Metrics>, TrainError> {
        self.trainer.evaluate("validation", |workload| self.system.evaluate(workload, &self.data, &self.plain_device))
    }

    fn picture(&self) -> std::result::Result<Result<RgbImage>, TrainError> {
        self.trainer.evaluate("pictures", |workload| self.system.picture(workload, &self.data, &self.plain_device))
    }

    fn memory(&mut self) -> Vec<(&'static str, LearnerMemory)> {
        self.trainer.memory()
    }

    fn data_names(&self) -> Vec<String> {
        self.data.names()
    }

    fn data_remarks(&self) -> Vec<String> {
        self.data.remarks()
    }

    fn data_size(&self) -> Result<DataSize> {
        Ok(DataSize { extent: Some(self.data.extent()?), ..self.data.size() })
    }

    fn last_step(&self) -> u64 {
        self.system.training().steps(Some(self.data.samples_of_epoch()))
    }
}
