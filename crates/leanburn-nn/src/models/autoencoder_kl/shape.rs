//! Volumes that an autoencoder cannot take.

use thiserror::Error;

use super::AutoencoderKlConfig;

/// An input whose shape does not fit the autoencoder.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// Other channels than the model's.
    #[error(
        "the input has {found} channels, the model takes {expected}; set in_channels = {found} or pick other channels"
    )]
    Channels {
        /// Channels of the model.
        expected: usize,
        /// Channels of the input.
        found: usize,
    },
    /// An axis that cannot be halved as often as the model does.
    #[error(
        "the volume is {found:?}, but each axis must be a multiple of {multiple} to be halved between levels; \
         pad it to {padded:?} or crop it to {cropped:?}"
    )]
    Volume {
        /// Depth, height and width of the input.
        found: [usize; 3],
        /// What each axis must be a multiple of.
        multiple: usize,
        /// The next larger volume that fits.
        padded: [usize; 3],
        /// The next smaller volume that fits.
        cropped: [usize; 3],
    },
    /// An axis that cannot be divided by its strides.
    #[error(
        "the volume is {found:?}, but depth, height and width must be multiples of {multiples:?} to be divided between \
         levels; pad it to {:?} or crop it to {:?}",
        padded(*found, *multiples),
        cropped(*found, *multiples)
    )]
    Axes {
        /// Depth, height and width of the input.
        found: [usize; 3],
        /// What depth, height and width must be multiples of.
        multiples: [usize; 3],
    },
}

/// The next larger volume of which each axis is a multiple.
fn padded(volume: [usize; 3], multiples: [usize; 3]) -> [usize; 3] {
    std::array::from_fn(|axis| volume[axis].max(1).div_ceil(multiples[axis]).saturating_mul(multiples[axis]))
}

/// The next smaller volume of which each axis is a multiple.
fn cropped(volume: [usize; 3], multiples: [usize; 3]) -> [usize; 3] {
    std::array::from_fn(|axis| (volume[axis] / multiples[axis]).max(1) * multiples[axis])
}

impl AutoencoderKlConfig {
    /// Whether an input `[batch_size, channels, depth, height, width]` comes back in its own shape.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] says what is wrong and which volumes fit.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        let [_, found, volume @ ..] = shape;
        if found != self.in_channels {
            return Err(ShapeError::Channels { expected: self.in_channels, found });
        }
        let multiple = self.downsampling();
        if volume.iter().all(|&size| size > 0 && size.is_multiple_of(multiple)) {
            return Ok(());
        }
        Err(ShapeError::Volume {
            found: volume,
            multiple,
            padded: padded(volume, [multiple; 3]),
            cropped: cropped(volume, [multiple; 3]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_must_be_halved_between_levels() {
        let config = AutoencoderKlConfig::new(vec![32, 64, 64], vec![1; 3], vec![false; 3]);
        assert_eq!(config.check_input([1, 1, 4, 8, 16]), Ok(()));
        assert!(config.check_input([1, 1, 10, 8, 4]).is_err());
        let error = config.check_input([1, 1, 10, 8, 0]).unwrap_err();
        let (padded, cropped) = ([12, 8, 4], [8, 8, 4]);
        assert_eq!(error, ShapeError::Volume { found: [10, 8, 0], multiple: 4, padded, cropped });
        assert!(error.to_string().contains("pad it to [12, 8, 4] or crop it to [8, 8, 4]"), "{error}");
    }

    #[test]
    fn channels_must_be_those_of_the_model() {
        let config = AutoencoderKlConfig::new(vec![32], vec![1], vec![false]).with_in_channels(2);
        assert_eq!(config.check_input([1, 1, 8, 8, 8]), Err(ShapeError::Channels { expected: 2, found: 1 }));
    }
}
