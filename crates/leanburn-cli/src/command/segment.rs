//! `leanburn segment`.

use std::path::Path;

use clap::Args;
use leanburn_data::{Blending, Format, LabelMap, Volume, prepare};
use leanburn_systems::segmentation::Segmenter;
use leanburn_systems::{SystemError, SystemSection};

use super::files::{Files, run_all};
use super::trained::{ModelArguments, check_channels, other_system};
use super::window::{WindowArguments, with_progress};
use crate::error::Result;

/// `leanburn segment`
#[derive(Debug, Args)]
pub struct Segment {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    window: WindowArguments,
}

impl Segment {
    pub(super) fn run(self) -> Result<()> {
        let window = self.window.window()?.map(|window| window.with_blending(Blending::Gaussian));
        let jobs = self.files.jobs(&self.model, Some(".nii.gz"))?;
        jobs.iter().try_for_each(|job| check_format(&job.out))?;
        let (config, name, device) = self.model.config()?;
        let SystemSection::Segmentation(section) = &config.system else {
            return Err(other_system(&config, name, "segmentation", "only models of segmentation give label maps"));
        };
        let segmenter = Segmenter::load(section, &config.context(&name), &self.model.weights, &device)?;
        run_all(jobs, |job| {
            let volume = Volume::read(&job.input)?;
            check_channels(&job.input, &volume, section.in_channels)?;
            let prepared = prepare(volume, &config.data)?.volume;
            let window = window.clone().unwrap_or_else(|| segmenter.window(&config.data, prepared.extent()));
            let patches = window.count(prepared.extent());
            let logits = with_progress(|done| segmenter.logits(&prepared, &window, || done(patches)))?;
            let labels = LabelMap::argmax(&logits.into_original_grid()?)?;
            job.output.write_with(|path| labels.write(path))?;
            Ok(shares(&labels, section.num_classes))
        })
    }
}

/// Rejects the name of a file that does not keep labels on their grid, before anything is computed.
fn check_format(out: &Path) -> Result<()> {
    match Format::of(out)?.holds_labels() {
        true => Ok(()),
        false => Err(SystemError::Input {
            subject: out.display().to_string(),
            expected: "a name that ends in .nii, .nii.gz, .nrrd or .mha".into(),
            found: "that of another kind of file".into(),
            remedy: "write the labels as NIfTI, which keeps their grid".into(),
        }
        .into()),
    }
}

/// How much of a label map each class but the background has.
fn shares(labels: &LabelMap, num_classes: usize) -> String {
    let mut counts = vec![0_u64; num_classes];
    labels.data().iter().for_each(|label| counts[usize::from(*label)] += 1);
    let share = |count: u64| 100.0 * count as f64 / labels.data().len() as f64;
    let texts =
        counts.into_iter().enumerate().skip(1).map(|(class, count)| format!("class {class} {:.1} %", share(count)));
    texts.collect::<Vec<_>>().join(", ")
}
