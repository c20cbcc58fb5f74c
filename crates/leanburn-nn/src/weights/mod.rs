//! MONAI's weight files, in and out.
//!
//! [`load`] reads PyTorch checkpoints (`.pt`, `.pth`, `.ckpt`, `.bin`) and safetensors files, under today's names and
//! those of the older GenerativeModels package, and finds the model inside a larger checkpoint.
//! [`load_matching`] takes what fits, and also reads the records in our checkpoints (`.bpk`).
//! [`save_safetensors`] writes under MONAI's names, so that MONAI loads what was trained here.

mod error;
mod load;
mod names;
mod prefix;
mod read;
mod save;

pub use error::{Differences, ShapeDifference, WeightsError};
pub use load::{Matched, load, load_matching, load_under};
pub use names::{IntegerBuffer, MonaiWeights};
pub use save::save_safetensors;
