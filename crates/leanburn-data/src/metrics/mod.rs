//! How close a result is to the truth, as plain functions on slices; all sums are 64-bit.

mod forecast;
mod intersection;
mod lengths;
mod ms_ssim;
mod segmentation;
mod similarity;
mod spectrum;
mod thresholds;
mod voxels;
mod wasserstein;

pub use forecast::{mean_absolute_error, relative_error, root_mean_squared_error, skill};
pub use intersection::IntersectionCounts;
pub use ms_ssim::{MsSsim, mean_pairwise};
pub use segmentation::{DiceCounts, dice, mean_dice};
pub use similarity::{peak_signal_to_noise_ratio, structural_similarity};
pub use spectrum::{TopOctave, energy_spectrum, top_octave_energy};
pub use thresholds::{TwoThresholds, best_two_thresholds};
pub use voxels::{ChamferDistance, chamfer_distance, intersection_over_union, squared_distances};
pub use wasserstein::{local_patches, sliced_wasserstein, unit_directions};
