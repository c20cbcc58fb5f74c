//! Systems that can be trained, from a typed configuration to a finished run.
//!
//! A *system* is a model with its data, its losses and its evaluation: the [KL autoencoder](autoencoder), the
//! [voxel autoencoder](vae3d), the [discrete autoencoder](vq_vae), [forecasters](forecaster),
//! [neural operators](operator), [super-resolution](super_resolution) of fields, [segmentation], [diffusion] of latents.
//! Each is one folder that implements one trait, [`System`]; everything else works on that trait.
//!
//! - [`Config`] is what a run is configured by: built in code, or read from YAML with every error at once.
//! - [`planning`] says what a step will need before it runs, and finds the fastest way to train within a budget.
//! - [`session`] trains: evaluation, checkpoints, resume bit for bit, stepping down when memory runs out.
//! - [`device`] finds devices by name.
//!
//! Nothing here prints; an [`Observer`] can.
//!
//! # Example
//!
//! ```no_run
//! use leanburn_data::{DataConfig, PhantomConfig};
//! use leanburn_systems::{AutoencoderSection, Config, Observed, Observer, Session, TrainingSection};
//! use leanburn_train::StepReport;
//!
//! struct Losses(Vec<f64>);
//!
//! impl Observer for Losses {
//!     fn stepped(&mut self, report: &StepReport) -> Observed {
//!         self.0.push(report.losses["reconstruction"]);
//!         Ok(())
//!     }
//! }
//!
//! let training = TrainingSection::default().with_max_steps(20).with_learning_rate(1e-3);
//! let model = AutoencoderSection::new(vec![8, 16]).with_norm_num_groups(4).with_training(training);
//! let phantom = PhantomConfig { count: 4, shape: [32; 3], ..PhantomConfig::default() };
//! let config = Config::new(model).with_data(DataConfig { phantom: Some(phantom), ..DataConfig::default() });
//!
//! let mut losses = Losses(Vec::new());
//! let outcome = Session::new(config)?.in_folder("runs/phantoms").with_observer(&mut losses).run()?;
//! println!("{} steps, weights in {}", outcome.steps, outcome.folder.weights().display());
//! # Ok::<(), leanburn_systems::SystemError>(())
//! ```

mod any_system;
pub mod autoencoder;
mod batch;
pub mod bev;
mod codec;
mod codec_memory;
mod config;
mod data;
mod data_facts;
pub mod device;
pub mod diffusion;
mod error;
mod evaluation;
mod field_predictor;
pub mod forecaster;
pub mod guide_config;
mod machine;
pub mod measure;
pub mod metrics;
mod next;
mod normalization;
pub mod operator;
pub mod picture;
pub mod planning;
mod preview;
mod recipe;
mod run;
mod run_folder;
pub mod segmentation;
pub mod session;
mod shared;
pub mod super_resolution;
mod system;
mod table;
pub mod vae3d;
pub mod volume;
pub mod vq_vae;
mod weight_source;
pub mod yaml;

pub use autoencoder::{AutoencoderObjectiveSection, AutoencoderSection, DiscriminatorSection};
pub use batch::{Batch, Batches};
pub use bev::{BackboneSection, BevObjectiveSection, BevSection};
pub use codec::{Codec, CodecShape, LatentModel};
pub use codec_memory::CodecTask;
pub use config::{Config, NeededRun};
pub use data::{Data, DataSize};
pub use diffusion::{DiffusionObjectiveSection, DiffusionSection};
pub use error::{Result, SystemError};
pub use evaluation::{Curves, L1, Metrics, PictureLabel};
pub use field_predictor::FieldPredictor;
pub use forecaster::{ForecastObjectiveSection, ForecasterSection, ModelType};
pub use machine::{forget_resident_peak, heap_limit, machine_memory, resident_peak};
pub use operator::{OperatorLoss, OperatorModel, OperatorObjectiveSection, OperatorSection};
pub use preview::{DataPreview, PreviewedSample};
pub use recipe::Recipe;
pub use run_folder::{KeyChange, RunFolder};
pub use segmentation::{
    DynUnetSection, SegmentationNetwork, SegmentationObjectiveSection, SegmentationSection, SwinUnetrSection,
    UnetSection,
};
pub use session::{Observed, Observer, OnOutOfMemory, Outcome, Session};
pub use shared::{
    Allocator, CodebookSection, Compression, Context, DeviceSection, FirstStage, LatentsSection, LossScale,
    LpipsSection, OpenFirstStage, PerceptualSection, Recompute, Source, StorageSection, Streaming, Training,
    TrainingSection, VoxelObjectiveSection,
};
pub use super_resolution::{
    EdsrSection, Sr3Section, SuperResolutionLoss, SuperResolutionNetwork, SuperResolutionObjectiveSection,
    SuperResolutionSection, UNet2dSection,
};
pub use system::{DataOf, FlatKey, ModelChange, NamedSize, System};
pub use table::{SystemSection, guides, recipes};
pub use vae3d::{Vae3dObjectiveSection, Vae3dSection, VaeType};
pub use vq_vae::VqVaeSection;
pub use weight_source::{Initialized, WeightSource, weights_of};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
