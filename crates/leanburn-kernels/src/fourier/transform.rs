//! A truncated Fourier transform: its frequencies, and its matrices.

use std::f64::consts::TAU;

use super::product::padded;
use crate::shape_error::{ShapeError, ShapeProblem};
use crate::size::{check_volume, product};

/// A linear map from real volumes to complex spectra of a few frequencies:
/// `X[k] = scale(k) * sum_n x[n] exp(-2 pi i sum_axes k n / length)`.
///
/// A frequency that an axis does not have, beyond half of its length, has a scale of zero.
///
/// Every value of this type was validated: no length is zero, no axis is without frequencies, none along the width is negative, and
/// volume and spectrum can be addressed.
#[derive(Clone, Debug, PartialEq)]
pub struct Transform {
    pub(super) axes: [Axis; 3],
}

/// The map along one axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) len: usize,
    /// Each with its scale.
    frequencies: Vec<(i32, f64)>,
}

impl Transform {
    /// To the amplitudes of waves: the scale is one over the number of positions.
    ///
    /// # Errors
    ///
    /// Where a length is zero, an axis has no frequency, one along the width is negative, or volume or spectrum take more than
    /// 128 TiB.
    pub fn to_amplitudes(size: [usize; 3], frequencies: &[Vec<i32>; 3]) -> Result<Self, ShapeError> {
        Self::new(size, frequencies, |axis, _| 1.0 / size[axis] as f64)
    }

    /// The transpose of the map that sums waves of given amplitudes, of which those of negative frequencies along the width are the
    /// conjugates: the scale along the width is two, but one for frequency zero and that of half the length.
    ///
    /// # Errors
    ///
    /// As [`to_amplitudes`](Self::to_amplitudes).
    pub fn of_waves(size: [usize; 3], frequencies: &[Vec<i32>; 3]) -> Result<Self, ShapeError> {
        Self::new(size, frequencies, |axis, frequency| match axis {
            2 if frequency != 0 && 2 * frequency as usize != size[2] => 2.0,
            _ => 1.0,
        })
    }

    fn new(
        size: [usize; 3],
        frequencies: &[Vec<i32>; 3],
        scale: impl Fn(usize, i32) -> f64,
    ) -> Result<Self, ShapeError> {
        check_volume("the volume", &size)?;
        check_volume("the spectrum", &frequencies.each_ref().map(Vec::len))?;
        for (axis, (len, frequencies)) in size.into_iter().zip(frequencies).enumerate() {
            let zero = |name| ShapeError::from(ShapeProblem::Zero { name }).along(axis);
            if len == 0 {
                return Err(zero("volume"));
            }
            if frequencies.is_empty() {
                return Err(zero("list of frequencies"));
            }
        }
        if let Some(frequency) = frequencies[2].iter().copied().find(|frequency| *frequency < 0) {
            return Err(ShapeError::from(ShapeProblem::NegativeFrequency { frequency }).along(2));
        }
        let axes = [0, 1, 2].map(|axis| {
            let is_there = |frequency: i32| 2 * frequency.unsigned_abs() as usize <= size[axis];
            let scaled = |frequency| (frequency, if is_there(frequency) { scale(axis, frequency) } else { 0.0 });
            Axis { len: size[axis], frequencies: frequencies[axis].iter().copied().map(scaled).collect() }
        });
        Ok(Self { axes })
    }

    /// Depth, height and width of volumes.
    pub fn size(&self) -> [usize; 3] {
        self.axes.each_ref().map(|axis| axis.len)
    }

    /// Frequencies along depth, height and width.
    pub fn modes(&self) -> [usize; 3] {
        self.axes.each_ref().map(|axis| axis.frequencies.len())
    }

    /// `scale * cos` and `scale * sin` along an axis, `[frequencies, length]` each.
    ///
    /// # Panics
    ///
    /// If there is no such axis.
    pub fn matrices(&self, axis: usize) -> [Vec<f64>; 2] {
        let Axis { len, frequencies } = &self.axes[axis];
        let values = |wave: fn(f64) -> f64| {
            let mut values = Vec::with_capacity(frequencies.len() * len);
            for (frequency, scale) in frequencies {
                let turns = (0..*len).map(|n| (i128::from(*frequency) * n as i128).rem_euclid(*len as i128));
                values.extend(turns.map(|turns| scale * wave(TAU * turns as f64 / *len as f64)));
            }
            values
        };
        [values(f64::cos), values(f64::sin)]
    }

    pub(super) fn volume_len(&self) -> usize {
        product(&self.size())
    }

    pub(super) fn spectrum_len(&self) -> usize {
        product(&self.modes())
    }

    /// Width of a row of a spectrum in scratch: real parts, imaginary parts, and what fills the last vector.
    pub(super) fn row(&self) -> usize {
        padded(2 * self.modes()[2])
    }

    /// Floating-point operations of the map, or of its transpose, for one channel of one item.
    pub fn flops(&self) -> u64 {
        let ([depth, height, width], [modes_d, modes_h, modes_w]) = (self.size(), self.modes());
        let of = |sizes: &[usize]| sizes.iter().fold(2, |flops: u64, size| flops.saturating_mul(*size as u64));
        of(&[depth, height, width, 2 * modes_w])
            .saturating_add(of(&[depth, 2 * height, modes_h, 2 * modes_w]))
            .saturating_add(of(&[2 * depth, modes_d, modes_h, 2 * modes_w]))
    }
}

#[cfg(test)]
impl Axis {
    /// Frequencies with their scales.
    pub(super) fn frequencies(&self) -> impl Iterator<Item = (i32, f64)> {
        self.frequencies.iter().copied()
    }
}
