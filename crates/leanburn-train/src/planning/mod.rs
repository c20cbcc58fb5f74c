//! Plans of training steps, and what fits a budget, for any model: one call from a function that builds a [`Trainer`](crate::Trainer).
//!
//! | question | call |
//! |---|---|
//! | What will this step need on the CPU, on the card that is here, on a card of the catalogue? | [`Planner::plan`] |
//! | What is the fastest way to train with this effective batch within a budget? | [`Planner::fit`] |
//! | Which plans does no other beat in both memory and time? | [`Planner::options`] |
//! | What do real steps take? | [`measure()`] |
//!
//! Nothing is computed: the trainer's own step is recorded ([`record_step`](crate::record_step)), and the size of the tensors
//! costs neither time nor memory.
//!
//! # Example
//!
//! ```
//! use burn::nn::{Linear, LinearConfig};
//! use burn::tensor::{Device, Tensor};
//! use leanburn_common::Bytes;
//! use leanburn_train::planning::{Planner, StepSetup};
//! use leanburn_train::{AnyLearner, Learner, LearnerConfig, Losses, StepPosition, TrainError, Trainer, TrainerConfig, Workload};
//!
//! /// Layers that may be recomputed one by one: the policy of the setup names them.
//! struct Layers(Learner<Vec<Linear>>, StepSetup);
//!
//! impl Workload for Layers {
//!     type Batch = Tensor<2>;
//!
//!     fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
//!         vec![&mut self.0]
//!     }
//!
//!     fn loss(&mut self, _learner: usize, batch: &Tensor<2>, _position: StepPosition) -> Option<Losses> {
//!         let mut x = batch.clone();
//!         for (index, layer) in self.0.module().iter().enumerate() {
//!             let layer_forward = |layer: &Linear, x: Tensor<2>| layer.forward(x).tanh();
//!             x = self.1.residency.run(&format!("layer_{index}"), layer, x, layer_forward);
//!         }
//!         Some(Losses::of(x.powi_scalar(2).mean(), Vec::new()))
//!     }
//! }
//!
//! let build = |setup: &StepSetup, device: &Device| {
//!     let layers: Vec<Linear> = (0..4).map(|_| LinearConfig::new(256, 256).init(device)).collect();
//!     let learner = Learner::new("layers", layers, LearnerConfig::default())?;
//!     let config = TrainerConfig::default().with_accumulation_steps(setup.accumulation_steps);
//!     Ok::<_, TrainError>(Trainer::new(Layers(learner, setup.clone()), config, device))
//! };
//! let batch = |setup: &StepSetup, device: &Device| Tensor::<2>::zeros([1024 * setup.micro_batch, 256], device);
//!
//! let fitted = Planner::cpu().within(Bytes::mib(24)).fit(4, build, batch)?;
//! assert!(fitted.peak <= Bytes::mib(24));
//! let trainer = build(&fitted.setup, &Device::flex().autodiff())?;
//! # assert_eq!(trainer.steps(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod fit;
mod measure;
mod planner;
mod processor;
mod setup;
mod step_plan;

pub use fit::{DoesNotFit, FitError, Fitted, Options};
pub use measure::{Measured, measure};
pub use planner::Planner;
pub use processor::{SaveRatesError, measure_processor, processor_rates, save_processor_rates};
pub use setup::StepSetup;
pub use step_plan::StepPlan;
