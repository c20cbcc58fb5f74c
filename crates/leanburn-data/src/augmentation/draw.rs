//! The random numbers of one sample.

use super::bias_field::BiasField;
use super::change::Change;
use super::config::{AugmentationConfig, Strength};
use super::elastic::Elastic;
use super::warp::Warp;
use crate::error::DataError;
use rand::{Rng, RngExt};

/// All that is done to one sample, drawn before anything is computed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drawn {
    /// Where its voxels are read; none if they stay.
    pub(crate) warp: Option<Warp>,
    /// What is done to the values of each channel, in order.
    pub(super) channels: Vec<Vec<Change>>,
}

impl Drawn {
    pub(crate) fn of(config: &AugmentationConfig, channels: usize, random: &mut impl Rng) -> Self {
        let angle = |turns: bool, random: &mut _| if turns { uniform(config.rotation, random) } else { 0.0 };
        let rotation = applies(config.rotation, random).then(|| config.rotation_axes.map(|turns| angle(turns, random)));
        let scaling = applies(config.scaling, random).then(|| uniform(config.scaling, random));
        let elastic = applies(config.elastic, random).then(|| Elastic::draw(uniform(config.elastic, random), random));
        let is_still = rotation.is_none() && scaling.is_none() && elastic.is_none();
        let warp = Warp { degrees: rotation.unwrap_or_default(), scale: scaling.unwrap_or(1.0), elastic };
        let channels = (0..channels).map(|_| changes(config, random)).collect();
        Self { warp: (!is_still).then_some(warp), channels }
    }

    /// Changes the values of a sample `[channels, x, y, z]` in place.
    ///
    /// # Errors
    /// If there is no memory for a copy at low resolution.
    pub(crate) fn change(&self, values: &mut [f32], extent: [usize; 3]) -> Result<(), DataError> {
        let voxels = extent.iter().product::<usize>();
        for (values, changes) in values.chunks_exact_mut(voxels).zip(&self.channels) {
            changes.iter().try_for_each(|change| change.apply(values, extent))?;
        }
        Ok(())
    }

    /// What was drawn, in words.
    pub(crate) fn describe(&self) -> Vec<String> {
        let warp = self.warp.iter().map(ToString::to_string);
        let channels = self.channels.iter().enumerate().flat_map(|(channel, changes)| {
            let channel = if self.channels.len() > 1 { format!("channel {channel}: ") } else { String::new() };
            changes.iter().map(move |change| format!("{channel}{change}"))
        });
        warp.chain(channels).collect()
    }
}

/// What is done to one channel.
fn changes(config: &AugmentationConfig, random: &mut impl Rng) -> Vec<Change> {
    let mut changes = Vec::new();
    if applies(config.bias_field, random) {
        changes.push(Change::BiasField(BiasField::draw(|| uniform(config.bias_field, random))));
    }
    if applies(config.noise, random) {
        changes.push(Change::Noise { deviation: uniform(config.noise, random), seed: random.next_u64() });
    }
    if applies(config.blur, random) {
        changes.push(Change::Blur([0; 3].map(|_| uniform(config.blur, random))));
    }
    for (strength, change) in
        [(config.brightness, Change::Brightness as fn(f64) -> Change), (config.contrast, Change::Contrast)]
    {
        if applies(strength, random) {
            changes.push(change(balanced(strength, random)));
        }
    }
    if applies(config.low_resolution, random) {
        changes.push(Change::LowResolution(uniform(config.low_resolution, random)));
    }
    for (strength, change) in
        [(config.inverted_gamma, Change::InvertedGamma as fn(f64) -> Change), (config.gamma, Change::Gamma)]
    {
        if applies(strength, random) {
            changes.push(change(balanced(strength, random)));
        }
    }
    changes
}

fn applies(strength: Strength, random: &mut impl Rng) -> bool {
    random.random_bool(strength.probability)
}

fn uniform(Strength { range: [low, high], .. }: Strength, random: &mut impl Rng) -> f64 {
    random.random_range(low..=high)
}

/// Below 1 as often as above, where the range has both.
fn balanced(Strength { range: [low, high], probability }: Strength, random: &mut impl Rng) -> f64 {
    let range = match low < 1.0 && 1.0 < high {
        true if random.random_bool(0.5) => [low, 1.0],
        true => [1.0, high],
        false => [low, high],
    };
    uniform(Strength { range, probability }, random)
}
