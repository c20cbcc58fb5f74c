//! `leanburn plan --compare`: the sizes of a system side by side, each step traced.

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use leanburn_common::Bytes;
use leanburn_plan::{Cause, Space};
use leanburn_systems::planning::ConfigSpace;
use leanburn_systems::{Config, Source, SystemError, guides};
use leanburn_train::planning::Planner;
use serde_json::{Value, json};

use crate::console::print_line;
use crate::error::Result;

/// A setup of the training, and the memory of its step.
struct Row {
    name: String,
    parameters: usize,
    /// The most that saved activations take at any operation.
    saved: Bytes,
    peak: Bytes,
    /// All that the fit check counts.
    need: Bytes,
}

/// Prints the table of a configuration's system, or both tables of the guides.
pub(super) fn print(config: Option<(&Config, &str)>, planner: &Planner, as_json: bool) -> Result<()> {
    let parse = |(name, text): (&str, &str)| Config::parse(text, &format!("the guide of {name}"), &[]);
    let guides = match config {
        Some(_) => Vec::new(),
        None => guides().into_iter().map(parse).collect::<std::result::Result<_, _>>()?,
    };
    let mut tables = Vec::new();
    for (config, source) in config.into_iter().chain(guides.iter().map(|config| (config, "the guide"))) {
        let (heading, rows) = rows(config, source, planner)?;
        match as_json {
            true => tables.push(json_of(&heading, &rows)),
            false => print_table(&heading, &rows, planner)?,
        }
    }
    if as_json { print_line(Value::Array(tables)) } else { Ok(()) }
}

/// The rows of a system, and over them the size of a sample.
fn rows(config: &Config, source: &str, planner: &Planner) -> Result<(String, Vec<Row>)> {
    let sizes = config.sizes();
    if sizes.is_empty() {
        let names: Vec<String> = guides().into_iter().map(|(name, _)| format!("`{name}`")).collect();
        let error = SystemError::Input {
            subject: source.to_string(),
            expected: format!("a system whose sizes have names: {}", names.join(" or ")),
            found: format!("`{}`", config.system_name()),
            remedy: "`leanburn plan --explain` tries changes of one configuration; without CONFIG, --compare shows the guides' tables"
                .into(),
        };
        return Err(error.into());
    }
    let mut rows = Vec::new();
    let mut size = [0; 3];
    for (name, config) in sizes {
        let space = ConfigSpace::new(&config, source, planner, || config.data_size(source))?;
        let candidate = space.configured();
        let timeline = space.record_with(&candidate, candidate.recorded())?.timeline(planner.memory_model());
        let parameters = config.parameters(source)?;
        size = space.extent(&candidate);
        let (saved, peak) = (timeline.most(Cause::SavedActivations), timeline.peak());
        let need = planner.memory_model().needed(&timeline) + space.other_bytes(&candidate) + planner.other_bytes();
        rows.push(Row { name, parameters, saved, peak, need });
    }
    let channels = config.in_channels();
    let what = match config.source() {
        Source::Fields => format!("{} days of {channels} x {} x {} fields", size[0], size[1], size[2]),
        Source::Scenes => format!("{} images of {} x {} pixels", size[0], size[1], size[2]),
        Source::Volumes | Source::Latents => format!("{channels} x {} x {} x {} voxels", size[0], size[1], size[2]),
    };
    Ok((format!("{what}, on {}", planner.name()), rows))
}

fn print_table(heading: &str, rows: &[Row], planner: &Planner) -> Result<()> {
    let mut table = Table::new();
    let mut head = vec!["", "parameters", "saved activations", "peak of a step"];
    head.extend(planner.budget().map(|_| "fits"));
    table.load_style(UTF8_FULL_CONDENSED).set_header(head);
    for row in rows {
        let mut cells = vec![row.name.clone(), row.parameters.to_string(), row.saved.to_string(), row.peak.to_string()];
        cells.extend(planner.budget().map(|bytes| if row.need <= bytes { "yes" } else { "no" }.to_string()));
        table.add_row(cells);
    }
    for column in 1..=3 {
        table.column_mut(column).into_iter().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    }
    print_line(format_args!("{heading}\n{table}\n"))
}

fn json_of(heading: &str, rows: &[Row]) -> Value {
    let row = |row: &Row| json!({ "name": row.name.trim(), "parameters": row.parameters, "saved_activation_bytes": row.saved, "peak_bytes": row.peak });
    json!({ "of": heading, "rows": rows.iter().map(row).collect::<Vec<_>>() })
}
