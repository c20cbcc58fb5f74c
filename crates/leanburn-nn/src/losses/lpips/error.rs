//! Weights that could not be loaded, and where to get them.

use thiserror::Error;

use super::config::LpipsNetwork;
use crate::weights::WeightsError;

/// The weights of the perceptual network could not be loaded.
#[derive(Debug, Error)]
#[error("the weights of the perceptual network could not be loaded: {source}\n{}", self.remedy())]
pub struct LpipsError {
    /// The network that was asked for.
    pub network: LpipsNetwork,
    /// What is wrong with the file.
    pub source: Box<WeightsError>,
}

impl LpipsError {
    /// Where to get the file.
    pub fn remedy(&self) -> String {
        let name = self.network.name();
        format!(
            "the file is made once with: pip install lpips torchvision && python -c \"import lpips, torch; \
             torch.save(lpips.LPIPS(net='{name}').state_dict(), 'lpips_{name}.pt')\""
        )
    }
}
