//! The configuration as a whole.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use leanburn_common::{Bytes, Validation, ValidationError};
use leanburn_data::{DataConfig, Progress, SceneConfig, SequenceConfig, batches_ahead, find_volumes};
use serde::Serialize;

use super::{diffsr, flat, staged};
use crate::codec::Codec;
use crate::data::DataSize;
use crate::error::{Result, SystemError};
use crate::evaluation::{Curves, PictureLabel};
use crate::field_predictor::FieldPredictor;
use crate::preview::DataPreview;
use crate::shared::{
    Context, DeviceSection, FirstStage, LatentsSection, Source, TrainingSection, read_data, read_scenes, read_sequence,
    reject,
};
use crate::system::{NamedSize, TrainedOn};
use crate::table::{Entry, NAMES, SYSTEMS, SystemSection};
use crate::weight_source::weights_of;
use crate::yaml::{ConfigError, ConfigErrorKind, ConfigErrors, MAX_BYTES, Node, Place, Reader, apply, too_large};

/// All that a training run is configured by, defaults filled in.
///
/// # Example
///
/// ```
/// use leanburn_data::{DataConfig, PhantomConfig};
/// use leanburn_systems::{AutoencoderSection, Config, TrainingSection};
///
/// let training = TrainingSection::default().with_max_steps(20);
/// let model = AutoencoderSection::new(vec![8, 16]).with_norm_num_groups(4).with_training(training);
/// let data = DataConfig { phantom: Some(PhantomConfig::default()), ..DataConfig::default() };
/// let config = Config::new(model).with_data(data);
/// assert!(config.validate().is_empty());
/// assert!(config.to_yaml().contains("num_channels"));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Config {
    /// The seed of all randomness. Default: 42.
    pub seed: u64,
    /// What is trained on. Relative paths start from the current directory.
    #[serde(skip_serializing_if = "is_default")]
    pub data: DataConfig,
    /// What a forecaster is trained on, in place of `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<SequenceConfig>,
    /// Of which autoencoder the latents are that a diffusion model is trained on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latents: Option<LatentsSection>,
    /// The road scenes that a model of maps is trained on, in place of `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenes: Option<SceneConfig>,
    /// The model and how it is trained.
    #[serde(flatten)]
    pub system: SystemSection,
    /// What computes, and in which precision.
    pub device: DeviceSection,
    /// What of the file of a guide is left out, for people.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// A run whose weights another run needs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NeededRun {
    /// What it is for the other, such as `first stage`.
    pub role: &'static str,
    /// The key that names it.
    pub key: &'static str,
    /// The file of its weights.
    pub weights: PathBuf,
    /// Which stage it is of a guide's file of several, counted from 1.
    pub stage: usize,
}

/// The seed where none is given.
const SEED: u64 = 42;

impl Config {
    /// Opens the data and draws the first `count` training samples as the model will see them. `name` is what messages call the
    /// configuration; `progress` is called after each volume.
    ///
    /// # Errors
    ///
    /// [`SystemError::Config`](crate::SystemError::Config), [`SystemError::Data`](crate::SystemError::Data).
    pub fn preview(&self, name: &str, count: u64, progress: &mut dyn FnMut(Progress<'_>)) -> Result<DataPreview> {
        self.check(name)?;
        self.system.any().preview(&self.context(name), count, progress)
    }

    /// A system with every other default, and no data yet.
    pub fn new(system: impl Into<SystemSection>) -> Self {
        let (system, data) = (system.into(), DataConfig::default());
        let sequence = (system.any().source() == Source::Fields).then(SequenceConfig::default);
        let latents = (system.any().source() == Source::Latents).then(|| LatentsSection::new(""));
        let scenes = (system.any().source() == Source::Scenes).then(SceneConfig::default);
        let device = DeviceSection::default();
        Self { seed: SEED, data, sequence, latents, scenes, system, device, notes: Vec::new() }
    }

    /// The same on other volumes.
    #[must_use]
    pub fn with_data(self, data: DataConfig) -> Self {
        Self { data, ..self }
    }

    /// The same on other fields, for systems that are trained on fields.
    #[must_use]
    pub fn with_sequence(self, sequence: SequenceConfig) -> Self {
        Self { sequence: Some(sequence), ..self }
    }

    /// The same on the latents of another autoencoder, for systems that are trained on latents.
    #[must_use]
    pub fn with_latents(self, latents: LatentsSection) -> Self {
        Self { latents: Some(latents), ..self }
    }

    /// The same on other road scenes, for systems that are trained on scenes.
    #[must_use]
    pub fn with_scenes(self, scenes: SceneConfig) -> Self {
        Self { scenes: Some(scenes), ..self }
    }

    /// The same on another device, or in another precision.
    #[must_use]
    pub fn with_device(self, device: DeviceSection) -> Self {
        Self { device, ..self }
    }

    /// The same with another seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Reads a YAML file and sets the overrides, each `section.key=value`.
    ///
    /// # Errors
    ///
    /// All errors of the file and of the overrides at once.
    pub fn load(path: &Path, overrides: &[String]) -> std::result::Result<Self, ConfigErrors> {
        let name = path.display().to_string();
        match read_text(path) {
            Ok(text) => Self::parse(&text, &name, overrides),
            Err(error) => Err(ConfigErrors::new(&name, "", vec![*error])),
        }
    }

    /// Reads YAML text and sets the overrides; errors name `source_name` as the file.
    ///
    /// # Errors
    ///
    /// All errors of the text and of the overrides at once.
    pub fn parse(text: &str, source_name: &str, overrides: &[String]) -> std::result::Result<Self, ConfigErrors> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut errors = Vec::new();
        let mut reader = Reader::new(NAMES);
        let parsed = Node::parse(text);
        let readable = parsed.is_ok();
        let mut root = parsed.unwrap_or_else(|error| {
            errors.push(*error);
            Node::empty()
        });
        reader.report_duplicates(&root, "");
        let mut overrides = overrides.to_vec();
        let staged = staged::settle(&mut root, &mut overrides)
            .map_err(|error| ConfigErrors::new(source_name, text, vec![*error]))?;
        let notes = [staged.notes, diffsr::notes(&root)].concat();
        flat::settle(&mut root);
        for text in &overrides {
            errors.extend(apply(&mut root, text).err().map(|error| *error));
        }
        flat::settle(&mut root);
        let config = Self { notes, ..Self::read(&mut reader, &root) };
        if readable {
            staged.contradictions.into_iter().chain(config.validate()).for_each(|error| reader.reject(error));
            errors.extend(reader.finish());
        }
        if errors.is_empty() { Ok(config) } else { Err(ConfigErrors::new(source_name, text, errors)) }
    }

    fn read(reader: &mut Reader, root: &Node) -> Self {
        let mut section = reader.root(root);
        let seed = section.get("seed", SEED);
        // without a section of a system, what it is trained on may say which one is meant
        let has_own_source = |entry: &&Entry| entry.source != Source::Volumes && section.has(entry.source.section());
        let named = SYSTEMS.iter().find(|entry| section.has(entry.name));
        let entry = named.or_else(|| SYSTEMS.iter().find(has_own_source)).unwrap_or(&SYSTEMS[0]);
        let data = match entry.source {
            Source::Volumes | Source::Latents => section.section("data", read_data),
            Source::Fields | Source::Scenes => DataConfig::default(),
        };
        let sequence = (entry.source == Source::Fields).then(|| section.section("sequence", read_sequence));
        let latents = (entry.source == Source::Latents).then(|| section.section("latents", LatentsSection::read));
        let scenes = (entry.source == Source::Scenes).then(|| section.section("scenes", read_scenes));
        let on = TrainedOn { data: &data, sequence: sequence.as_ref() };
        let system = section.section(entry.name, |section| (entry.read)(section, &on));
        let device = section.section("device", DeviceSection::read);
        let config = Self { seed, data, sequence, latents, scenes, system, device, notes: Vec::new() };
        section.close();
        config
    }

    /// What contradicts itself or cannot be: every error, with its key as a path such as `autoencoder.training.batch_size`.
    ///
    /// [`Config::parse`] and [`Config::load`] have done it. What shows only on the data or the device is not among it.
    pub fn validate(&self) -> Vec<ValidationError> {
        let below = |section: &str, errors: Vec<ValidationError>| {
            let mut validation = Validation::default();
            validation.extend_below(section, errors);
            validation.errors()
        };
        let (system, context) = (self.system.any(), self.context("the configuration"));
        let data = match (&self.sequence, &self.scenes) {
            (Some(sequence), _) => below("sequence", sequence.validate()),
            (None, Some(scenes)) => below("scenes", scenes.validate()),
            (None, None) => below("data", self.data.validate()),
        };
        let latents = self.latents.iter().flat_map(|latents| below("latents", latents.validate())).collect();
        let training = system.training();
        let training = [training.validate(), training.validate_volume_ranks(system.shares_volumes())].concat();
        let training = below(&format!("{}.training", system.name()), training);
        [data, latents, system.validate(&context), training, below("device", self.device.validate())].concat()
    }

    /// Rejects a configuration that is not [valid](Self::validate); messages call it `name`.
    ///
    /// # Errors
    ///
    /// [`SystemError::Config`](crate::SystemError::Config) with every error.
    pub fn check(&self, name: &str) -> Result<()> {
        reject(&self.context(name), self.validate())
    }

    /// The same of a configuration that is to be run: what it is trained on must be there.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn check_run(&self, name: &str) -> Result<()> {
        let mut errors = self.validate();
        if self.needs_volumes() && errors.iter().all(|error| error.key != "data.paths") {
            let mut source = Validation::default();
            source.extend_below("data", self.data.missing_source());
            errors.splice(0..0, source.errors());
        }
        reject(&self.context(name), errors)
    }

    /// All but the system; messages call the configuration `name`.
    pub fn context<'a>(&'a self, name: &'a str) -> Context<'a> {
        let Self { seed, data, sequence, latents, scenes, device, .. } = self;
        Context {
            name,
            seed: *seed,
            data,
            sequence: sequence.as_ref(),
            latents: latents.as_ref(),
            teacher: self.teacher(),
            scenes: scenes.as_ref(),
            first_stage: open_first_stage,
            samples: None,
            device,
            planned_ranks: 1,
        }
    }

    /// Names the device that is the best of this machine, where the configuration leaves that open.
    pub fn resolve_device(&mut self) {
        if self.device.name == "best" {
            self.device.name = crate::device::best().to_owned();
        }
    }

    /// A trained model that this one learns from, its run or its weights; none for most.
    pub fn teacher(&self) -> Option<&Path> {
        self.system.any().teacher()
    }

    /// The other runs that this one needs, in the order in which they are trained.
    pub fn needed_runs(&self) -> Vec<NeededRun> {
        let first = self.latents.as_ref().map(|latents| NeededRun {
            role: "first stage",
            key: "latents.autoencoder",
            weights: latents.weights(),
            stage: 1,
        });
        let teacher = self.teacher().map(|path| NeededRun {
            role: "teacher",
            key: "diffusion.consistency.teacher",
            weights: weights_of(path),
            stage: 2,
        });
        first.into_iter().chain(teacher).collect()
    }

    /// How the system is trained.
    pub fn training(&self) -> &TrainingSection {
        self.system.any().training()
    }

    /// How the system is trained, to change.
    pub fn training_mut(&mut self) -> &mut TrainingSection {
        self.system.any_mut().training_mut()
    }

    /// The name of the system: that of its section.
    pub fn system_name(&self) -> &'static str {
        self.system.any().name()
    }

    /// What the system is trained on.
    pub fn source(&self) -> Source {
        self.system.any().source()
    }

    /// How the system's pictures are called.
    pub fn picture_label(&self) -> PictureLabel {
        self.system.any().picture_label()
    }

    /// Charts of the system's losses and metrics.
    pub fn curves(&self) -> &'static [Curves] {
        self.system.any().curves()
    }

    /// Whether a validation metric is the better the nearer to zero: an [error](crate::System::ERRORS) of the system, or what is named after one,
    /// such as `relative_l2_lead_3`.
    pub fn is_error(&self, metric: &str) -> bool {
        let is_of =
            |error: &&str| metric.strip_prefix(*error).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
        self.system.any().errors().iter().any(is_of)
    }

    /// Keys of the system's `training` that change memory and time and no result.
    pub fn knob_names(&self) -> &'static [&'static str] {
        self.system.any().knob_names()
    }

    /// Channels of a sample.
    pub fn in_channels(&self) -> usize {
        self.system.any().in_channels()
    }

    /// Numbers that are trained. The models are built on the CPU for it.
    ///
    /// # Errors
    ///
    /// What keeps the models from being built.
    pub fn parameters(&self, name: &str) -> Result<usize> {
        self.check(name)?;
        self.system.any().parameters(&self.context(name))
    }

    /// What of the data a plan counts. Data is opened only where the configuration names no size of a sample; of volumes without
    /// `voxel_size` the first is read, and the others are taken to be as large. Where a size is named and data cannot be read, what it holds is
    /// unknown.
    ///
    /// # Errors
    ///
    /// If data that is needed cannot be read.
    pub fn data_size(&self, name: &str) -> Result<DataSize> {
        let unknown = |reason: String| DataSize { unknown: Some(reason), ..DataSize::default() };
        match self.extent() {
            None => self.system.any().data_size(&self.context(name), true),
            Some(_) if self.needs_volumes() && !self.data.missing_source().is_empty() => {
                Ok(unknown("no data is named".into()))
            }
            Some(_) => match self.system.any().data_size(&self.context(name), false) {
                Err(SystemError::Data(error)) => Ok(unknown(error.to_string())),
                size => size,
            },
        }
    }

    /// Extent of a training sample where the configuration names it: depth, height and width, of latents in their places; of fields the
    /// days that are seen, height and width; of scenes the cameras, height and width.
    pub fn extent(&self) -> Option<[usize; 3]> {
        if let Some(scenes) = &self.scenes {
            let [height, width] = scenes.image_size;
            return Some([scenes.camera_yaws.len(), height, width]);
        }
        let Some(sequence) = &self.sequence else {
            let volume = self.data.patch_size.or(self.data.voxel_size)?;
            return Some(self.latents.as_ref().map_or(volume, |latents| latents.extent_of(volume)));
        };
        let [height, width] = sequence.size()?;
        Some([sequence.input_days, height / sequence.sample_factor, width / sequence.sample_factor])
    }

    /// By how much a model divides the voxels that the configuration names: sizes of volumes must be multiples of it.
    pub(crate) fn multiples(&self) -> [usize; 3] {
        let (model, below) = (self.system.any().multiples(), self.latents.as_ref());
        [0, 1, 2].map(|axis| model[axis] * below.map_or(1, |latents| latents.downsampling[axis]))
    }

    /// Batches that wait for their step, beside the one of the step. Latents are in memory, and do not wait.
    pub(crate) fn waiting(&self, micro_batch: Bytes) -> Bytes {
        if self.latents.is_some() {
            return Bytes(0);
        }
        let (workers, prefetch) = match (&self.sequence, &self.scenes) {
            (Some(fields), _) => (fields.num_workers, fields.prefetch),
            (None, Some(scenes)) => (scenes.num_workers, scenes.prefetch),
            (None, None) => (self.data.num_workers, self.data.prefetch),
        };
        Bytes(micro_batch.get() * batches_ahead(workers, prefetch) as u64)
    }

    /// Volumes that threads hold while a step computes: without threads they are read between steps.
    pub(crate) fn read_beside_steps(&self, data: &DataSize) -> Bytes {
        if self.data.num_workers > 0 { data.read } else { Bytes(0) }
    }

    /// Whether the system is trained on volumes, or on latents of some.
    fn needs_volumes(&self) -> bool {
        matches!(self.source(), Source::Volumes | Source::Latents)
    }

    /// What the threads of the loader hold besides samples of an extent while they augment them.
    pub(crate) fn augmenting(&self, extent: [usize; 3]) -> Bytes {
        let augmentation = self.data.augmentation.as_ref().filter(|_| self.latents.is_none());
        let of_sample = augmentation.map_or(0, |augmentation| augmentation.scratch_bytes(extent));
        Bytes(of_sample * self.data.num_workers as u64)
    }

    /// The trained model as a codec of volumes, with weights from a file, ours or MONAI's; `name` is what messages call the
    /// configuration. None if the model of its system is no codec.
    ///
    /// # Errors
    ///
    /// [`SystemError::Config`](crate::SystemError::Config), [`SystemError::Weights`](crate::SystemError::Weights).
    pub fn codec(&self, name: &str, weights: &Path, device: &Device) -> Result<Option<Codec>> {
        self.check(name)?;
        self.system.any().codec(&self.context(name), weights, device)
    }

    /// The trained model as one that predicts fields, with weights from the folder of a run; `name` is what messages call the
    /// configuration. None if the model of its system does not.
    ///
    /// # Errors
    ///
    /// [`SystemError::Config`](crate::SystemError::Config), [`SystemError::Weights`](crate::SystemError::Weights), and
    /// [`SystemError::Input`](crate::SystemError::Input) where `normalization.json` does not lie beside the weights.
    pub fn predictor(&self, name: &str, weights: &Path, device: &Device) -> Result<Option<FieldPredictor>> {
        self.check(name)?;
        self.system.any().predictor(&self.context(name), weights, device)
    }

    /// The files that the system is trained on, those in folders among them; a path that leads to none is left out.
    pub fn data_files(&self) -> Vec<PathBuf> {
        let labels = self.data.labels.iter().flat_map(|labels| labels.label_maps.iter().chain(&labels.class_maps));
        let sequence = self.sequence.iter().flat_map(|sequence| &sequence.paths);
        let paths = self.data.paths.iter().chain(labels).chain(sequence);
        paths.flat_map(|path| find_volumes(std::slice::from_ref(path)).unwrap_or_default()).collect()
    }

    /// The sizes of the system's model that have names, each as a configuration; empty if there are none.
    pub fn sizes(&self) -> Vec<(String, Config)> {
        let sized = |size: NamedSize<SystemSection>| {
            let mut config = Self { system: size.section, ..self.clone() };
            if let Some(precision) = size.precision {
                (config.device.precision, config.device.mixed_precision) = (Some(precision), false);
            }
            (size.name, config)
        };
        self.system.sizes().into_iter().map(sized).collect()
    }

    /// Has everything take part from the first step: for plans and measurements.
    pub fn start_at_once(&mut self) {
        self.system.any_mut().start_at_once();
    }

    /// The configuration as YAML, every default written out; [`Config::parse`] reads it back.
    pub fn to_yaml(&self) -> String {
        // Writing plain structs to a string has nothing to fail at.
        serde_saphyr::to_string(self).unwrap_or_else(|error| format!("# {error}\n"))
    }
}

/// Opens a first stage by the configuration beside its weights.
fn open_first_stage(weights: &Path, device: &Device) -> Result<FirstStage> {
    let path = weights.with_file_name("config.yaml");
    let config = Config::load(&path, &[])?;
    let codec = config.codec(&path.display().to_string(), weights, device)?;
    let system = config.system.any().boxed();
    Ok(FirstStage { codec, data: config.data, system })
}

/// Whether nothing is said of volumes, as for a system of other data.
fn is_default(data: &DataConfig) -> bool {
    *data == DataConfig::default()
}

/// Reads a file of a sane size as UTF-8.
fn read_text(path: &Path) -> std::result::Result<String, Box<ConfigError>> {
    let config_error = |found: String, expected: &str, help: &str| {
        ConfigError::without_key(ConfigErrorKind::File, Place::Document, found, expected, help)
    };
    if path.is_dir() {
        let (folder, config) = (path.display(), path.join("config.yaml"));
        let help = match config.is_file() {
            true => format!("name {}; to go on with that run add --out {folder} --resume", config.display()),
            false => "name the configuration in it".into(),
        };
        return Err(config_error("a folder".into(), "a file", &help));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| config_error(error.to_string(), "a readable file", "check the path and its permissions"))?;
    if bytes.len() > MAX_BYTES {
        return Err(too_large("more".into()));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let found = format!("other bytes on line {}", 1 + valid.iter().filter(|byte| **byte == b'\n').count());
        config_error(found, "UTF-8 text", "check that this is the configuration, and save it as UTF-8")
    })
}
