//! What a GPU says about itself.

use burn::tensor::Device;

/// A GPU, or a program that stands in for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// As it names itself, such as `NVIDIA H100 PCIe`.
    pub name: String,
    /// What runs its kernels: `cuda`, `wgpu<spirv>` (Vulkan), `wgpu<wgsl>` (WebGPU), `wgpu<msl>` (Metal) or `hip`.
    pub runtime: &'static str,
    /// Whether there is a card behind it, rather than a processor.
    pub is_card: bool,
    /// Bytes of memory, where the driver says.
    pub memory: Option<u64>,
    /// Bytes of the largest allocation.
    pub largest_allocation: u64,
}

impl Gpu {
    /// The GPU of a CubeCL device, which is opened; `None` for any other device.
    ///
    /// # Panics
    ///
    /// As the runtime does where there is no driver.
    #[cfg(feature = "cube")]
    pub fn of(device: &Device) -> Option<Self> {
        let device = device.clone().without_autodiff();
        let burn::backend::DispatchDevice::Cube(cube) = device.as_dispatch() else { return None };
        let client = cube.client();
        let properties = client.properties();
        let identity = &properties.identity;
        Some(Self {
            name: identity.name.clone(),
            runtime: client.name(),
            is_card: identity.physical.is_some(),
            memory: properties.memory.max_memory(),
            largest_allocation: properties.memory.max_page_size,
        })
    }

    /// The GPU of a CubeCL device: there is none in this build.
    #[cfg(not(feature = "cube"))]
    pub fn of(_device: &Device) -> Option<Self> {
        None
    }
}

/// Whether it is a device of CubeCL: a GPU, or a program that stands in for one.
pub fn is_gpu(device: &Device) -> bool {
    #[cfg(feature = "cube")]
    {
        let device = device.clone().without_autodiff();
        matches!(device.as_dispatch(), burn::backend::DispatchDevice::Cube(_))
    }
    #[cfg(not(feature = "cube"))]
    {
        let _ = device;
        false
    }
}

/// Has the device give each tensor pages of its own, in place of pages that tensors share. Before its first use: afterwards
/// nothing changes, and `false` is returned, as for a device without this setting (CUDA, ROCm, the CPU).
///
/// # Memory
///
/// Pages come in sizes that grow by steps: more is reserved for tensors of one size, less where sizes differ much.
#[cfg(any(feature = "vulkan", feature = "wgpu", feature = "metal"))]
pub fn use_exclusive_pages(device: &Device) -> bool {
    use burn::backend::wgpu::{MemoryConfiguration, RuntimeOptions, graphics::AutoGraphicsApi, try_init_setup};
    let device = device.clone().without_autodiff();
    let burn::backend::DispatchDevice::Cube(burn_cubecl::CubeDevice::Wgpu(device)) = device.as_dispatch() else {
        return false;
    };
    let options = RuntimeOptions { memory_config: MemoryConfiguration::ExclusivePages, ..RuntimeOptions::default() };
    try_init_setup::<AutoGraphicsApi>(device, options).is_ok()
}

/// Has the device give each tensor pages of its own: no device of this build has this setting.
#[cfg(not(any(feature = "vulkan", feature = "wgpu", feature = "metal")))]
pub fn use_exclusive_pages(_device: &Device) -> bool {
    false
}
