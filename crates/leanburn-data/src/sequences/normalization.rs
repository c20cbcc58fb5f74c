//! Bringing the channels of a sequence to a common range.

use crate::error::DataError;
use crate::sequences::config::SequenceConfig;
use crate::sequences::degradation::Resize;
use crate::sequences::sequence::{Sequence, check_finite};
use crate::volumes::{Intensity, zeros};

/// Added to a deviation, so that places that never change stay finite, as in the code of the
/// [Fourier neural operator](https://arxiv.org/abs/2010.08895).
const EPSILON: f64 = 1e-5;

/// Normalizes each channel by itself, or each place of it, by its frames before `border`, and returns what was done to each.
///
/// # Errors
/// If there is no memory, or values do not stay finite.
pub(super) fn normalize(
    sequence: &mut Sequence,
    border: usize,
    config: &SequenceConfig,
) -> Result<Vec<Intensity>, DataError> {
    let shape = sequence.shape();
    let intensities = match config.pointwise {
        true => {
            let of_places = of_places(sequence, border)?;
            Intensity::apply_each(&of_places, sequence.data_mut(), false);
            of_places
        }
        false => by_channel(sequence, border, config)?,
    };
    check_finite(sequence.data(), shape)?;
    Ok(intensities)
}

impl SequenceConfig {
    /// What normalizing did to fields of a size, as it is for the coarse ones that are seen in super-resolution: for each place of them,
    /// whatever it is there. Of what is added that is its own coarse field; of what values are multiplied by, its mean in the
    /// neighbourhood, which is exact where that is one number.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn coarse_intensities(&self, fine: &[Intensity], size: [usize; 2]) -> Result<Vec<Intensity>, DataError> {
        let (places, degrade) = (size[0] * size[1], Resize::degrade(size, self.sample_factor));
        let repeated = if self.pointwise { 1 } else { places };
        let of_places = |value: fn(&Intensity) -> f64| -> Vec<f32> {
            fine.iter().flat_map(|intensity| std::iter::repeat_n(value(intensity) as f32, repeated)).collect()
        };
        let [scales, offsets] = [of_places(|fine| fine.scale), of_places(|fine| fine.offset)];
        let shares = degrade.apply(&vec![1.0; scales.len()])?;
        let coarse = degrade.apply(&scales)?.into_iter().zip(degrade.apply(&offsets)?).zip(shares);
        let intensity = |((scale, offset), share): ((f32, f32), f32)| Intensity {
            scale: f64::from(scale) / f64::from(share),
            offset: f64::from(offset),
        };
        Ok(coarse.map(intensity).collect())
    }
}

fn by_channel(sequence: &mut Sequence, border: usize, config: &SequenceConfig) -> Result<Vec<Intensity>, DataError> {
    let [time, channels, height, width] = sequence.shape();
    let plane = height * width;
    let mut intensities = Vec::with_capacity(channels);
    for channel in 0..channels {
        let start = |time: usize| (time * channels + channel) * plane;
        let mut training = zeros(&[border, height, width])?;
        for (time, values) in training.chunks_exact_mut(plane).enumerate() {
            values.copy_from_slice(&sequence.data()[start(time)..start(time) + plane]);
        }
        let intensity = config.normalize.apply(&mut training, config.percentiles);
        (0..time).for_each(|time| intensity.apply(&mut sequence.data_mut()[start(time)..start(time) + plane]));
        intensities.push(intensity);
    }
    Ok(intensities)
}

/// Mean 0 and deviation 1 at each place, in 64 bits; the deviation is that of a sample (`n - 1`).
fn of_places(sequence: &Sequence, border: usize) -> Result<Vec<Intensity>, DataError> {
    let [_, channels, height, width] = sequence.shape();
    let frame = channels * height * width;
    let frames = || sequence.data().chunks_exact(frame).take(border);
    let mut means: Vec<f64> = zeros(&[channels, height, width])?;
    for values in frames() {
        means.iter_mut().zip(values).for_each(|(mean, value)| *mean += f64::from(*value) / border as f64);
    }
    let mut squares: Vec<f64> = zeros(&[channels, height, width])?;
    for values in frames() {
        for ((square, mean), value) in squares.iter_mut().zip(&means).zip(values) {
            *square += (f64::from(*value) - mean).powi(2);
        }
    }
    let degrees = border.saturating_sub(1).max(1) as f64;
    let intensity = |(mean, square): (&f64, &f64)| {
        let scale = 1.0 / ((square / degrees).sqrt() + EPSILON);
        Intensity { scale, offset: -mean * scale }
    };
    Ok(means.iter().zip(&squares).map(intensity).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_gets_its_mean_and_deviation() {
        // torch: x = arange(24.).reshape(4, 1, 2, 3) ** 2; (x - x[:3].mean(0)) / (x[:3].std(0) + 1e-5)
        let values: Vec<f32> = (0..24).map(|value| (value * value) as f32).collect();
        let mut sequence = Sequence::new(values.clone(), [4, 1, 2, 3]).unwrap();
        let config = SequenceConfig { pointwise: true, ..SequenceConfig::default() };
        let intensities = normalize(&mut sequence, 3, &config).unwrap();
        assert_eq!(intensities.len(), 6);
        let place = |at: usize| -> Vec<f64> { (0..4).map(|time| f64::from(values[time * 6 + at])).collect() };
        for at in 0..6 {
            let of = place(at);
            let mean = (of[0] + of[1] + of[2]) / 3.0;
            let deviation = ((of[0] - mean).powi(2) + (of[1] - mean).powi(2) + (of[2] - mean).powi(2)) / 2.0;
            for (time, value) in of.iter().enumerate() {
                let expected = (value - mean) / (deviation.sqrt() + 1e-5);
                assert!((f64::from(sequence.data()[time * 6 + at]) - expected).abs() < 1e-5, "{at} {time}");
            }
        }
        let back = sequence.scaled(&intensities, true).unwrap();
        assert!(back.data().iter().zip(&values).all(|(one, other)| (one - other).abs() < 1e-3));
        // Land that never changes becomes 0.
        let mut still = Sequence::new(vec![3.0; 24], [4, 1, 2, 3]).unwrap();
        normalize(&mut still, 3, &config).unwrap();
        assert_eq!(still.data(), [0.0; 24]);
    }

    /// A field that is made coarse and then normalized is the one that was normalized and then made coarse.
    #[test]
    fn coarse_fields_are_normalized_as_what_is_seen_in_training() {
        let (size, factor) = ([8, 12], 4);
        let value = |at: usize| 3.0 + (at as f32 * 0.7).sin() + 0.05 * (at % 96) as f32;
        let raw = Sequence::new((0..6 * 96).map(value).collect(), [6, 1, 8, 12]).unwrap();
        let degrade = Resize::degrade(size, factor);
        for (pointwise, error) in [(false, 1e-4), (true, 0.5)] {
            let config = SequenceConfig { pointwise, sample_factor: factor, ..SequenceConfig::default() };
            let mut normalized = raw.clone();
            let fine = normalize(&mut normalized, 5, &config).unwrap();
            let seen = degrade.apply(normalized.data()).unwrap();
            let coarse = Sequence::new(degrade.apply(raw.data()).unwrap(), [6, 1, 2, 3]).unwrap();
            let intensities = config.coarse_intensities(&fine, size).unwrap();
            let found = coarse.scaled(&intensities, false).unwrap();
            let apart = found.data().iter().zip(&seen).map(|(one, other)| (one - other).abs());
            let apart = apart.fold(0.0, f32::max);
            assert!(apart < error, "pointwise: {pointwise}, {apart}");
        }
    }
}
