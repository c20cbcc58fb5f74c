//! Other weights of a learner's module: averages that follow it, and a teacher that does not.

use burn::module::Module;
use leanburn_common::Bytes;
use leanburn_ops::recording::{TensorRole, tag_module};

use crate::average::WeightAverage;
use crate::error::TrainError;
use crate::learner_files::{AVERAGE, LearnerFiles, TARGET};

/// The average that is used, the average that the loss compares with, and the module that is learned from; all without autodiff.
pub(crate) struct Companions<M> {
    average: Option<WeightAverage<M>>,
    target: Option<Target<M>>,
    teacher: Option<M>,
}

/// An average whose decay depends on the step.
struct Target<M> {
    decay: Box<dyn Fn(u64) -> f64 + Send + Sync>,
    average: WeightAverage<M>,
}

/// The averages of a checkpoint.
pub(crate) struct Saved<M> {
    average: Option<M>,
    target: Option<M>,
}

impl<M: Module> Companions<M> {
    /// An average by a decay, if there is one, that starts at the module's weights.
    pub fn new(module: &M, average_decay: Option<f64>) -> Self {
        let average = average_decay.map(|decay| WeightAverage::new(module, decay));
        Self { average, target: None, teacher: None }
    }

    pub fn set_target(&mut self, module: &M, decay: impl Fn(u64) -> f64 + Send + Sync + 'static) {
        let average = WeightAverage::new(module, decay(0));
        self.target = Some(Target { decay: Box::new(decay), average });
    }

    pub fn set_teacher(&mut self, teacher: M) {
        self.teacher = Some(teacher);
    }

    pub fn average(&self) -> Option<&M> {
        self.average.as_ref().map(WeightAverage::module)
    }

    pub fn target(&self) -> Option<&M> {
        self.target.as_ref().map(|target| target.average.module())
    }

    pub fn teacher(&self) -> Option<&M> {
        self.teacher.as_ref()
    }

    /// Starts the averages again, at the module's weights.
    pub fn restart(&mut self, module: &M) {
        let targets = self.target.iter_mut().map(|target| &mut target.average);
        self.average.iter_mut().chain(targets).for_each(|average| average.restart(module));
    }

    /// Moves the averages towards the module's weights after a step.
    pub fn follow(&mut self, module: &M, step: u64) {
        if let Some(average) = &mut self.average {
            average.update(module);
        }
        if let Some(Target { decay, average }) = &mut self.target {
            average.set_decay(decay(step));
            average.update(module);
        }
    }

    /// Tags their tensors on a recording device.
    pub fn tag_tensors(&self) {
        self.average().into_iter().chain(self.target()).for_each(|average| tag_module(TensorRole::Average, average));
        self.teacher().into_iter().for_each(|teacher| tag_module(TensorRole::Frozen, teacher));
    }

    /// Bytes of the average, the target and the teacher, each as large as the module where it is there.
    pub fn memory(&self, weights: Bytes) -> [Bytes; 3] {
        let size = |is_there: bool| if is_there { weights } else { Bytes(0) };
        [self.average.is_some(), self.target.is_some(), self.teacher.is_some()].map(size)
    }

    /// Writes the averages; a teacher has a file of its own.
    pub fn save(&self, files: &LearnerFiles<'_>) -> Result<(), TrainError> {
        let both = [(AVERAGE, self.average()), (TARGET, self.target())];
        both.into_iter()
            .filter_map(|(name, module)| Some((name, module?)))
            .try_for_each(|(name, module)| files.save_module(name, module))
    }

    /// Reads them; nothing changes.
    pub fn load(&self, files: &LearnerFiles<'_>) -> Result<Saved<M>, TrainError> {
        let read = |name, module: Option<&M>| module.map(|module| files.load_module(name, module.valid())).transpose();
        Ok(Saved { average: read(AVERAGE, self.average())?, target: read(TARGET, self.target())? })
    }

    /// Puts in place what was read.
    pub fn restore(&mut self, saved: Saved<M>) {
        if let (Some(here), Some(average)) = (&mut self.average, saved.average) {
            here.set(average);
        }
        if let (Some(here), Some(target)) = (&mut self.target, saved.target) {
            here.average.set(target);
        }
    }
}
