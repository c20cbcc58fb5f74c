//! The `sequence` section; its struct belongs to `leanburn-data`, which documents the keys.

use leanburn_data::{AdvectionConfig, SequenceConfig};

use crate::yaml::{MANY, POSITIVE, PerPlane, Section};

pub(crate) fn read_sequence(section: &mut Section<'_>) -> SequenceConfig {
    let default = SequenceConfig::default();
    let use_channels: Vec<usize> = section.get("use_channels", default.use_channels);
    SequenceConfig {
        paths: section.get("paths", default.paths),
        advection: section.optional("advection", read_advection),
        input_days: section.number("input_days", default.input_days, 1..),
        predict_days: section.number("predict_days", default.predict_days, 1..),
        target_channel: Some(section.get("target_channel", first_channel(&use_channels))),
        use_channels,
        downsample: section.number("downsample", default.downsample, 1..=MANY),
        normalize: section.choice("normalize", default.normalize),
        percentiles: section.number("percentiles", default.percentiles, 0..=100),
        val_fraction: section.number("val_fraction", default.val_fraction, 0..1),
        num_workers: section.number("num_workers", default.num_workers, 0..=MANY),
        prefetch: section.number("prefetch", default.prefetch, 0..=MANY),
    }
}

fn read_advection(section: &mut Section<'_>) -> AdvectionConfig {
    let default = AdvectionConfig::default();
    AdvectionConfig {
        steps: section.number("steps", default.steps, 1..),
        shape: section.number("shape", PerPlane(default.shape), 1..=MANY).0,
        flow: section.choice("flow", default.flow),
        speed: section.get("speed", default.speed),
        turn_steps: section.number("turn_steps", default.turn_steps, POSITIVE),
        forcing: section.get("forcing", default.forcing),
    }
}

/// The channel that is predicted where none is named: the first of those that are seen.
pub(super) fn first_channel(use_channels: &[usize]) -> usize {
    use_channels.first().copied().unwrap_or(0)
}
