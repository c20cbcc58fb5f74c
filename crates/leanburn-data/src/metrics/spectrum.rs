//! Energy of a field by the length of its waves.

use super::lengths::check_lengths;
use crate::error::DataError;
use crate::fourier::{Grid, Value};

/// The energy spectrum of a field `[height, width]` on a periodic grid: half the square of the amplitudes of all waves whose
/// wavenumber rounds to 0, 1, 2 and so on, up to half of the shorter side. So waves shorter than two places along that side, in corners
/// of the spectrum, do not count.
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
pub fn energy_spectrum(field: &[f32], size: [usize; 2]) -> Result<Vec<f64>, DataError> {
    check_lengths(field.len(), size[0].saturating_mul(size[1]))?;
    let grid = Grid::new(size);
    let mut values: Vec<Value> = field.iter().map(|value| Value::new(f64::from(*value), 0.0)).collect();
    grid.to_spectrum(&mut values);
    let mut spectrum = vec![0.0; size[0].min(size[1]) / 2 + 1];
    for ([y, x], value) in grid.waves().zip(&values) {
        if let Some(energy) = spectrum.get_mut((y as f64).hypot(x as f64).round() as usize) {
            *energy += 0.5 * value.norm_sqr();
        }
    }
    Ok(spectrum)
}

/// By how much the energies of a prediction's and the truth's shortest waves differ, of the larger: of those of the last octave,
/// wavenumbers above half of the highest. 0 is perfect, 1 is none of it or far too much.
///
/// # Errors
/// If a field has not the values of the size.
pub fn top_octave_error(prediction: &[f32], truth: &[f32], size: [usize; 2]) -> Result<f64, DataError> {
    let energy = |field: &[f32]| {
        let spectrum = energy_spectrum(field, size)?;
        Ok::<f64, DataError>(spectrum[spectrum.len().div_ceil(2)..].iter().sum())
    };
    let (found, expected) = (energy(prediction)?, energy(truth)?);
    Ok(if found == expected { 0.0 } else { (found - expected).abs() / found.max(expected) })
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
        let error = |share| top_octave_error(&sum(share), &sum(1.0), size).unwrap();
        assert!((error(0.9) - 0.19).abs() < 1e-5 && (error(0.0) - 1.0).abs() < 1e-5);
        assert!((error(2.0) - 0.75).abs() < 1e-5 && error(1.0) == 0.0);
    }
}
