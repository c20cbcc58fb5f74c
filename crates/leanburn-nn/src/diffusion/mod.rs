//! Diffusion around a network: how noise is added to a sample, and how samplers take it away again.
//!
//! - [`DiffusionProcess`]: how much noise there is at each time, and what the network's output means.
//! - [`Ddpm`], [`Ddim`], [`Pndm`]: samplers of that process, in fewer steps than it has; [`RectifiedFlow`]: straight lines from noise to
//!   sample; [`Karras`]: Euler and Heun on noise levels, for models in the parametrisation of [`EdmPreconditioning`].
//! - [`Sampler`]: what they have in common.
//!
//! Formulas are those of the papers. MONAI 1.6.1 differs in ways that distort samples; [`Compatible::Monai`] does what MONAI does, number
//! for number, and `docs/samplers.md` shows what that costs.
//!
//! # Example
//!
//! Samples of a normal distribution with deviation 1/2, of which the noise is known exactly:
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use leanburn_nn::diffusion::{DiffusionProcessConfig, Pndm, Sampler};
//! use leanburn_ops::random;
//!
//! let process = DiffusionProcessConfig::new().init();
//! let alphas = process.clone();
//! let noise = random::normal([1, 1, 10, 20, 30], &Device::flex());
//! let samples = Pndm::new(process, 20).sample(noise, |x, time| {
//!     let alpha = alphas.alpha_cumprod(time as usize);
//!     x * ((1.0 - alpha).sqrt() / (alpha * 0.25 + 1.0 - alpha))
//! });
//! let deviation = samples.square().mean().sqrt().into_scalar::<f32>();
//! assert!((deviation - 0.5).abs() < 0.05, "{deviation}");
//! ```

mod ddim;
mod ddpm;
mod karras;
mod pndm;
mod preconditioning;
mod process;
mod rectified_flow;
mod sampler;

pub use ddim::Ddim;
pub use ddpm::{Ddpm, Variance};
pub use karras::{Churn, Karras, KarrasMethod, karras_sigmas};
pub use pndm::Pndm;
pub use preconditioning::EdmPreconditioning;
pub use process::{BetaSchedule, DiffusionProcess, DiffusionProcessConfig, Prediction};
pub use rectified_flow::{RectifiedFlow, TimeDistribution, TimeTransform};
pub use sampler::{Compatible, Network, Sampler};

pub(crate) use preconditioning::per_item;
