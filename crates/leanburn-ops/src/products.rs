//! Whether a GPU multiplies matrices right.
//!
//! CubeCL 0.11.3's SPIR-V compiler indexes shared memory wrongly on Vulkan devices without
//! `VK_KHR_workgroup_memory_explicit_layout` (`docs/upstream/cubecl-spirv.md`): products of matrices are wrong, and nothing
//! says so. A small product at the first use of a device does.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use burn::tensor::{Device, Int, Tensor};

use crate::gpu::Gpu;

/// A GPU that multiplies matrices wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongProducts {
    /// As it names itself.
    pub gpu: String,
    /// What runs its kernels.
    pub runtime: &'static str,
}

impl fmt::Display for WrongProducts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} ({}) multiplies matrices wrong: its driver lacks VK_KHR_workgroup_memory_explicit_layout, which CubeCL's SPIR-V \
             compiler relies on; update the driver, or build with the feature `wgpu` alone, whose kernels are WGSL",
            self.gpu, self.runtime
        )
    }
}

impl std::error::Error for WrongProducts {}

/// Devices that were checked, and what was found.
static CHECKED: Mutex<Vec<(Device, Result<(), WrongProducts>)>> = Mutex::new(Vec::new());

/// Checks that a device multiplies matrices right, once in a process. Operations of this crate do so at their first use of
/// a GPU, and panic where it does not.
///
/// # Errors
///
/// [`WrongProducts`], whose text says what to do.
pub fn check_products(device: &Device) -> Result<(), WrongProducts> {
    let device = device.clone().without_autodiff();
    let mut checked = CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = checked.iter().find(|(known, _)| *known == device) {
        return found.clone();
    }
    let found = match Gpu::of(&device) {
        Some(gpu) if !multiplies_right(&device) => Err(WrongProducts { gpu: gpu.name, runtime: gpu.runtime }),
        _ => Ok(()),
    };
    checked.push((device, found.clone()));
    found
}

/// A product of 64 x 8 by 8 x 64, the smallest that was seen wrong, of small whole numbers, which are exact.
fn multiplies_right(device: &Device) -> bool {
    let product = |device: &Device| {
        let numbers = |rows: usize, columns: usize| {
            let count = Tensor::<1, Int>::arange(0..(rows * columns) as i64, device);
            count.remainder_scalar(11).float().reshape([rows, columns])
        };
        let product: Tensor<2> = numbers(64, 8).matmul(numbers(8, 64));
        product.into_data().convert::<f32>()
    };
    product(device) == product(&Device::flex())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_taken_at_its_word() {
        assert_eq!(check_products(&Device::flex().autodiff()), Ok(()));
        assert!(multiplies_right(&Device::flex()));
    }
}
