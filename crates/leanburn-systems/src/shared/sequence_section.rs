//! The `sequence` section; its struct belongs to `leanburn-data`, which documents the keys.

use leanburn_data::{AdvectionConfig, NavierStokesConfig, SequenceConfig};

use crate::yaml::{MANY, POSITIVE, PerLevel, PerPlane, Section};

pub(crate) fn read_sequence(section: &mut Section<'_>) -> SequenceConfig {
    let default = SequenceConfig::default();
    section.alias("data_path", "paths");
    let use_channels: Vec<usize> = section.get("use_channels", default.use_channels);
    let sample_factor = section.number("sample_factor", default.sample_factor, 1..=64);
    // Super-resolution is of one field at a time.
    let input_days = if sample_factor > 1 { 1 } else { default.input_days };
    SequenceConfig {
        paths: section.get("paths", PerLevel::Each(default.paths)).resolve(1),
        shape: section.number("shape", default.shape.map(PerPlane), 1..=MANY).map(|shape| shape.0),
        data_key: section.get("data_key", default.data_key),
        axes: section.get("axes", default.axes),
        advection: section.optional("advection", read_advection),
        navier_stokes: section.optional("navier_stokes", read_flows),
        input_days: section.number("input_days", input_days, 1..),
        predict_days: section.number("predict_days", default.predict_days, 1..),
        target_channel: Some(section.get("target_channel", first_channel(&use_channels))),
        use_channels,
        sample_factor,
        downsample: section.number("downsample", default.downsample, 1..=MANY),
        normalize: section.choice("normalize", default.normalize),
        pointwise: section.get("pointwise", default.pointwise),
        roll: section.get("roll", default.roll),
        rotate90: section.get("rotate90", default.rotate90),
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

fn read_flows(section: &mut Section<'_>) -> NavierStokesConfig {
    let default = NavierStokesConfig::default();
    NavierStokesConfig {
        trajectories: section.number("trajectories", default.trajectories, 1..),
        steps: section.number("steps", default.steps, 1..),
        size: section.number("size", default.size, 2..=MANY),
        solver_size: section.number("solver_size", default.solver_size, 32..=MANY),
        viscosity: section.number("viscosity", default.viscosity, 0..),
        forcing: section.number("forcing", default.forcing, 0..),
        interval: section.number("interval", default.interval, POSITIVE),
        spin_up: section.number("spin_up", default.spin_up, 0..),
        time_step: section.number("time_step", default.time_step, POSITIVE),
    }
}

/// The channel that is predicted where none is named: the first of those that are seen.
pub(super) fn first_channel(use_channels: &[usize]) -> usize {
    use_channels.first().copied().unwrap_or(0)
}
