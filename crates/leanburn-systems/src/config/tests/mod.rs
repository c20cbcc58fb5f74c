//! The reader as a whole: what it accepts, and what it says about what it does not.

mod diffsr;
mod errors;
mod systems;
mod text;
mod written;

use super::*;
use crate::autoencoder::AutoencoderSection;
use crate::table::SystemSection;
use crate::yaml::{ConfigError, ConfigErrors};

impl Config {
    fn autoencoder(&self) -> Option<&AutoencoderSection> {
        match &self.system {
            SystemSection::Autoencoder(section) => Some(section),
            _ => None,
        }
    }
}

const MINIMAL: &str = "data: {paths: [data/scans]}\nautoencoder: {num_channels: [32, 64]}\n";

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse(text, "test.yaml", &[])
}

fn parse_set(overrides: &[&str]) -> Result<Config, ConfigErrors> {
    let overrides: Vec<String> = overrides.iter().map(|text| text.to_string()).collect();
    Config::parse(MINIMAL, "test.yaml", &overrides)
}

/// The only error of a minimal configuration with one value changed.
fn error_of(setting: &str) -> ConfigError {
    let errors = parse_set(&[setting]).expect_err(setting);
    assert_eq!(errors.errors().len(), 1, "{errors:#}");
    errors.errors()[0].clone()
}
