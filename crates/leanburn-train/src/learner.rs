//! A module and everything that goes with training it.

use std::path::Path;

use burn::backend::DispatchTensor;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::Tensor;
use leanburn_ops::recording::{self, Purpose, is_recording};
use serde::{Deserialize, Serialize};

use crate::buffers::Buffers;
use crate::learner_files::{AVERAGE, LearnerFiles, WEIGHTS};
use crate::recorded_optimizer::RecordedOptimizer;
use crate::{
    Accumulator, LossScale, LossScaler, OptimizerConfig, Prepared, Schedule, ScheduleConfig, TrainError, WeightAverage,
    prepare_gradients,
};

/// How a module is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearnerConfig {
    /// The optimizer.
    pub optimizer: OptimizerConfig,
    /// The learning rate over time.
    pub schedule: ScheduleConfig,
    /// Factor of the loss before backward.
    pub loss_scale: LossScale,
    /// Gradients are clipped to this global norm.
    pub max_grad_norm: Option<f64>,
    /// Decay of an average of the weights, kept beside them.
    pub average_decay: Option<f64>,
}

/// A module with its optimizer, accumulated gradients, loss scale and average of weights.
pub struct Learner<M: Module> {
    name: &'static str,
    config: LearnerConfig,
    module: Option<M>,
    optimizer: ModuleOptimizer,
    schedule: Schedule,
    scaler: LossScaler,
    accumulator: Accumulator<M>,
    prepared: Option<Prepared>,
    average: Option<WeightAverage<M>>,
    /// Running statistics at the beginning of the step.
    buffers: Option<Buffers>,
    /// Stands in for the optimizer on a recording device.
    recorded: Option<RecordedOptimizer>,
}

impl<M: Module> std::fmt::Debug for Learner<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Learner").field("name", &self.name).field("config", &self.config).finish_non_exhaustive()
    }
}

/// What an optimizer step did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearnerReport {
    /// Name of the learner.
    pub learner: String,
    /// Learning rate of the step.
    pub learning_rate: f64,
    /// Global norm of the gradients before clipping.
    pub gradient_norm: f64,
    /// Loss scale of the step.
    pub loss_scale: f64,
    /// Whether the step was left out because gradients were infinite or undefined.
    pub skipped: bool,
}

/// What a learner holds between steps, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnerMemory {
    /// Weights and buffers.
    pub weights: u64,
    /// Gradients while they are accumulated.
    pub gradients: u64,
    /// States of the optimizer.
    pub optimizer: u64,
    /// Average of the weights.
    pub average: u64,
}

/// A learner of any module, as a trainer sees it.
pub trait AnyLearner {
    /// Name for reports and checkpoint files.
    fn name(&self) -> &'static str;

    /// Begins a step: forgets gradients of one that was broken off, and remembers running statistics.
    fn begin(&mut self);

    /// Breaks a step off before its update: forgets its gradients, and puts running statistics back.
    fn abandon(&mut self);

    /// Runs backward from `share * loss`, scaled, and adds the gradients to those already there.
    ///
    /// With `share = 1 / steps`, the sum over `steps` micro-batches is the gradient of the mean loss of the large batch.
    fn accumulate(&mut self, loss: Tensor<1>, share: f64);

    /// Readies the accumulated gradients for the optimizer, and reads their norm. A GPU runs late: what it had no memory for
    /// since the step began shows here, before anything is changed.
    fn prepare(&mut self);

    /// Takes an optimizer step with the prepared gradients; `None` if there are none.
    ///
    /// If they are infinite or undefined, weights, running statistics and average are those of the step's beginning.
    fn step(&mut self, step: u64) -> Option<LearnerReport>;

    /// What it holds.
    fn memory(&self) -> LearnerMemory;

    /// Writes everything that training needs to go on into files of `folder`.
    ///
    /// # Errors
    ///
    /// [`TrainError::Checkpoint`].
    fn save(&self, folder: &Path) -> Result<(), TrainError>;

    /// Reads what [`save`](Self::save) wrote. Nothing changes before the result is called.
    ///
    /// # Errors
    ///
    /// [`TrainError::Checkpoint`], [`TrainError::CheckpointMismatch`].
    fn load<'a>(&'a mut self, folder: &Path) -> Result<Restore<'a>, TrainError>;
}

/// Puts in place what was read from a checkpoint, so that several learners change all or none.
pub type Restore<'a> = Box<dyn FnOnce() + 'a>;

impl<M: Module> Learner<M> {
    /// A learner of `module` that has not taken a step.
    ///
    /// # Errors
    ///
    /// [`TrainError::Schedule`].
    pub fn new(name: &'static str, module: M, config: LearnerConfig) -> Result<Self, TrainError> {
        parameter_bytes(&module); // initialises lazy parameters now, from the seed of now
        Ok(Self {
            name,
            optimizer: config.optimizer.init(),
            schedule: config.schedule.init()?,
            scaler: LossScaler::new(config.loss_scale),
            accumulator: Accumulator::default(),
            prepared: None,
            average: config.average_decay.map(|decay| WeightAverage::new(&module, decay)),
            recorded: is_recorded(&module).then(|| RecordedOptimizer::new(&config.optimizer)),
            module: Some(module),
            buffers: None,
            config,
        })
    }

    /// The module in training.
    pub fn module(&self) -> &M {
        self.module.as_ref().expect("only absent during a step")
    }

    /// The module to use: averaged weights if there are, without autodiff.
    pub fn trained(&self) -> M {
        match &self.average {
            Some(average) => average.module().valid(), // a clone would share its running statistics
            None => self.module().valid(),
        }
    }

    /// The accumulated gradients, as the optimizer would see them before clipping; empties the accumulator.
    pub fn take_gradients(&mut self) -> Option<GradientsParams> {
        let gradients = self.accumulator.take()?;
        Some(prepare_gradients(self.module(), gradients, self.scaler.scale(), None).gradients)
    }

    fn update(&mut self, learning_rate: f64, gradients: GradientsParams) {
        let module = self.module.take().expect("only absent during a step");
        self.module = Some(match &mut self.recorded {
            None => self.optimizer.step(learning_rate, module, gradients),
            Some(recorded) => recorded.step(learning_rate, module, gradients),
        });
        if let (Some(average), Some(module)) = (&mut self.average, &self.module) {
            average.update(module);
        }
    }

    fn restore_buffers(&mut self) {
        if let Some(buffers) = self.buffers.take() {
            self.module = self.module.take().map(|module| buffers.restore(module));
        }
    }
}

impl<M: Module> AnyLearner for Learner<M> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn begin(&mut self) {
        (self.accumulator, self.prepared) = (Accumulator::default(), None);
        self.buffers = Some(Buffers::of(self.module()));
        recording::serves(Purpose::Weights, self.module());
        self.average.iter().for_each(|average| recording::serves(Purpose::Average, average.module()));
    }

    fn abandon(&mut self) {
        (self.accumulator, self.prepared) = (Accumulator::default(), None);
        if self.buffers.is_some() {
            self.restore_buffers();
        }
    }

    fn accumulate(&mut self, loss: Tensor<1>, share: f64) {
        let factor = share * self.scaler.scale();
        let loss = if factor == 1.0 { loss } else { loss.mul_scalar(factor) };
        let gradients = leanburn_ops::backward(loss).take_module(self.module());
        note_gradients(self.module(), &gradients);
        let module = self.module.as_ref().expect("only absent during a step");
        self.accumulator.add(module, gradients);
    }

    fn prepare(&mut self) {
        let (loss_scale, max_norm) = (self.scaler.scale(), self.config.max_grad_norm);
        let gradients = self.accumulator.take();
        self.prepared = gradients.map(|gradients| prepare_gradients(self.module(), gradients, loss_scale, max_norm));
    }

    fn step(&mut self, step: u64) -> Option<LearnerReport> {
        let prepared = self.prepared.take()?;
        let loss_scale = self.scaler.scale();
        let learning_rate = self.schedule.at(step);
        let finite = prepared.norm.is_finite();
        match finite {
            true => self.update(learning_rate, prepared.gradients),
            false => self.restore_buffers(),
        }
        self.scaler.update(finite);
        Some(LearnerReport {
            learner: self.name.to_string(),
            learning_rate,
            gradient_norm: prepared.norm,
            loss_scale,
            skipped: !finite,
        })
    }

    fn memory(&self) -> LearnerMemory {
        let weights = parameter_bytes(self.module());
        LearnerMemory {
            weights,
            gradients: weights,
            optimizer: self.config.optimizer.state_bytes(weights),
            average: if self.average.is_some() { weights } else { 0 },
        }
    }

    fn save(&self, folder: &Path) -> Result<(), TrainError> {
        let files = LearnerFiles { folder, name: self.name };
        files.save_module(WEIGHTS, self.module())?;
        files.save_optimizer(&self.optimizer)?;
        if let Some(average) = &self.average {
            files.save_module(AVERAGE, average.module())?;
        }
        files.save_scaler(&self.scaler)
    }

    fn load<'a>(&'a mut self, folder: &Path) -> Result<Restore<'a>, TrainError> {
        let files = LearnerFiles { folder, name: self.name };
        // copies that share no running statistics with what is here
        let module = files.load_module(WEIGHTS, self.module().valid().train())?;
        let optimizer = files.load_optimizer(self.config.optimizer.init())?;
        let scaler = files.load_scaler(self.config.loss_scale)?;
        let average = match &self.average {
            Some(average) => Some(files.load_module(AVERAGE, average.module().valid())?),
            None => None,
        };
        Ok(Box::new(move || {
            (self.module, self.optimizer, self.scaler) = (Some(module), optimizer, scaler);
            (self.accumulator, self.prepared, self.buffers) = (Accumulator::default(), None, None);
            if let (Some(here), Some(average)) = (&mut self.average, average) {
                here.set(average);
            }
        }))
    }
}

/// Whether the module is on a recording device.
fn is_recorded<M: Module>(module: &M) -> bool {
    module.devices().iter().any(is_recording)
}

/// Tells a recording device which tensors are gradients of weights.
fn note_gradients<M: Module>(module: &M, gradients: &GradientsParams) {
    struct Collect<'a>(&'a GradientsParams, Vec<DispatchTensor>);
    impl ModuleVisitor for Collect<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.1.extend(self.0.get::<D>(param.id).map(Tensor::into_dispatch));
        }
    }
    if is_recorded(module) {
        let mut collect = Collect(gradients, Vec::new());
        module.visit(&mut collect);
        recording::tensors_serve(Purpose::Gradients, collect.1);
    }
}

/// Bytes of a module's parameters and buffers.
fn parameter_bytes<M: Module>(module: &M) -> u64 {
    struct Count(u64);
    impl ModuleVisitor for Count {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let tensor = param.val();
            self.0 += (tensor.shape().num_elements() * tensor.dtype().size()) as u64;
        }
    }
    let mut count = Count(0);
    module.visit(&mut count);
    count.0
}
