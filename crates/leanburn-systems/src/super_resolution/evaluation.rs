//! How close fine fields are to the truth, beside bicubic interpolation.

use burn::tensor::Device;
use leanburn_data::metrics::{
    TopOctave, peak_signal_to_noise_ratio, relative_error, structural_similarity, top_octave_energy,
};
use leanburn_data::{DataError, SequenceDataset};
use leanburn_ops::random::derive;
use leanburn_train::MainModel;

use super::sampling::mean;
use super::section::SuperResolutionSection;
use super::workload::SuperResolutionWorkload;
use crate::error::Result;
use crate::evaluation::Metrics;

/// What the noise of evaluations is drawn from: it is the same in each of them, and in every run.
const EVALUATION: u64 = 0x5e3_0001;

/// Names of ratio, similarity and error: of the mean of samples (or of the one field that a network gives), of bicubic interpolation, and
/// of one sample.
const NAMES: [[&str; 3]; 3] = [
    ["psnr", "ssim", "relative_l2"],
    ["psnr_bicubic", "ssim_bicubic", "relative_l2_bicubic"],
    ["psnr_one", "ssim_one", "relative_l2_one"],
];

/// Names of the energy of the shortest waves of samples, as a share of the truth's in all windows together, and of how far it is off in each
/// window; that of a mean of samples is too small, as they differ in them.
const OCTAVE: [&str; 2] = ["top_octave_ratio", "top_octave_error"];

/// Means over the windows that a validation takes, in the units of the normalized fields.
pub(super) fn evaluate(
    section: &SuperResolutionSection,
    workload: &SuperResolutionWorkload,
    data: &SequenceDataset,
    device: &Device,
) -> Result<Metrics> {
    let count = data.val_len().min(section.training.objective.val_windows);
    let trained = workload.model().trained();
    let (mut sums, mut octave, mut samples) = ([[0.0; 3]; 3], TopOctave::default(), 0);
    for number in 0..count {
        let window = data.val_window(number * data.val_len() / count)?;
        let [.., height, width] = window.target_shape;
        let seed = derive(EVALUATION, &[number as u64]);
        let fields = section.fine_fields((workload, &trained), &window, seed, device);
        let bicubic = data.persistence(&window)?;
        let energy = |field: &[f32]| top_octave_energy(field, [height, width]);
        let energies = fields.iter().map(|field| energy(field)).collect::<std::result::Result<Vec<_>, _>>()?;
        octave.add(energies.iter().sum::<f64>() / energies.len() as f64, energy(&window.target)?);
        for (sums, field) in sums.iter_mut().zip([&mean(&fields), &bicubic, &fields[0]]) {
            let found = closeness(field, &window.target, [1, height, width])?;
            sums.iter_mut().zip(found).for_each(|(sum, value)| *sum += value);
        }
        samples = fields.len();
    }
    if count == 0 {
        return Ok(Metrics::new());
    }
    // One sample is its own mean.
    let shown = if samples > 1 { 3 } else { 2 };
    let named = NAMES.into_iter().take(shown).flatten().zip(sums.into_iter().flatten());
    let means = named.map(|(name, sum)| (name, sum / count as f64));
    Ok(means.chain(OCTAVE.into_iter().zip([octave.ratio(), octave.error()])).collect())
}

/// Ratio, similarity and error.
fn closeness(fields: &[f32], truth: &[f32], extent: [usize; 3]) -> std::result::Result<[f64; 3], DataError> {
    Ok([
        peak_signal_to_noise_ratio(fields, truth)?,
        structural_similarity(fields, truth, extent)?,
        relative_error(fields, truth)?,
    ])
}
