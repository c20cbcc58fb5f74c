//! Configuration of the perceptual loss, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};
use serde::{Deserialize, Serialize};

use crate::validation::Rules;

/// The network that is applied to the slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LpipsNetwork {
    /// [SqueezeNet](https://arxiv.org/abs/1602.07360) 1.1, the lightest.
    #[default]
    Squeeze,
    /// [AlexNet](https://arxiv.org/abs/1404.5997).
    Alex,
    /// [VGG16](https://arxiv.org/abs/1409.1556), the heaviest.
    Vgg,
}

impl LpipsNetwork {
    /// Its name in the package `lpips`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Squeeze => "squeeze",
            Self::Alex => "alex",
            Self::Vgg => "vgg",
        }
    }

    /// The smallest height and width of a slice that leaves something to pool.
    pub fn smallest_side(self) -> usize {
        match self {
            Self::Squeeze => 25,
            Self::Alex => 31,
            Self::Vgg => 16,
        }
    }
}

/// An axis across which slices are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plane {
    /// Across the depth: slices of height and width.
    Depth,
    /// Across the height: slices of depth and width.
    Height,
    /// Across the width: slices of depth and height.
    Width,
}

impl Plane {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Depth, Self::Height, Self::Width];

    /// The axis, as configurations name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Depth => "depth",
            Self::Height => "height",
            Self::Width => "width",
        }
    }
}

/// Configuration of [`Lpips`](super::Lpips).
///
/// # Example
///
/// ```
/// use std::path::Path;
///
/// use burn::tensor::Device;
/// use leanburn_nn::losses::LpipsConfig;
///
/// let config = LpipsConfig::new().with_slice_share(0.25);
/// let error = config.load(Path::new("lpips_squeeze.pt"), &Device::flex()).unwrap_err();
/// assert!(error.to_string().contains("pip install lpips"), "{error}");
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct LpipsConfig {
    /// The network that is applied to the slices.
    #[config(default = "LpipsNetwork::Squeeze")]
    pub network: LpipsNetwork,
    /// The axes across which slices are cut.
    #[config(default = "Plane::ALL.to_vec()")]
    pub planes: Vec<Plane>,
    /// Share of the slices of each axis that are compared.
    #[config(default = 0.5)]
    pub slice_share: f64,
    /// Slices of one segment.
    #[config(default = 4)]
    pub slices_per_segment: usize,
}

impl LpipsConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        let help = "list at least one of depth, height and width";
        validation.check(!self.planes.is_empty(), "planes", "at least one plane", "none", help);
        let sound = self.slice_share > 0.0 && self.slice_share <= 1.0;
        let expected = "a number above 0 and of at most 1";
        validation.check(sound, "slice_share", expected, self.slice_share, "use 1 for all slices");
        validation.at_least_one("slices_per_segment", self.slices_per_segment);
        validation.errors()
    }

    /// Whether the slices of a volume are large enough for the network.
    ///
    /// # Errors
    ///
    /// An error of `planes` that says which planes are.
    pub fn check_input(&self, volume: [usize; 3]) -> Result<(), ValidationError> {
        let smallest = self.network.smallest_side();
        let is_enough = |plane: Plane| (0..3).all(|axis| axis == plane as usize || volume[axis] >= smallest);
        if self.planes.iter().all(|plane| is_enough(*plane)) {
            return Ok(());
        }
        let enough: Vec<_> = Plane::ALL.into_iter().filter(|plane| is_enough(*plane)).map(Plane::name).collect();
        let help = match enough.is_empty() {
            false => format!("set `planes` to [{}]", enough.join(", ")),
            true => format!(
                "enlarge the volume, or take the features of whole volumes, which have no smallest size ({} is content \
                 with {})",
                LpipsNetwork::Vgg.name(),
                LpipsNetwork::Vgg.smallest_side()
            ),
        };
        Err(ValidationError {
            key: "planes".to_string(),
            with: Vec::new(),
            expected: format!("slices of at least {smallest} x {smallest}, which {} needs", self.network.name()),
            found: format!("a volume of {volume:?}"),
            help,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    #[test]
    fn each_error_is_found() {
        let fields = |config: LpipsConfig| keys(config.validate());
        assert!(fields(LpipsConfig::new()).is_empty());
        assert_eq!(fields(LpipsConfig::new().with_planes(vec![])), ["planes"]);
        assert_eq!(fields(LpipsConfig::new().with_slice_share(0.0)), ["slice_share"]);
        assert_eq!(fields(LpipsConfig::new().with_slice_share(1.1)), ["slice_share"]);
        assert_eq!(fields(LpipsConfig::new().with_slice_share(f64::NAN)), ["slice_share"]);
        assert_eq!(fields(LpipsConfig::new().with_slices_per_segment(0)), ["slices_per_segment"]);
    }

    #[test]
    fn slices_must_be_large_enough() {
        let config = LpipsConfig::new();
        assert_eq!(config.check_input([25; 3]), Ok(()));
        let error = config.check_input([8, 32, 32]).unwrap_err();
        assert_eq!(error.help, "set `planes` to [depth]");
        assert_eq!(config.with_planes(vec![Plane::Depth]).check_input([8, 32, 32]), Ok(()));
    }
}
