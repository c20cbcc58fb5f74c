//! Where operations and bytes lie in the drawing of a step.

use super::axis::{Axis, number_text};
use bytesize::{GIB, KIB, MIB};

/// The left end of the areas.
pub(super) const LEFT: f64 = 84.0;
/// The right end of the areas.
pub(super) const RIGHT: f64 = 1028.0;
/// The top of the areas.
pub(super) const TOP: f64 = 52.0;
/// The bottom of the areas.
pub(super) const BOTTOM: f64 = 352.0;

/// Where events and bytes lie in the drawing.
pub(super) struct Scale {
    /// The share of the step's time before each event, and 1.
    starts: Vec<f64>,
    axis: Axis,
    unit: u64,
}

impl Scale {
    /// A scale for events that take so long, of which the highest holds so many bytes.
    pub fn new(seconds: &[f64], highest: u64) -> Self {
        let total: f64 = seconds.iter().sum();
        let even = 1.0 / seconds.len().max(1) as f64;
        let share = |seconds: &f64| if total > 0.0 { seconds / total } else { even };
        let ends = seconds.iter().scan(0.0, |end, seconds| {
            *end += share(seconds);
            Some(f64::min(*end, 1.0))
        });
        let starts = [0.0].into_iter().chain(ends).collect();
        let unit = [GIB, MIB, KIB].into_iter().find(|unit| highest >= *unit).unwrap_or(1);
        Self { starts, axis: Axis::linear(0.0, highest as f64 / unit as f64), unit }
    }

    /// The unit of the axis.
    pub fn unit_name(&self) -> &'static str {
        match self.unit {
            GIB => "GiB",
            MIB => "MiB",
            KIB => "KiB",
            _ => "bytes",
        }
    }

    /// Where an event begins.
    pub fn x(&self, event: usize) -> f64 {
        LEFT + self.share(event) * (RIGHT - LEFT)
    }

    /// The share of the step's time before an event.
    pub fn share(&self, event: usize) -> f64 {
        self.starts.get(event).copied().unwrap_or(1.0)
    }

    /// Where the top of so many bytes lies.
    pub fn y(&self, bytes: u64) -> f64 {
        BOTTOM - self.axis.share(bytes as f64 / self.unit as f64) * (BOTTOM - TOP)
    }

    /// The ticks of the axis.
    pub fn ticks(&self) -> Vec<Tick> {
        let ticks = self.axis.ticks.iter();
        let at = |value: f64| BOTTOM - self.axis.share(value) * (BOTTOM - TOP);
        ticks.map(|value| Tick { at: at(*value), label: number_text(*value, 6) }).collect()
    }
}

/// A tick of the axis.
pub(super) struct Tick {
    pub at: f64,
    pub label: String,
}
