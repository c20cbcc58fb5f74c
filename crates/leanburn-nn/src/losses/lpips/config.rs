//! Configuration of the perceptual loss, and what can be wrong with it.

use std::path::Path;

use burn::config::Config;
use burn::module::Module;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::{Lpips, LpipsError, LpipsFeatures};
use crate::weights;

/// The network that looks at the slices.
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

/// Configuration of [`Lpips`].
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
    /// The network that looks at the slices.
    #[config(default = "LpipsNetwork::Squeeze")]
    pub network: LpipsNetwork,
    /// The axes across which slices are cut.
    #[config(default = "Plane::ALL.to_vec()")]
    pub planes: Vec<Plane>,
    /// Share of the slices of each axis that are looked at.
    #[config(default = 0.5)]
    pub slice_share: f64,
    /// Slices of one segment.
    #[config(default = 4)]
    pub slices_per_segment: usize,
}

impl LpipsConfig {
    /// Everything that is wrong with the configuration: the field, and what to do about it.
    pub fn mistakes(&self) -> Vec<(&'static str, String)> {
        let mut mistakes = Vec::new();
        if self.planes.is_empty() {
            mistakes.push(("planes", "is empty; give at least one of depth, height and width".to_string()));
        }
        if !(self.slice_share > 0.0 && self.slice_share <= 1.0) {
            mistakes.push(("slice_share", format!("is {}; give more than 0 and at most 1", self.slice_share)));
        }
        if self.slices_per_segment == 0 {
            mistakes.push(("slices_per_segment", "is 0; give at least 1".to_string()));
        }
        mistakes
    }

    /// Makes the loss with the weights of a file, which is what it is good for.
    ///
    /// The file is the state dict of the package `lpips`, `.pt` or `.safetensors`. It is written once with
    ///
    /// ```text
    /// pip install lpips
    /// python -c "import lpips, torch; torch.save(lpips.LPIPS(net='squeeze').state_dict(), 'lpips_squeeze.pt')"
    /// ```
    ///
    /// # Errors
    ///
    /// [`LpipsError`], which says how to make the file.
    ///
    /// # Panics
    ///
    /// As [`init`](Self::init).
    pub fn load(&self, path: &Path, device: &Device) -> Result<Lpips, LpipsError> {
        let mut loss = self.init(device);
        let refuse = |source| LpipsError { network: self.network, source: Box::new(source) };
        weights::load(&mut loss.features, path).map_err(refuse)?;
        loss.features = loss.features.no_grad();
        Ok(loss)
    }

    /// Makes the loss with random weights: for planning, where values do not matter.
    ///
    /// # Panics
    ///
    /// Panics with the [mistakes](Self::mistakes) if there are any.
    pub fn init(&self, device: &Device) -> Lpips {
        crate::models::refuse("Lpips", &self.mistakes());
        Lpips::new(self, LpipsFeatures::new(self.network, device).no_grad())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mistake_is_found() {
        let fields =
            |config: LpipsConfig| -> Vec<_> { config.mistakes().into_iter().map(|(field, _)| field).collect() };
        assert!(fields(LpipsConfig::new()).is_empty());
        assert_eq!(fields(LpipsConfig::new().with_planes(vec![])), ["planes"]);
        assert_eq!(fields(LpipsConfig::new().with_slice_share(0.0)), ["slice_share"]);
        assert_eq!(fields(LpipsConfig::new().with_slice_share(1.1)), ["slice_share"]);
        assert_eq!(fields(LpipsConfig::new().with_slice_share(f64::NAN)), ["slice_share"]);
        assert_eq!(fields(LpipsConfig::new().with_slices_per_segment(0)), ["slices_per_segment"]);
    }
}
