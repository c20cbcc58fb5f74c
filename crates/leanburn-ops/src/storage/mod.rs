//! Where a saved tensor lives between forward and backward: one seam for segments that are kept and for those that are recomputed.
//!
//! A [`StoredTensor`] takes a tensor in forward and gives it back in backward. What happens in between is the [`Storage`] of the
//! segment: nothing, fewer bytes (`compact.rs`), or another place (`offload.rs`, with the file, `spill.rs`, and one thread that reads and
//! writes, `background.rs`). A recomputed segment stores its inputs, an operation of a kept segment the volumes that it saves
//! ([`Operation::exchange`](crate::operations)).
//!
//! Everything happens at places that do not depend on the speed of a disk, so that a plan counts what the heap holds: a tensor that is
//! written is held until the end of its segment's first run, or until the next operation has run; one that is read ahead is held
//! from the time when the tensor behind it is used.

mod background;
mod compact;
mod error;
mod offload;
mod scope;
mod spill;
mod stored;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::gpu::is_gpu;
use crate::recording::{is_recording, stands_for_cpu};

pub use error::{StorageError, or_storage_error};
pub use offload::check_offload_folder;
pub(crate) use scope::{Scope, current};
pub use stored::with_overlapped_writes;
pub(crate) use stored::{StoredTensor, within};

/// Where what a segment saves lives between forward and backward.
///
/// Of a recomputed segment these are its inputs; of one that is kept, the volumes that operations of this crate save, which are their inputs, of
/// [`window_attention3d`](crate::window_attention3d) the output too. Weights, data, [`attention3d`](crate::attention3d) and layers of Burn are
/// left alone, as are tensors of less than 16 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// In memory as it is.
    #[default]
    Memory,
    /// In memory as bfloat16: half of float32's bytes, 8 bits of mantissa. What is in half precision already stays as it is.
    Bf16,
    /// In memory as 8-bit codes, affine for each block of 1,024 values of a channel and rounded at random: 0.252 of float32's bytes,
    /// unbiased. On the CPU. Maximum pooling stays as it is: rounding would change which value is the largest.
    Int8,
    /// On the CPU in an unlinked temporary file, on a GPU in the memory of the host; the same bits come back. A thread writes while the
    /// next operation runs, and reads ahead of backward, tensors of 4 MiB and more by way of 1 MiB that it keeps.
    Offload,
}

impl Storage {
    /// Whether backward sees other values than forward did.
    pub fn is_lossy(self) -> bool {
        matches!(self, Self::Bf16 | Self::Int8)
    }

    /// Whether a device has it.
    pub fn is_supported(self, device: &Device) -> bool {
        let is_on_cpu = if is_recording(device) { stands_for_cpu() } else { !is_gpu(device) };
        self != Self::Int8 || is_on_cpu
    }
}
