//! Pages and files for people: event files, charts, HTML.
//!
//! - [`EventFile`] shows scalars, pictures and texts in TensorBoard while a run goes on.
//! - [`Report`] renders a run as one HTML page that needs no network and no other file.
//! - [`PlanPage`] says on such a page what a step will need, [`timeline_chart`] draws its memory over its operations,
//!   [`perfetto_trace`] writes it as a trace file.
//!
//! Nothing here knows a tensor or a trainer: metrics come as names and numbers, plans as timelines.

mod axis;
mod chart;
mod error;
mod event_file;
mod event_message;
mod events;
mod html;
mod memory;
mod perfetto;
mod plan_page;
mod timeline_chart;
mod timeline_labels;
mod timeline_scale;

pub use chart::{Chart, Series};
pub use error::ReportError;
pub use event_file::EventFile;
pub use html::{Picture, Report};
pub use memory::{MemoryPeak, MemoryRow};
pub use perfetto::perfetto_trace;
pub use plan_page::{Advice, PlanPage, PredictionRow};
pub use timeline_chart::timeline_chart;
