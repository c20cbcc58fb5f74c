//! `leanburn plan --compare`: the sizes of a system side by side, each step traced.

use bytesize::ByteSize;
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use leanburn_plan::{Cause, Space};
use leanburn_train::Precision;
use serde_json::{Value, json};

use crate::config::{Config, ModelType, SystemSection, VaeType};
use crate::console::print_line;
use crate::error::{CommandError, Result};
use crate::planning::{Budget, ConfigSpace};
use crate::workload;

/// The forecasters at the size of their guide: 20 days of four channels, batches of 4.
const FORECASTERS: &str = "\
forecaster: {training: {batch_size: 4}}
sequence: {advection: {shape: [64, 64]}, input_days: 20}
device: {name: flex}
";

/// Radar scenes at the size of their guide.
const RADAR: &str = "\
vae3d: {}
data: {radar: {shape: [32, 128, 128]}, voxel_size: [32, 128, 128], normalize: none}
device: {name: flex}
";

/// A way to train, and what a step of it takes.
struct Row {
    name: String,
    parameters: usize,
    /// The most that is kept for backward at any moment.
    kept: u64,
    peak: u64,
    /// All that a verdict counts.
    need: u64,
}

/// Prints the table of a configuration's system, or both tables of the guides.
pub(super) fn print(config: Option<(&Config, &str)>, budget: &Budget, as_json: bool) -> Result<()> {
    let guides = match config {
        Some(_) => Vec::new(),
        None => vec![
            Config::parse(FORECASTERS, "the guide's forecasters", &[])?,
            Config::parse(RADAR, "the radar guide", &[])?,
        ],
    };
    let mut tables = Vec::new();
    for (config, source) in config.into_iter().chain(guides.iter().map(|config| (config, "the guide"))) {
        let (heading, rows) = rows(config, source, budget)?;
        match as_json {
            true => tables.push(json_of(&heading, &rows)),
            false => print_table(&heading, &rows, budget)?,
        }
    }
    if as_json { print_line(Value::Array(tables)) } else { Ok(()) }
}

/// The rows of a system, and over them the size of a sample.
fn rows(config: &Config, source: &str, budget: &Budget) -> Result<(String, Vec<Row>)> {
    let ways = match &config.system {
        SystemSection::Forecaster(_) => forecasters(config),
        SystemSection::Vae3d(_) => radar_ladder(config),
        other => {
            return Err(CommandError::Input {
                subject: source.to_string(),
                expected: "a system whose sizes have names: `forecaster` or `vae3d`".into(),
                found: format!("`{}`", other.name()),
                remedy: "`leanburn plan --explain` tries changes of one configuration; without CONFIG, --compare shows the guides' tables"
                    .into(),
            });
        }
    };
    let mut rows = Vec::new();
    let mut size = [0; 3];
    for (name, config) in ways {
        let space = ConfigSpace::new(&config, source, budget.target(), None, || super::plan::extent_of_data(&config))?;
        let candidate = space.configured();
        let timeline = space.record_with(&candidate, candidate.recorded())?.timeline(budget.memory_model());
        let device = burn::tensor::Device::flex().autodiff();
        let parameters = workload::build(&config, source, &device)?.parameters();
        size = space.extent(&candidate);
        let (kept, peak) = (timeline.most(Cause::Kept), timeline.peak());
        let need = budget.memory_model().needed(&timeline) + budget.context_bytes() + space.beside(&candidate);
        rows.push(Row { name, parameters, kept, peak, need });
    }
    let channels = match &config.system {
        SystemSection::Forecaster(section) => section.in_channels,
        SystemSection::Vae3d(section) => section.in_channels,
        _ => 1,
    };
    let what = match config.sequence {
        Some(_) => format!("{} days of {channels} x {} x {} fields", size[0], size[1], size[2]),
        None => format!("{channels} x {} x {} x {} voxels", size[0], size[1], size[2]),
    };
    Ok((format!("{what}, on {}", budget.describe()), rows))
}

/// Each forecaster, otherwise as configured.
fn forecasters(config: &Config) -> Vec<(String, Config)> {
    let way = |model: ModelType| {
        let mut config = config.clone();
        if let SystemSection::Forecaster(section) = &mut config.system {
            section.model_type = model;
        }
        (format!("{}, batch {}", model.name(), config.training().batch_size), config)
    };
    ModelType::ALL.into_iter().map(way).collect()
}

/// The radar guide's way down: smaller models and batches, then half precision, then recomputation.
fn radar_ladder(config: &Config) -> Vec<(String, Config)> {
    let sized = |size: VaeType, batch_size: usize| {
        let mut config = config.clone();
        if let SystemSection::Vae3d(section) = &mut config.system {
            section.vae_type = size;
        }
        let training = config.training_mut();
        (training.batch_size, training.gradient_accumulation_steps) = (batch_size, 1);
        (training.use_gradient_checkpointing, training.recompute) = (false, Vec::new());
        (config.device.precision, config.device.mixed_precision) = (Some(Precision::F32), false);
        config
    };
    let mut half = sized(VaeType::UltraLightweight, 1);
    half.device.precision = Some(Precision::Bf16);
    let mut recomputed = half.clone();
    recomputed.training_mut().use_gradient_checkpointing = true;
    [
        ("standard, batch 8", sized(VaeType::Standard, 8)),
        ("lightweight, batch 2", sized(VaeType::Lightweight, 2)),
        ("ultra_lightweight, batch 1", sized(VaeType::UltraLightweight, 1)),
        ("  + bf16", half),
        ("  + recomputation", recomputed),
    ]
    .map(|(name, config)| (name.to_string(), config))
    .into()
}

fn print_table(heading: &str, rows: &[Row], budget: &Budget) -> Result<()> {
    let mut table = Table::new();
    let mut head = vec!["", "parameters", "kept for backward", "peak of a step"];
    head.extend(budget.bytes.map(|_| "fits"));
    table.load_style(UTF8_FULL_CONDENSED).set_header(head);
    for row in rows {
        let mut cells = vec![
            row.name.clone(),
            row.parameters.to_string(),
            ByteSize::b(row.kept).to_string(),
            ByteSize::b(row.peak).to_string(),
        ];
        cells.extend(budget.bytes.map(|bytes| if row.need <= bytes { "yes" } else { "no" }.to_string()));
        table.add_row(cells);
    }
    for column in 1..=3 {
        table.column_mut(column).into_iter().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    }
    print_line(format_args!("{heading}\n{table}\n"))
}

fn json_of(heading: &str, rows: &[Row]) -> Value {
    let row = |row: &Row| json!({ "name": row.name.trim(), "parameters": row.parameters, "kept_bytes": row.kept, "peak_bytes": row.peak });
    json!({ "of": heading, "rows": rows.iter().map(row).collect::<Vec<_>>() })
}
