//! How often and how strongly samples are augmented.

use leanburn_common::{Validation, ValidationError};
use serde::{Deserialize, Serialize};

use crate::checks;

/// How often a transformation is applied, and from which range its strength is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strength {
    /// Probability that it is applied to a sample; of changes of values, to a channel of a sample.
    pub probability: f64,
    /// The smallest and the largest strength.
    pub range: [f64; 2],
}

impl Strength {
    const fn never(low: f64, high: f64) -> Self {
        Self { probability: 0.0, range: [low, high] }
    }

    const fn with(self, probability: f64) -> Self {
        Self { probability, ..self }
    }
}

/// How training samples are augmented. The default does nothing; [`AugmentationConfig::nnunet`] is nnU-Net's.
///
/// Transformations are applied in the order of the fields. Of brightness, contrast and both gammas, half of the strengths are
/// drawn below 1 and half above where the range has both, as nnU-Net does.
///
/// # Example
/// ```
/// use leanburn_data::{AugmentationConfig, Strength};
/// let thin_slices = AugmentationConfig {
///     rotation: Strength { probability: 0.2, range: [-180.0, 180.0] },
///     rotation_axes: [false, false, true],
///     ..AugmentationConfig::nnunet()
/// };
/// assert!(thin_slices.validate().is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AugmentationConfig {
    /// Angle about each axis in degrees, in voxels: where these are not cubes, a rotation shears.
    pub rotation: Strength,
    /// The axes x, y and z about which samples are rotated.
    pub rotation_axes: [bool; 3],
    /// How much of the volume a patch shows along each axis: at 1.4 things are 1.4 times smaller.
    pub scaling: Strength,
    /// Elastic deformation by cubic B-splines: the largest displacement of a control point, as a share of the distance of control
    /// points. There are four such distances in a patch. Up to 0.4 nothing is folded.
    pub elastic: Strength,
    /// Each coefficient of a polynomial of degree 3 whose exponential multiplies the values, as MONAI's `RandBiasField`.
    pub bias_field: Strength,
    /// Standard deviation of Gaussian noise, as a share of that of the sample's channel.
    pub noise: Strength,
    /// Standard deviation of a Gaussian blur in voxels, drawn for each axis.
    pub blur: Strength,
    /// Factor of the values.
    pub brightness: Strength,
    /// Factor of the distances from the mean; the range of values stays.
    pub contrast: Strength,
    /// Resolution along each axis, as a share: nearest neighbours down, trilinear back.
    pub low_resolution: Strength,
    /// Exponent of the values in their range, taken from above; mean and deviation stay.
    pub inverted_gamma: Strength,
    /// Exponent of the values in their range; mean and deviation stay.
    pub gamma: Strength,
}

impl Default for AugmentationConfig {
    fn default() -> Self {
        Self {
            rotation: Strength::never(-30.0, 30.0),
            rotation_axes: [true; 3],
            scaling: Strength::never(0.7, 1.4),
            elastic: Strength::never(0.0, 0.25),
            bias_field: Strength::never(-0.1, 0.1),
            noise: Strength::never(0.0, 0.1),
            blur: Strength::never(0.5, 1.0),
            brightness: Strength::never(0.75, 1.25),
            contrast: Strength::never(0.75, 1.25),
            low_resolution: Strength::never(0.5, 1.0),
            inverted_gamma: Strength::never(0.7, 1.5),
            gamma: Strength::never(0.7, 1.5),
        }
    }
}

/// A transformation's key, its strength, and the limits of the strength.
type Row = (&'static str, Strength, [f64; 2]);

impl AugmentationConfig {
    /// What nnU-Net trains with by default (`nnUNetTrainer` 2.5 in three dimensions); it also mirrors all axes
    /// ([`flip`](crate::DataConfig::flip)). It has neither elastic deformation nor bias fields.
    ///
    /// nnU-Net blurs and lowers the resolution of half of the channels of a sample that it chooses; here each channel is chosen by itself, so
    /// the probabilities are half of nnU-Net's.
    pub fn nnunet() -> Self {
        let none = Self::default();
        Self {
            rotation: none.rotation.with(0.2),
            scaling: none.scaling.with(0.2),
            noise: none.noise.with(0.1),
            blur: none.blur.with(0.1),
            brightness: none.brightness.with(0.15),
            contrast: none.contrast.with(0.15),
            low_resolution: none.low_resolution.with(0.125),
            inverted_gamma: none.inverted_gamma.with(0.1),
            gamma: none.gamma.with(0.3),
            ..none
        }
    }

    fn rows(&self) -> [Row; 11] {
        [
            ("rotation", self.rotation, [-180.0, 180.0]),
            ("scaling", self.scaling, [0.1, 10.0]),
            ("elastic", self.elastic, [0.0, 0.4]),
            ("bias_field", self.bias_field, [-1.0, 1.0]),
            ("noise", self.noise, [0.0, 10.0]),
            ("blur", self.blur, [0.0, 16.0]),
            ("brightness", self.brightness, [0.0, 10.0]),
            ("contrast", self.contrast, [0.0, 10.0]),
            ("low_resolution", self.low_resolution, [0.1, 1.0]),
            ("inverted_gamma", self.inverted_gamma, [0.1, 10.0]),
            ("gamma", self.gamma, [0.1, 10.0]),
        ]
    }

    /// Everything that is wrong with the values.
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        for (key, Strength { probability, range: [low, high] }, [least, most]) in self.rows() {
            checks::fraction(&mut validation, &format!("{key}.probability"), probability);
            let sound = least <= low && low <= high && high <= most;
            let expected = format!("two numbers from {least} to {most}, the smaller one first");
            let found = format!("{:?}", [low, high]);
            validation.check(
                sound,
                &format!("{key}.range"),
                &expected,
                found,
                "write a range such as that of the preset",
            );
        }
        validation.errors()
    }

    /// The most bytes that one sample of an extent `[x, y, z]` takes while it is augmented, besides its own.
    pub fn scratch_bytes(&self, extent: [usize; 3]) -> u64 {
        let voxels = extent.iter().fold(1_u64, |voxels, &length| voxels.saturating_mul(length as u64));
        if self.low_resolution.probability > 0.0 { voxels.saturating_mul(4) } else { 0 }
    }
}
