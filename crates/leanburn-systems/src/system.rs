//! What a system is: the one trait that a contributor implements.

use std::fmt::Debug;
use std::path::Path;

use burn::tensor::Device;
use image::RgbImage;
use leanburn_common::ValidationError;
use leanburn_data::{DataConfig, SequenceConfig};
use leanburn_nn::weights::{MonaiWeights, WeightsError, load_matching, save_safetensors};
use leanburn_plan::Knob;
use leanburn_train::{MainModel, Precision};
use serde::Serialize;

use crate::batch::Batch;
use crate::codec::Codec;
use crate::error::Result;
use crate::evaluation::{Curves, Metrics, PictureLabel};
use crate::field_predictor::FieldPredictor;
use crate::recipe::Recipe;
use crate::shared::{Context, Source, TrainingSection, trained_parameters};
use crate::weight_source::{Initialized, WeightSource};
use crate::yaml::Section;

/// Something that can be trained: a model with its data, its losses and its evaluation.
///
/// The type that implements it is the system's section of a configuration, a plain struct. Everything else (planning,
/// sessions, checkpoints, resume, the command) works on this trait and on nothing else of a system.
///
/// # Adding a system
///
/// 1. A folder of this crate with the section, its `impl System`, its recipes and its pictures.
/// 2. A line in the table of `table.rs`.
/// 3. Recipes in `configs/`, keys in `docs/configuration.md`.
///
/// The existing ones are the examples: [`vq_vae`](crate::vq_vae) is the smallest, [`autoencoder`](crate::autoencoder) has two
/// learners, [`forecaster`](crate::forecaster) has batches and data of its own kind.
pub trait System: Clone + Debug + PartialEq + Serialize + Send + Sync + 'static {
    /// A micro-batch.
    type Batch: Batch;
    /// The models with their optimizers, and their losses.
    type Workload: MainModel<Batch = Self::Batch, Model: MonaiWeights>;

    /// The name of the section in YAML.
    const NAME: &'static str;
    /// What it is trained on.
    const SOURCE: Source = Source::Volumes;
    /// Keys that a guide writes at the top of its file, and where they belong here.
    const FLAT_KEYS: &'static [FlatKey] = &[];
    /// Configurations to start from, smallest memory first.
    const RECIPES: &'static [Recipe];
    /// How its pictures are called.
    const PICTURE: PictureLabel;
    /// Charts of its losses and metrics.
    const CURVES: &'static [Curves];
    /// Validation metrics that are the better the nearer to zero, as are those named after them (`loss`: `loss_noise_1` too).
    const ERRORS: &'static [&'static str];
    /// Names of the [knobs](Self::knobs), which are keys of the section `training`: they change memory and time and no result.
    const KNOBS: &'static [&'static str] = &[];
    /// Whether several processes can hold a volume together, each a share of its planes.
    const SHARES_VOLUMES: bool = false;
    /// What to change where an evaluation does not fit into memory, in words that follow "with".
    const SMALLER_EVALUATION: &'static str =
        "a smaller data.patch_size: validation and pictures take one patch of it at a time";
    /// The configuration of a guide whose [sizes](Self::sizes) are worth a table, as YAML.
    const GUIDE: Option<&'static str> = None;

    /// Reads the section, behind those that say what it is trained on.
    fn read(section: &mut Section<'_>, on: &TrainedOn<'_>) -> Self;

    /// What is wrong with the section, alone and with the rest of the configuration. Keys are full paths.
    fn validate(&self, context: &Context<'_>) -> Vec<ValidationError>;

    /// How it is trained.
    fn training(&self) -> &TrainingSection;

    /// How it is trained, to change.
    fn training_mut(&mut self) -> &mut TrainingSection;

    /// Channels of a sample.
    fn in_channels(&self) -> usize;

    /// Has everything take part from the first step, for plans and measurements.
    fn start_at_once(&mut self) {}

    /// Builds models and learners of a [valid](Self::validate) section, with weights drawn from the seed.
    ///
    /// # Errors
    ///
    /// [`SystemError::Config`](crate::SystemError::Config) where a segment to recompute is not there, and what a file that is
    /// needed cannot give.
    ///
    /// # Panics
    ///
    /// Panics with the errors of a section that is not valid.
    fn build(&self, context: &Context<'_>, device: &Device) -> Result<Self::Workload>;

    /// A trained model that the models of this section learn from, its run or its weights.
    fn teacher(&self) -> Option<&Path> {
        None
    }

    /// Puts the weights of the [teacher](Self::teacher) in place before a run. Plans and measurements do without, as sizes do not depend on
    /// them.
    ///
    /// # Errors
    ///
    /// If it is not there, or cannot be a teacher of these models.
    fn learn_from(&self, _workload: &mut Self::Workload, _context: &Context<'_>, _device: &Device) -> Result<()> {
        Ok(())
    }

    /// Numbers of the model that are trained.
    fn parameters(workload: &Self::Workload) -> usize {
        trained_parameters(workload.model().module())
    }

    /// Writes the trained weights to `path`, and those of other models beside it.
    ///
    /// # Errors
    ///
    /// As [`save_safetensors`](leanburn_nn::weights::save_safetensors).
    fn save_weights(workload: &Self::Workload, path: &Path) -> std::result::Result<(), WeightsError> {
        save_safetensors(&workload.model().trained(), path)
    }

    /// Puts the weights of a source into the models before the first step. What does not fit stays as it was drawn.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or has nothing of its model.
    fn initialize(workload: &mut Self::Workload, source: &WeightSource) -> Result<Vec<Initialized>> {
        Ok(vec![source.initialize(workload.model_mut(), load_matching)?])
    }

    /// The trained model as a codec of volumes, with weights from a file, on a device without autodiff; none if it is no codec.
    ///
    /// # Errors
    ///
    /// As [`load`](leanburn_nn::weights::load).
    fn codec(&self, _context: &Context<'_>, _weights: &Path, _device: &Device) -> Result<Option<Codec>> {
        Ok(None)
    }

    /// The trained model as one that predicts fields, with weights from the folder of a run, on a device without autodiff; none if it does
    /// not.
    ///
    /// # Errors
    ///
    /// As [`load`](leanburn_nn::weights::load), and where the run's `normalization.json` is missing.
    fn predictor(&self, _context: &Context<'_>, _weights: &Path, _device: &Device) -> Result<Option<FieldPredictor>> {
        Ok(None)
    }

    /// Checks that the models can take a sample, `[channels, depth, height, width]`; `name` is the sample's.
    ///
    /// # Errors
    ///
    /// [`SystemError::Shape`](crate::SystemError::Shape), [`SystemError::Input`](crate::SystemError::Input).
    fn check_sample(&self, name: &str, shape: [usize; 4]) -> Result<()>;

    /// By how much depth, height and width are divided: sizes of samples must be multiples of it.
    fn multiples(&self) -> [usize; 3] {
        [1; 3]
    }

    /// Means over the validation samples; empty if there are none.
    ///
    /// # Errors
    ///
    /// If a sample cannot be read.
    fn evaluate(&self, workload: &Self::Workload, data: &DataOf<Self>, device: &Device) -> Result<Metrics>;

    /// Truth beside what the models make of it.
    ///
    /// # Errors
    ///
    /// If there is no sample, or it cannot be drawn.
    fn picture(&self, workload: &Self::Workload, data: &DataOf<Self>, device: &Device) -> Result<RgbImage>;

    /// Changes of the model that save memory, each alone.
    fn smaller(&self) -> Vec<ModelChange<Self>> {
        Vec::new()
    }

    /// The sizes of the model that have names, the largest first, for a table side by side.
    fn sizes(&self) -> Vec<NamedSize<Self>> {
        Vec::new()
    }

    /// What a knob is set to; none where it is as fast as it goes.
    fn knob(&self, _name: &str) -> Option<usize> {
        None
    }

    /// Sets a knob, or has it as fast as it goes.
    fn set_knob(&mut self, _name: &str, _value: Option<usize>) {}

    /// The knobs that this model has, with the values that the planner may set for a micro-batch of an extent.
    fn knobs(&self, _micro_batch: usize, _extent: [usize; 3]) -> Vec<Knob> {
        Vec::new()
    }
}

/// The opened data of a system.
pub type DataOf<S> = <<S as System>::Batch as Batch>::Data;

/// A key that a guide writes at the top of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlatKey {
    /// The key.
    pub key: &'static str,
    /// The section that it belongs in.
    pub section: &'static str,
    /// Whether its presence says that the system is the one that is meant.
    pub is_telling: bool,
}

/// A change of the model that saves memory.
#[derive(Debug, Clone)]
pub struct ModelChange<S> {
    /// What is changed, such as `vae3d.vae_type = lightweight`.
    pub text: String,
    /// What it costs, in words.
    pub cost: &'static str,
    /// The section with the change.
    pub section: S,
}

/// A size of the model that has a name.
#[derive(Debug, Clone)]
pub struct NamedSize<S> {
    /// The name.
    pub name: String,
    /// The section with that size.
    pub section: S,
    /// The precision, where that is part of it.
    pub precision: Option<Precision>,
}

/// What a configuration says of the data, before the section of the system is read.
#[derive(Debug, Clone, Copy)]
pub struct TrainedOn<'a> {
    /// The volumes.
    pub data: &'a DataConfig,
    /// The fields, for systems of [fields](Source::Fields).
    pub sequence: Option<&'a SequenceConfig>,
}

impl<S> ModelChange<S> {
    /// The change of a system that halves the channels of its model, which a key has, and whose section is then `section` of them; none where they are
    /// as few as they can be.
    pub(crate) fn half_of(key: &str, channels: &[usize], section: impl FnOnce(Vec<usize>) -> S) -> Vec<Self> {
        let half = half(channels);
        if half == channels {
            return Vec::new();
        }
        let text = format!("{key} = {half:?}");
        vec![Self { text, cost: "a smaller model: a quarter of the weights", section: section(half) }]
    }

    /// The same of another type of section.
    pub(crate) fn into<T: From<S>>(self) -> ModelChange<T> {
        ModelChange { text: self.text, cost: self.cost, section: self.section.into() }
    }
}

/// Half of each, one at least.
pub(crate) fn half(channels: &[usize]) -> Vec<usize> {
    channels.iter().map(|channels| channels.div_ceil(2)).collect()
}

impl<S> NamedSize<S> {
    /// The same of another type of section.
    pub(crate) fn into<T: From<S>>(self) -> NamedSize<T> {
        NamedSize { name: self.name, section: self.section.into(), precision: self.precision }
    }
}
