//! What a run leaves behind for people to read: metrics, event files, pictures, one HTML page.
//!
//! - [`MetricsLog`] appends to `metrics.jsonl`, the record that everything else can be drawn from.
//! - [`EventFile`] shows the same scalars, pictures and texts in TensorBoard while the run goes on.
//! - [`comparison`] draws the mid-planes of a volume beside its reconstruction.
//! - [`Report`] renders all of it as one HTML page that needs no network and no other file.
//! - [`PlanPage`] says on such a page what a step will need, [`timeline_chart`] draws its memory over its operations,
//!   [`perfetto_trace`] writes it as a trace file.
//! - [`write_atomic`] puts a finished file in its place, or nothing at all.
//!
//! Nothing here knows a tensor or a trainer: volumes come as slices, metrics as names and numbers, plans as timelines.

mod atomic;
mod axis;
mod chart;
mod error;
mod event_file;
mod event_message;
mod html;
mod memory;
mod metrics;
mod moments;
mod perfetto;
mod plan_page;
mod slices;
mod timeline_chart;
mod timeline_labels;

pub use atomic::write_atomic;
pub use chart::{Chart, Series};
pub use error::ReportError;
pub use event_file::EventFile;
pub use html::{Picture, Report};
pub use memory::{MemoryPeak, MemoryRow};
pub use metrics::{MetricsLog, Phase, Record, read_metrics};
pub use perfetto::perfetto_trace;
pub use plan_page::{Advice, PlanPage, PredictionRow};
pub use slices::{comparison, encode_png, fields};
pub use timeline_chart::timeline_chart;
