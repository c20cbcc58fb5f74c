//! A periodic grid and its Fourier transforms, by `rustfft`.

use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlannerScalar};
use std::f64::consts::TAU;
use std::sync::Arc;

/// A coefficient, or two real values.
pub(crate) type Value = Complex<f64>;

/// A rectangle with periodic sides in so many dimensions: `[height, width]`, `[depth, height, width]`, the last axis fastest. Coefficients
/// lie in the order of the FFT.
///
/// The planner is the one without vector instructions, so that every processor gets the same bits.
#[derive(Clone)]
pub(crate) struct Grid<const D: usize = 2> {
    size: [usize; D],
    /// Along each axis.
    forward: [Arc<dyn Fft<f64>>; D],
    inverse: [Arc<dyn Fft<f64>>; D],
}

/// How often the wave of a place along an axis goes up and down, negative behind the middle.
fn wave(place: usize, length: usize) -> i64 {
    let (place, length) = (place as i64, length as i64);
    if 2 * place <= length { place } else { place - length }
}

impl<const D: usize> Grid<D> {
    pub(crate) fn new(size: [usize; D]) -> Self {
        let mut planner = FftPlannerScalar::new();
        let forward = size.map(|length| planner.plan_fft_forward(length));
        Self { size, forward, inverse: size.map(|length| planner.plan_fft_inverse(length)) }
    }

    /// The waves along each axis of each coefficient, in their order.
    pub(crate) fn waves(&self) -> impl Iterator<Item = [i64; D]> {
        let size = self.size;
        (0..size.iter().product()).map(move |mut place: usize| {
            let mut waves = [0; D];
            for (count, length) in waves.iter_mut().zip(size).rev() {
                *count = wave(place % length, length);
                place /= length;
            }
            waves
        })
    }

    /// The place of a wave's coefficient; none where the grid is too coarse for it.
    pub(crate) fn place(&self, waves: [i64; D]) -> Option<usize> {
        let along = || waves.into_iter().zip(self.size.map(|length| length as i64));
        let fine = along().all(|(wave, length)| 2 * wave.abs() < length);
        fine.then(|| along().fold(0, |place, (wave, length)| place * length + wave.rem_euclid(length)) as usize)
    }

    /// Whether the product of two functions of such waves has these without those that are aliased: the lower two thirds.
    pub(crate) fn resolves(&self, waves: [i64; D]) -> bool {
        waves.iter().zip(self.size).all(|(wave, length)| 3 * wave.abs() < length as i64)
    }

    /// Values to amplitudes of waves, which do not depend on the grid.
    pub(crate) fn to_spectrum(&self, values: &mut [Value]) {
        self.transform(&self.forward, values);
        let scale = 1.0 / values.len() as f64;
        values.iter_mut().for_each(|value| *value *= scale);
    }

    /// Amplitudes of waves to values.
    pub(crate) fn to_values(&self, spectrum: &mut [Value]) {
        self.transform(&self.inverse, spectrum);
    }

    /// Each axis in turn, from the last to the first: the one that is transformed is fastest, and becomes the slowest.
    fn transform(&self, along: &[Arc<dyn Fft<f64>>; D], values: &mut [Value]) {
        let mut turned = vec![Value::default(); values.len()];
        for (fft, length) in along.iter().zip(self.size).rev() {
            fft.process(values);
            transpose(values, &mut turned, length);
            values.copy_from_slice(&turned);
        }
    }
}

impl Grid {
    /// `2 pi (k_x + i k_y)` of each coefficient: the gradient of a function with coefficients `f` is the real and the imaginary
    /// part of that with coefficients `i (2 pi (k_x + i k_y)) f`, by one transform.
    pub(crate) fn gradients(&self) -> Vec<Value> {
        self.waves().map(|[y, x]| Complex::new(TAU * x as f64, TAU * y as f64)).collect()
    }
}

/// Lines of so many values, as columns.
fn transpose(from: &[Value], to: &mut [Value], width: usize) {
    let height = from.len() / width;
    for (row, line) in from.chunks_exact(width).enumerate() {
        line.iter().enumerate().for_each(|(column, value)| to[column * height + row] = *value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_are_told_apart_and_come_back() {
        for size in [[7, 8], [8, 7], [9, 9]] {
            let grid = Grid::new(size);
            let mut values = vec![Complex::default(); size[0] * size[1]];
            for (place, value) in values.iter_mut().enumerate() {
                let (y, x) = ((place / size[1]) as f64 / size[0] as f64, (place % size[1]) as f64 / size[1] as f64);
                value.re = (TAU * (2.0 * x - y)).cos() + 0.5 * (TAU * 3.0 * y).sin();
            }
            let before = values.clone();
            grid.to_spectrum(&mut values);
            let at = |waves| values[grid.place(waves).unwrap()];
            assert!((at([-1, 2]) - 0.5).norm() < 1e-14 && (at([1, -2]) - 0.5).norm() < 1e-14, "{size:?}");
            assert!((at([3, 0]) + Complex::new(0.0, 0.25)).norm() < 1e-14, "{size:?}");
            assert!((values.iter().map(Complex::norm_sqr).sum::<f64>() - 0.625).abs() < 1e-12);
            assert_eq!(grid.place([5, 0]), None);
            let waves: Vec<_> = grid.waves().collect();
            assert_eq!(waves[grid.place([-2, 1]).unwrap()], [-2, 1]);
            grid.to_values(&mut values);
            assert!(values.iter().zip(before).all(|(a, b)| (a - b).norm() < 1e-14));
        }
    }
}
