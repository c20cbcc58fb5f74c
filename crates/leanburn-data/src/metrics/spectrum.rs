//! Energy of a field by the length of its waves.

use super::lengths::check_lengths;
use crate::error::DataError;
use crate::fourier::{Grid, Value};

/// The isotropic energy spectrum of a field on a periodic grid of one to three dimensions, `[width]`, `[height, width]` or
/// `[depth, height, width]`: half the square of the amplitudes of all waves whose wavenumber (the length of the vector of the periods
/// along each axis) rounds to 0, 1, 2 and so on, up to half of the shortest side. So waves shorter than two places along that side, in
/// corners of the spectrum, do not count.
///
/// # Errors
/// If the field has not the values of its size.
///
/// # Example
/// ```
/// use leanburn_data::metrics::energy_spectrum;
/// let wave: Vec<f32> = (0..64).map(|at| (at as f32 * std::f32::consts::TAU / 8.0 * 2.0).cos()).collect();
/// let spectrum = energy_spectrum(&wave, [8, 8])?;
/// assert!((spectrum[2] - 0.25).abs() < 1e-6 && spectrum[1] < 1e-6);
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
pub fn energy_spectrum<const D: usize>(field: &[f32], size: [usize; D]) -> Result<Vec<f64>, DataError> {
    check_lengths(field.len(), size.iter().fold(1, |all, length| all.saturating_mul(*length)))?;
    let grid = Grid::new(size);
    let mut values: Vec<Value> = field.iter().map(|value| Value::new(f64::from(*value), 0.0)).collect();
    grid.to_spectrum(&mut values);
    let mut spectrum = vec![0.0; size.into_iter().min().unwrap_or(0) / 2 + 1];
    for (waves, value) in grid.waves().zip(&values) {
        let wavenumber = waves.iter().map(|wave| (wave * wave) as f64).sum::<f64>().sqrt();
        if let Some(energy) = spectrum.get_mut(wavenumber.round() as usize) {
            *energy += 0.5 * value.norm_sqr();
        }
    }
    Ok(spectrum)
}

/// The energy of a field's shortest waves, those of the last octave (wavenumbers above half of the highest).
///
/// # Errors
/// If the field has not the values of its size.
pub fn top_octave_energy<const D: usize>(field: &[f32], size: [usize; D]) -> Result<f64, DataError> {
    let spectrum = energy_spectrum(field, size)?;
    Ok(spectrum[spectrum.len().div_ceil(2)..].iter().sum())
}

/// Energies of [shortest waves](top_octave_energy) in predictions beside those in their truths.
///
/// # Example
/// ```
/// use leanburn_data::metrics::TopOctave;
/// let mut waves = TopOctave::default();
/// waves.add(2.0, 1.0);
/// waves.add(1.0, 2.0);
/// assert!(waves.ratio() == 1.0 && waves.error() == 0.5);
/// ```
#[derive(Clone, Debug, Default)]
pub struct TopOctave {
    pairs: Vec<[f64; 2]>,
}

impl TopOctave {
    /// Adds the energy of a prediction, or the mean of several ones, and that of the truth.
    pub fn add(&mut self, prediction: f64, truth: f64) {
        self.pairs.push([prediction, truth]);
    }

    /// The energy of all predictions as a share of the energy of all truths, which is the ratio of their mean spectra: 1 is perfect, 0 is
    /// none of it. Infinite where the truths have none and a prediction has.
    pub fn ratio(&self) -> f64 {
        let [found, expected] = [0, 1].map(|index| self.pairs.iter().map(|pair| pair[index]).sum::<f64>());
        share(found, expected)
    }

    /// By how much the energies of a prediction and its truth differ, of the larger; the mean over all: 0 is perfect, 1 is none of it or far
    /// too much.
    pub fn error(&self) -> f64 {
        let error = |[found, expected]: &[f64; 2]| {
            let ratio = share(*found, *expected);
            1.0 - ratio.min(1.0 / ratio)
        };
        self.pairs.iter().map(error).sum::<f64>() / self.pairs.len().max(1) as f64
    }
}

fn share(found: f64, expected: f64) -> f64 {
    if found == expected { 1.0 } else { found / expected }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    /// A wave of amplitude 2 with `down` and `right` periods, and a mean of 1.
    fn wave(down: f64, right: f64, size: [usize; 2]) -> Vec<f32> {
        let [height, width] = size.map(|length| length as f64);
        let at = |place: usize| ((place / size[1]) as f64 / height, (place % size[1]) as f64 / width);
        let value = |place| {
            let (y, x) = at(place);
            (1.0 + 2.0 * (TAU * (down * y + right * x)).sin()) as f32
        };
        (0..size[0] * size[1]).map(value).collect()
    }

    #[test]
    fn a_wave_has_its_energy_where_it_belongs() {
        for (down, right, shell) in [(3.0, 4.0, 5), (0.0, 2.0, 2), (2.0, 3.0, 4), (-5.0, 1.0, 5), (6.0, 0.0, 6)] {
            for size in [[16, 16], [16, 18], [15, 17]] {
                let spectrum = energy_spectrum(&wave(down, right, size), size).unwrap();
                let expected = |at: usize| {
                    if at == 0 {
                        0.5
                    } else if at == shell {
                        1.0
                    } else {
                        0.0
                    }
                };
                let apart = spectrum.iter().enumerate().map(|(at, energy)| (energy - expected(at)).abs());
                assert!(apart.fold(0.0, f64::max) < 1e-6, "{down} {right} {size:?}: {spectrum:?}");
            }
        }
        assert!(energy_spectrum(&[0.0; 5], [2, 3]).unwrap_err().is_malformed());
    }

    #[test]
    fn the_last_octave_is_compared() {
        let size = [16, 16];
        let (short, long) = (wave(0.0, 6.0, size), wave(0.0, 2.0, size));
        let sum =
            |share: f32| -> Vec<f32> { short.iter().zip(&long).map(|(one, other)| share * one + other).collect() };
        let energy = |share| top_octave_energy(&sum(share), size).unwrap();
        let beside = |share| {
            let mut waves = TopOctave::default();
            waves.add(energy(share), energy(1.0));
            waves
        };
        let (error, ratio) = (|share| beside(share).error(), |share| beside(share).ratio());
        assert!((ratio(0.9) - 0.81).abs() < 1e-5 && (ratio(2.0) - 4.0).abs() < 1e-4 && ratio(1.0) == 1.0);
        assert!((error(0.9) - 0.19).abs() < 1e-5 && (error(0.0) - 1.0).abs() < 1e-5);
        assert!((error(2.0) - 0.75).abs() < 1e-5 && error(1.0) == 0.0);
        let mut both = beside(0.5);
        both.add(energy(2.0), energy(1.0));
        assert!((both.ratio() - 4.25 / 2.0).abs() < 1e-4 && (both.error() - 0.75).abs() < 1e-4);
        assert!(TopOctave::default().ratio() == 1.0 && TopOctave::default().error() == 0.0);
    }

    /// Lines, planes and volumes with the energy `k^-2` at each wavenumber, of waves that share it.
    #[test]
    fn a_known_spectrum_is_found_in_one_to_three_dimensions() {
        fn check<const D: usize>(size: [usize; D], waves: impl Fn(f64) -> Vec<[f64; D]>) {
            let highest = size.into_iter().min().unwrap() / 2;
            let values = (0..size.iter().product()).map(|mut place: usize| {
                let mut at = [0.0; D];
                for (share, length) in at.iter_mut().zip(size).rev() {
                    *share = (place % length) as f64 / length as f64;
                    place /= length;
                }
                let phase = |wave: [f64; D]| wave.iter().zip(at).map(|(wave, at)| wave * at).sum::<f64>();
                let of_wavenumber = |wavenumber: f64| {
                    let waves = waves(wavenumber);
                    let sum: f64 = waves.iter().map(|wave| (TAU * phase(*wave) + wavenumber).cos()).sum();
                    2.0 / (wavenumber * (waves.len() as f64).sqrt()) * sum
                };
                (1..highest).map(|wavenumber| of_wavenumber(wavenumber as f64)).sum::<f64>() as f32
            });
            let spectrum = energy_spectrum(&values.collect::<Vec<f32>>(), size).unwrap();
            assert_eq!(spectrum.len(), highest + 1);
            let expected = |wavenumber: usize| match (1..highest).contains(&wavenumber) {
                true => 1.0 / (wavenumber * wavenumber) as f64,
                false => 0.0,
            };
            for (wavenumber, energy) in spectrum.iter().enumerate() {
                assert!((energy - expected(wavenumber)).abs() < 1e-5, "{size:?}, {wavenumber}: {spectrum:?}");
            }
        }
        check([15], |wave| vec![[wave]]);
        check([16, 18], |wave| vec![[wave, 0.0], [0.0, wave]]);
        check([14, 13, 12], |wave| vec![[0.0, 0.0, wave], [0.0, -wave, 0.0], [wave, 0.0, 0.0]]);
    }
}
