//! A module and everything that goes with training it.

use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use leanburn_common::Bytes;
use leanburn_ops::recording::{self, TensorRole};

use crate::any_learner::{AnyLearner, LearnerMemory, Restore};
use crate::buffers::Buffers;
use crate::companions::Companions;
use crate::error::TrainError;
use crate::gradient_sums::summed;
use crate::gradients::{Accumulator, Prepared, prepare_gradients, prepare_of_norm};
use crate::learner_config::LearnerConfig;
use crate::learner_files::{LearnerFiles, WEIGHTS};
use crate::loss_scale::LossScaler;
use crate::optimizer_states::{joined, kept};
use crate::prepared_step::{EndStep, LearnerReport, PreparedStep};
use crate::ranks::Group;
use crate::recorded_optimizer::{RecordedOptimizer, is_recorded, tag_gradients};
use crate::schedule::Schedule;
use crate::sharding::{Sharding, with_ids_of_leader};

/// A module with its optimizer, accumulated gradients, loss scale and averages of weights, and a teacher if it has one.
pub struct Learner<M: Module> {
    name: &'static str,
    config: LearnerConfig,
    module: Option<M>,
    optimizer: ModuleOptimizer,
    schedule: Schedule,
    scaler: LossScaler,
    accumulator: Accumulator<M>,
    companions: Companions<M>,
    /// Running statistics after the last step.
    buffers: Buffers,
    /// Stands in for the optimizer on a recording device.
    recorded: Option<RecordedOptimizer>,
    /// What this rank updates, where that is not everything.
    sharding: Option<Sharding>,
    /// The states of all ranks, for a checkpoint.
    states: Option<ModuleOptimizer>,
}

impl<M: Module> std::fmt::Debug for Learner<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Learner").field("name", &self.name).field("config", &self.config).finish_non_exhaustive()
    }
}

impl<M: Module> Learner<M> {
    /// A learner of `module` that has not taken a step.
    ///
    /// # Errors
    ///
    /// [`TrainError::Config`] with everything that is wrong with the configuration, [`TrainError::Schedule`].
    pub fn new(name: &'static str, module: M, config: LearnerConfig) -> Result<Self, TrainError> {
        TrainError::reject(name, config.validate())?;
        parameter_bytes(&module); // initialises lazy parameters now, from the seed of now
        Ok(Self {
            name,
            optimizer: config.optimizer.init(),
            schedule: config.schedule.init()?,
            scaler: LossScaler::new(config.loss_scale),
            accumulator: Accumulator::default(),
            companions: Companions::new(&module, config.average_decay),
            recorded: is_recorded(&module).then(|| RecordedOptimizer::new(&config.optimizer)),
            sharding: None,
            states: None,
            buffers: Buffers::of(&module),
            module: Some(module),
            config,
        })
    }

    /// The module in training.
    pub fn module(&self) -> &M {
        self.module.as_ref().expect("only absent during a step")
    }

    /// The module to use: averaged weights if there are, without autodiff.
    pub fn trained(&self) -> M {
        self.companions.average().unwrap_or(self.module()).valid() // a clone would share its running statistics
    }

    /// Has a second average follow the weights, with a decay for each step: what the loss compares with, as that of a consistency model.
    ///
    /// # Memory
    ///
    /// One more copy of the weights.
    #[must_use]
    pub fn with_target(mut self, decay: impl Fn(u64) -> f64 + Send + Sync + 'static) -> Self {
        let module = self.module.as_ref().expect("only absent during a step");
        self.companions.set_target(module, decay);
        self
    }

    /// The module with the weights of that average, without autodiff.
    pub fn target(&self) -> Option<&M> {
        self.companions.target()
    }

    /// Has a module without autodiff that is learned from, of the learner's size. It never changes, and is in no checkpoint.
    ///
    /// # Memory
    ///
    /// The weights of the teacher.
    pub fn set_teacher(&mut self, teacher: M) {
        self.companions.set_teacher(teacher);
    }

    /// The module that is learned from.
    pub fn teacher(&self) -> Option<&M> {
        self.companions.teacher()
    }

    /// Changes the module before its first step, as where its weights come from a file; their averages start there too.
    pub fn initialize<R>(&mut self, change: impl FnOnce(&mut M) -> R) -> R {
        let module = self.module.as_mut().expect("only absent during a step");
        let result = change(module);
        self.companions.restart(module);
        self.buffers = Buffers::of(module);
        result
    }

    fn update(&mut self, step: u64, learning_rate: f64, gradients: GradientsParams) {
        let module = self.module.take().expect("only absent during a step");
        let module = match &mut self.recorded {
            None => self.optimizer.step(learning_rate, module, gradients),
            Some(recorded) => recorded.step(learning_rate, module, gradients),
        };
        self.module = Some(match self.sharding.as_ref().filter(|sharding| !sharding.is_planned()) {
            Some(sharding) => sharding.gathered(module),
            None => module,
        });
        self.module.iter().for_each(|module| self.companions.follow(module, step));
    }

    fn restore_buffers(&mut self) {
        self.module = self.module.take().map(|module| self.buffers.restore(module));
    }
}

impl<M: Module> EndStep for Learner<M> {
    fn take(&mut self, gradients: Option<Prepared>, step: u64) -> Option<LearnerReport> {
        let report = gradients.map(|Prepared { gradients, norm }| {
            let (learning_rate, loss_scale) = (self.schedule.at(step), self.scaler.scale());
            let finite = norm.is_finite();
            match finite {
                true => self.update(step, learning_rate, gradients),
                false => self.restore_buffers(),
            }
            self.scaler.update(finite);
            let learner = self.name.to_string();
            LearnerReport { learner, learning_rate, gradient_norm: norm, loss_scale, skipped: !finite }
        });
        self.buffers = Buffers::of(self.module());
        report
    }

    fn abandon(&mut self) {
        self.accumulator = Accumulator::default();
        self.restore_buffers();
    }
}

impl<M: Module> AnyLearner for Learner<M> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn devices(&self) -> Vec<Device> {
        self.module().devices()
    }

    fn steps_to_settle(&self) -> u64 {
        self.config.optimizer.steps_to_settle()
    }

    fn tag_tensors(&self) {
        recording::tag_module(TensorRole::Weights, self.module());
        self.companions.tag_tensors();
    }

    fn accumulate(&mut self, loss: Tensor<1>, share: f64) {
        let factor = share * self.scaler.scale();
        let loss = if factor == 1.0 { loss } else { loss.mul_scalar(factor) };
        let gradients = leanburn_ops::backward(loss).take_module(self.module());
        tag_gradients(self.module(), &gradients);
        let module = self.module.as_ref().expect("only absent during a step");
        self.accumulator.add(module, gradients);
    }

    fn join(&mut self, group: &Group, more_follow: bool) {
        if group.is_alone() {
            return;
        }
        let gradients = self.accumulator.take();
        let module = self.module.as_ref().expect("only absent during a step");
        let sums = match &mut self.sharding {
            Some(sharding) if !more_follow => sharding.sums(module, gradients),
            _ => summed(group, module, gradients).filter(|_| group.leads() || !more_follow),
        };
        if let Some(sums) = sums {
            self.accumulator.add(module, sums);
        }
        self.module = self.module.take().map(|module| Buffers::of_leader(group, module));
    }

    fn shard(&mut self, group: &Group) {
        let module = self.module.take().expect("only absent during a step");
        let module = with_ids_of_leader(group, module);
        let sharding = Sharding::new(&module, group.clone());
        let states = kept(&self.config.optimizer, self.optimizer.to_record(), &module, |index| sharding.is_own(index));
        self.optimizer = self.config.optimizer.init().load_record(states);
        (self.module, self.sharding) = (Some(module), Some(sharding));
    }

    fn plan_shard(&mut self, ranks: usize) {
        self.sharding = Some(Sharding::planned(self.module(), ranks));
    }

    fn gather_states(&mut self) {
        let Some(sharding) = &self.sharding else { return };
        let here = self.optimizer.into_bytes().expect("states in memory");
        let all = sharding.group().to_leader(&here);
        self.states = (!all.is_empty())
            .then(|| joined(&self.config.optimizer, all, self.module(), |index| sharding.owner(index)));
    }

    fn prepare(&mut self) -> PreparedStep<'_> {
        let (loss_scale, max_norm) = (self.scaler.scale(), self.config.max_grad_norm);
        let gradients = self.accumulator.take();
        let module = self.module();
        let prepared = gradients.map(|gradients| match &self.sharding {
            None => prepare_gradients(module, gradients, loss_scale, max_norm),
            Some(sharding) if sharding.is_planned() => {
                prepare_gradients(module, sharding.own(module, gradients), loss_scale, max_norm)
            }
            Some(sharding) => {
                let norm = f64::from(sharding.squares()).sqrt();
                prepare_of_norm(module, gradients, norm, (loss_scale, max_norm))
            }
        });
        PreparedStep::new(self, prepared)
    }

    fn abandon(&mut self) {
        EndStep::abandon(self);
    }

    fn memory(&self) -> LearnerMemory {
        let weights = parameter_bytes(self.module());
        let [average, target, teacher] = self.companions.memory(weights);
        LearnerMemory {
            weights,
            gradients: weights,
            optimizer: match &self.sharding {
                Some(sharding) => sharding.state_bytes(&self.config.optimizer, self.module()),
                None => self.config.optimizer.state_bytes(self.module()),
            },
            average,
            target,
            teacher,
        }
    }

    fn save(&mut self, folder: &Path) -> Result<(), TrainError> {
        let files = LearnerFiles { folder, name: self.name };
        files.save_module(WEIGHTS, self.module())?;
        let gathered = self.states.take();
        if self.sharding.is_some() && gathered.is_none() {
            return Err(TrainError::writing(folder, "the optimizer states of the other ranks were not gathered"));
        }
        files.save_optimizer(gathered.as_ref().unwrap_or(&self.optimizer))?;
        self.companions.save(&files)?;
        files.save_scaler(&self.scaler)
    }

    fn load<'a>(&'a mut self, folder: &Path) -> Result<Restore<'a>, TrainError> {
        let files = LearnerFiles { folder, name: self.name };
        // copies that share no running statistics with what is here
        let module = files.load_module(WEIGHTS, self.module().valid().train())?;
        let mut optimizer = files.load_optimizer(self.config.optimizer.init())?;
        if let Some(sharding) = &self.sharding {
            let states = kept(&self.config.optimizer, optimizer.to_record(), &module, |index| sharding.is_own(index));
            optimizer = self.config.optimizer.init().load_record(states);
        }
        let scaler = files.load_scaler(self.config.loss_scale)?;
        let companions = self.companions.load(&files)?;
        Ok(Box::new(move || {
            (self.module, self.optimizer, self.scaler) = (Some(module), optimizer, scaler);
            self.accumulator = Accumulator::default();
            self.buffers = Buffers::of(self.module());
            self.companions.restore(companions);
        }))
    }
}

/// Size of a module's parameters and buffers.
fn parameter_bytes<M: Module>(module: &M) -> Bytes {
    struct Count(u64);
    impl ModuleVisitor for Count {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let tensor = param.val();
            self.0 += (tensor.shape().num_elements() * tensor.dtype().size()) as u64;
        }
    }
    let mut count = Count(0);
    module.visit(&mut count);
    Bytes(count.0)
}
