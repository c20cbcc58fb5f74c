//! A periodic grid and its Fourier transforms, by `rustfft`.

use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlannerScalar};
use std::f64::consts::TAU;
use std::sync::Arc;

/// A coefficient, or two real values.
pub(crate) type Value = Complex<f64>;

/// A rectangle with periodic sides: `[height, width]`, columns fastest. Coefficients lie in the order of the FFT.
///
/// The planner is the one without vector instructions, so that every processor gets the same bits.
#[derive(Clone)]
pub(crate) struct Grid {
    size: [usize; 2],
    /// Along rows, and along columns.
    forward: [Arc<dyn Fft<f64>>; 2],
    inverse: [Arc<dyn Fft<f64>>; 2],
}

/// How often the wave of a place along an axis goes up and down, negative behind the middle.
fn wave(place: usize, length: usize) -> i64 {
    let (place, length) = (place as i64, length as i64);
    if 2 * place <= length { place } else { place - length }
}

impl Grid {
    pub(crate) fn new([height, width]: [usize; 2]) -> Self {
        let mut planner = FftPlannerScalar::new();
        let forward = [width, height].map(|length| planner.plan_fft_forward(length));
        Self { size: [height, width], forward, inverse: [width, height].map(|length| planner.plan_fft_inverse(length)) }
    }

    /// The waves along rows (top to bottom) and columns of each coefficient, in their order.
    pub(crate) fn waves(&self) -> impl Iterator<Item = [i64; 2]> {
        let [height, width] = self.size;
        (0..height).flat_map(move |row| (0..width).map(move |column| [wave(row, height), wave(column, width)]))
    }

    /// `2 pi (k_x + i k_y)` of each coefficient: the gradient of a function with coefficients `f` is the real and the imaginary
    /// part of that with coefficients `i (2 pi (k_x + i k_y)) f`, by one transform.
    pub(crate) fn gradients(&self) -> Vec<Value> {
        self.waves().map(|[y, x]| Complex::new(TAU * x as f64, TAU * y as f64)).collect()
    }

    /// The place of a wave's coefficient; none where the grid is too coarse for it.
    pub(crate) fn place(&self, waves: [i64; 2]) -> Option<usize> {
        let lengths = self.size.map(|length| length as i64);
        let fine = waves.iter().zip(lengths).all(|(wave, length)| 2 * wave.abs() < length);
        let [row, column] = [0, 1].map(|axis| waves[axis].rem_euclid(lengths[axis]) as usize);
        fine.then_some(row * self.size[1] + column)
    }

    /// Whether the product of two functions of such waves has these without those that are aliased: the lower two thirds.
    pub(crate) fn resolves(&self, waves: [i64; 2]) -> bool {
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

    fn transform(&self, along: &[Arc<dyn Fft<f64>>; 2], values: &mut [Value]) {
        let [height, width] = self.size;
        let mut turned = vec![Value::default(); values.len()];
        along[0].process(values);
        transpose(values, &mut turned, [height, width]);
        along[1].process(&mut turned);
        transpose(&turned, values, [width, height]);
    }
}

fn transpose(from: &[Value], to: &mut [Value], [height, width]: [usize; 2]) {
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
