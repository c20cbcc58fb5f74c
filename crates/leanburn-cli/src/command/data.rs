//! `leanburn data`.

use std::path::{Path, PathBuf};

use clap::Args;
use leanburn_systems::{Config, DataPreview};

use super::load::inputs;
use super::output::{Force, Output};
use crate::console::print_line;
use crate::error::Result;
use crate::progress::Reading;
use crate::report::{Picture, Report};

/// `leanburn data`
#[derive(Debug, Args)]
pub struct Data {
    /// Configuration in YAML.
    config: PathBuf,
    /// The page: one HTML file that needs no network. By default the configuration's name with -data.html.
    page: Option<PathBuf>,
    /// Set a key of the configuration: --set data.augmentation=nnunet
    #[arg(long = "set", value_name = "a.b=c")]
    set: Vec<String>,
    /// Training samples to draw.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=1000))]
    samples: u64,
    #[command(flatten)]
    force: Force,
}

impl Data {
    pub(super) fn run(self) -> Result<()> {
        let config = Config::load(&self.config, &self.set)?;
        let name = self.config.file_stem().unwrap_or_default().to_string_lossy();
        let path = self.page.unwrap_or_else(|| format!("{name}-data.html").into());
        let page = Output::new(&path, &inputs(&self.config, &config), self.force)?;
        let preview = open(&config, &self.config, self.samples)?;
        page.write(&report(&name, &preview, &config).render()?)?;
        for (fact, value) in &preview.facts {
            print_line(format_args!("{fact:>20}  {value}"))?;
        }
        print_line(format_args!("{}: the first {} training samples", path.display(), preview.samples.len()))
    }
}

fn open(config: &Config, path: &Path, samples: u64) -> Result<DataPreview> {
    let mut reading = Reading::default();
    Ok(config.preview(&path.display().to_string(), samples, &mut |state| reading.step(state))?)
}

fn report(name: &str, preview: &DataPreview, config: &Config) -> Report {
    let samples = preview.samples.iter().enumerate();
    let pictures = samples.map(|(index, sample)| Picture {
        title: format!("Sample {index}"),
        caption: sample.caption.clone(),
        png: sample.png.clone(),
    });
    Report {
        title: format!("What {name} is trained on"),
        summary: preview.facts.iter().map(|(fact, value)| (fact.to_string(), value.clone())).collect(),
        pictures: pictures.collect(),
        config_yaml: config.to_yaml(),
        ..Report::default()
    }
}
