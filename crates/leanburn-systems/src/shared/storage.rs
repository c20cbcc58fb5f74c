//! Where what segments save lives until the backward pass: four keys of the section `training`.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use leanburn_common::ValidationError;
use leanburn_ops::recording::is_recording;
use leanburn_ops::{ResidencyPolicy, Storage, check_offload_folder};
use serde::{Deserialize, Serialize};

use crate::yaml::{Choice, Section};

/// Saved activations in fewer bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Half of float32's bytes.
    Bf16,
    /// A quarter of them, on the CPU.
    Int8,
}

/// Where saved activations live between forward and backward. Default: in memory, as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StorageSection {
    /// The saved activations in fewer bytes. Default: none, as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compress: Option<Compression>,
    /// Names of the segments that `compress` is for, with `*` for any text. Default: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compress_segments: Vec<String>,
    /// Names of the segments whose saved activations are written to a file (on a GPU: copied to the host's memory), with `*` for any
    /// text. They are not compressed. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offload: Vec<String>,
    /// The folder of these files. A fit offloads only where it is set. Default: the system's folder for temporary files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload_folder: Option<PathBuf>,
}

/// The pattern that every name matches.
const EVERYTHING: &str = "*";

impl StorageSection {
    pub(crate) fn read(section: &mut Section<'_>) -> Self {
        Self {
            compress: section.get::<Option<Choice<Compression>>>("compress", None).map(|Choice(value)| value),
            compress_segments: section.get("compress_segments", Vec::new()),
            offload: section.get("offload", Vec::new()),
            offload_folder: section.get("offload_folder", None),
        }
    }

    /// The policy with these storages.
    pub fn policy(&self, policy: ResidencyPolicy) -> ResidencyPolicy {
        let storage = match self.compress {
            None => None,
            Some(Compression::Bf16) => Some(Storage::Bf16),
            Some(Compression::Int8) => Some(Storage::Int8),
        };
        let all = [EVERYTHING.to_string()];
        let compressed = if self.compress_segments.is_empty() { &all[..] } else { &self.compress_segments };
        let compressed = storage.into_iter().flat_map(|storage| compressed.iter().map(move |name| (name, storage)));
        let offloaded = self.offload.iter().map(|name| (name, Storage::Offload));
        let policy =
            compressed.chain(offloaded).fold(policy, |policy, (name, storage)| policy.with_storage(name, storage));
        ResidencyPolicy { offload_folder: self.offload_folder.clone(), ..policy }
    }

    /// What is wrong with the values: keys of this section.
    pub(crate) fn validate(&self) -> Vec<ValidationError> {
        let is_unused = self.compress.is_none() && !self.compress_segments.is_empty();
        let unused = is_unused.then(|| ValidationError {
            key: "compress_segments".into(),
            with: vec!["compress"],
            expected: "a `compress` for them".into(),
            found: "none".into(),
            help: "write `compress: bf16` or `compress: int8`, or remove `compress_segments`".into(),
        });
        unused.into_iter().collect()
    }

    /// What the device cannot do, and a folder that takes no files: keys of this section.
    pub(crate) fn unsupported(&self, device: &Device) -> Vec<ValidationError> {
        let error = |key: &str, expected: &str, found: String, help: &str| ValidationError {
            key: key.into(),
            with: Vec::new(),
            expected: expected.into(),
            found,
            help: help.into(),
        };
        let on_gpu = (self.compress == Some(Compression::Int8) && !Storage::Int8.is_supported(device)).then(|| {
            let help = "write `compress: bf16`, or name segments in `offload`";
            error("compress", "bf16 on a GPU", "int8, which is for the CPU".into(), help)
        });
        let folder = self.offload_folder.clone().unwrap_or_else(std::env::temp_dir);
        let folder = (!self.offload.is_empty() && !is_recording(device)).then(|| wrong_folder(&folder)).flatten();
        let help = "create the folder, or name another one that may be written to";
        let folder = folder.map(|found| error("offload_folder", "a folder that takes files", found, help));
        on_gpu.into_iter().chain(folder).collect()
    }
}

fn wrong_folder(folder: &Path) -> Option<String> {
    let error = check_offload_folder(folder).err()?;
    Some(format!("{}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offloading_goes_before_compression() {
        let section = StorageSection {
            compress: Some(Compression::Int8),
            offload: vec!["decoder.*".into()],
            offload_folder: Some("scratch".into()),
            ..StorageSection::default()
        };
        let policy = section.policy(ResidencyPolicy::recompute_all());
        assert_eq!(policy.storage_of("decoder.level_0"), Some(Storage::Offload));
        assert_eq!(policy.storage_of("encoder.level_0"), Some(Storage::Int8));
        assert_eq!(policy.offload_folder.as_deref(), Some(Path::new("scratch")));
        assert_eq!(StorageSection::default().policy(ResidencyPolicy::keep()), ResidencyPolicy::keep());
        let some = StorageSection { compress_segments: vec!["encoder.*".into()], ..section };
        assert_eq!(some.policy(ResidencyPolicy::keep()).storage_of("quantizer"), None);
    }

    #[test]
    fn segments_of_no_compression_are_an_error() {
        let section = StorageSection { compress_segments: vec!["a".into()], ..StorageSection::default() };
        assert_eq!(section.validate()[0].key, "compress_segments");
        assert!(StorageSection { compress: Some(Compression::Bf16), ..section }.validate().is_empty());
    }

    #[test]
    fn a_folder_that_takes_no_files_is_an_error_before_the_first_step() {
        let device = Device::flex();
        let with = |folder: &Path| StorageSection {
            offload: vec!["*".into()],
            offload_folder: Some(folder.into()),
            ..StorageSection::default()
        };
        let place = tempfile::tempdir().unwrap();
        assert!(with(place.path()).unsupported(&device).is_empty());
        let errors = with(&place.path().join("missing")).unsupported(&device);
        assert_eq!(errors[0].key, "offload_folder");
        assert!(errors[0].found.contains("missing: "), "{}", errors[0].found);
        assert!(StorageSection::default().unsupported(&device).is_empty());
    }
}
