//! The configuration as a whole.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use leanburn_data::{DataConfig, SequenceConfig};
use serde::Serialize;

use super::device::DeviceSection;
use super::mistake::{ConfigErrors, Mistake, MistakeKind, Place};
use super::reader::Reader;
use super::system::SystemSection;
use super::training::TrainingSection;
use super::tree::{MAX_BYTES, Node, too_large};
use super::{AutoencoderSection, checks, data, flat, overrides};

/// All that a training run is configured by, defaults filled in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// The seed of all randomness. Default: 42.
    pub seed: u64,
    /// What is trained on. Relative paths start from the current directory.
    #[serde(skip_serializing_if = "is_default")]
    pub data: DataConfig,
    /// What a forecaster is trained on, in place of `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<SequenceConfig>,
    /// The model and how it is trained.
    #[serde(flatten)]
    pub system: SystemSection,
    /// What computes, and in which precision.
    pub device: DeviceSection,
}

impl Config {
    /// Reads a YAML file and sets the overrides, each `section.key=value`.
    ///
    /// # Errors
    ///
    /// All mistakes of the file and of the overrides at once.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Self, ConfigErrors> {
        let name = path.display().to_string();
        match read_text(path) {
            Ok(text) => Self::parse(&text, &name, overrides),
            Err(mistake) => Err(ConfigErrors::new(&name, "", vec![*mistake])),
        }
    }

    /// Reads YAML text and sets the overrides; mistakes name `source_name` as the file.
    ///
    /// # Errors
    ///
    /// All mistakes of the text and of the overrides at once.
    pub fn parse(text: &str, source_name: &str, overrides: &[String]) -> Result<Self, ConfigErrors> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut mistakes = Vec::new();
        let mut reader = Reader::default();
        let parsed = Node::parse(text);
        let readable = parsed.is_ok();
        let mut root = parsed.unwrap_or_else(|mistake| {
            mistakes.push(*mistake);
            Node::empty()
        });
        reader.report_duplicates(&root, "");
        flat::settle(&mut root);
        for text in overrides {
            mistakes.extend(overrides::apply(&mut root, text).err().map(|mistake| *mistake));
        }
        flat::settle(&mut root);
        let config = Self::read(&mut reader, &root);
        if readable {
            checks::check(&mut reader, &config);
            mistakes.extend(reader.finish());
        }
        if mistakes.is_empty() { Ok(config) } else { Err(ConfigErrors::new(source_name, text, mistakes)) }
    }

    fn read(reader: &mut Reader, root: &Node) -> Self {
        let mut section = reader.root(root);
        let seed = section.get("seed", 42);
        let (system, sequence) = SystemSection::read(&mut section);
        let data = match sequence {
            None => section.section("data", data::read),
            Some(_) => DataConfig::default(),
        };
        let config = Self { seed, data, sequence, system, device: section.section("device", DeviceSection::read) };
        section.close();
        config
    }

    /// How the system is trained.
    pub fn training(&self) -> &TrainingSection {
        self.system.training()
    }

    /// How the system is trained, to change.
    pub fn training_mut(&mut self) -> &mut TrainingSection {
        self.system.training_mut()
    }

    /// The autoencoder, if that is what is trained.
    pub fn autoencoder(&self) -> Option<&AutoencoderSection> {
        match &self.system {
            SystemSection::Autoencoder(section) => Some(section),
            _ => None,
        }
    }

    /// The autoencoder to change, if that is what is trained.
    pub fn autoencoder_mut(&mut self) -> Option<&mut AutoencoderSection> {
        match &mut self.system {
            SystemSection::Autoencoder(section) => Some(section),
            _ => None,
        }
    }

    /// Has everything take part from the first step: for plans and measurements.
    pub fn begin_at_once(&mut self) {
        if let Some(section) = self.autoencoder_mut() {
            section.training.objective.adversarial_start_step = 0;
        }
    }

    /// Batches that may wait.
    pub fn prefetch(&self) -> usize {
        self.sequence.as_ref().map_or(self.data.prefetch, |sequence| sequence.prefetch)
    }

    /// The configuration as YAML, every default written out; [`Config::parse`] reads it back.
    pub fn to_yaml(&self) -> String {
        // Writing plain structs to a string has nothing to fail at.
        serde_saphyr::to_string(self).unwrap_or_else(|error| format!("# {error}\n"))
    }
}

/// Whether nothing is said of volumes, as for a system of other data.
fn is_default(data: &DataConfig) -> bool {
    *data == DataConfig::default()
}

/// Reads a file of a sane size as UTF-8.
fn read_text(path: &Path) -> Result<String, Box<Mistake>> {
    let mistake = |found: String, expected: &str, help: &str| {
        Mistake::without_key(MistakeKind::File, Place::Document, found, expected, help)
    };
    if path.is_dir() {
        let (folder, config) = (path.display(), path.join("config.yaml"));
        let help = match config.is_file() {
            true => format!("name {}; to go on with that run add --out {folder} --resume", config.display()),
            false => "name the configuration in it".into(),
        };
        return Err(mistake("a folder".into(), "a file", &help));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| mistake(error.to_string(), "a readable file", "check the path and its permissions"))?;
    if bytes.len() > MAX_BYTES {
        return Err(too_large("more".into()));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let found = format!("other bytes on line {}", 1 + valid.iter().filter(|byte| **byte == b'\n').count());
        mistake(found, "UTF-8 text", "check that this is the configuration, and save it as UTF-8")
    })
}
