//! `leanburn evaluate`.

use clap::Args;
use leanburn_systems::Metrics;
use serde_json::{Map, Value};

use super::load::print_notes;
use super::trained::ModelArguments;
use crate::console::print_line;
use crate::error::Result;
use crate::progress::Reading;

/// `leanburn evaluate`: the validation metrics of trained weights, on the data of their run or on other data: a neural operator that was
/// trained on a grid of 32 is evaluated on one of 64 by `--set sequence.navier_stokes.size=64`.
#[derive(Debug, Args)]
pub struct Evaluate {
    #[command(flatten)]
    model: ModelArguments,
    /// Set a key of the configuration: --set sequence.navier_stokes.size=64
    #[arg(long = "set", value_name = "a.b=c")]
    set: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Evaluate {
    pub(super) fn run(self) -> Result<()> {
        let (config, name, device) = self.model.config_with(&self.set)?;
        print_notes(&config);
        let mut reading = Reading::default();
        let metrics = config.evaluate(&name, &self.model.weights, &device, &mut |state| reading.step(state))?;
        if self.json { print_line(json(&metrics)) } else { print_line(table(&metrics)) }
    }
}

fn json(metrics: &Metrics) -> String {
    let values: Map<String, Value> = metrics.iter().map(|(name, value)| (name.to_string(), (*value).into())).collect();
    format!("{:#}", Value::Object(values))
}

/// A line for each metric.
fn table(metrics: &Metrics) -> String {
    let width = metrics.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<String> = metrics.iter().map(|(name, value)| format!("{name:width$}  {value:.6}")).collect();
    lines.join("\n")
}
