//! A repair of views whose channels are innermost on GPUs.

use burn::tensor::Tensor;

use super::launch::launch;
use crate::gpu::is_gpu;

/// The result of a convolution (a volume, or the gradient of a weight), with the strides of a plain layout along axes of
/// length one, where any stride would do. On other devices than GPUs it is the tensor.
///
/// Where channels are innermost, one channel has a stride of one, as the width then has. Burn 0.22.1
/// takes that for another order of the axes, and what it fuses reads wrong values (`one_channel_and_what_is_fused_behind_it`
/// in `tests/operations/gpu.rs`).
pub(crate) fn with_plain_strides(x: Tensor<5>) -> Tensor<5> {
    match is_gpu(&x.device()) && x.dims().contains(&1) {
        true => Tensor::from_dispatch(launch!(in_order(x.into_dispatch()))),
        false => x,
    }
}
