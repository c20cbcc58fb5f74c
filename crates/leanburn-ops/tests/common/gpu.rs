//! The GPU that tests run on: `LEANBURN_TEST_DEVICE`, else the first that the build has.
//!
//! Without a graphics card, `scripts/swiftshader.sh` makes a Vulkan device.
#![allow(dead_code)] // each test binary uses a part

use burn::tensor::Device;

/// What the command calls it, and what runs its kernels.
const BUILT: [(&str, &str, bool); 5] = [
    ("cuda", "cuda", cfg!(feature = "cuda")),
    ("rocm", "hip", cfg!(feature = "rocm")),
    ("metal", "wgpu<msl>", cfg!(feature = "metal")),
    ("vulkan", "wgpu<spirv>", cfg!(feature = "vulkan")),
    ("wgpu", "wgpu<wgsl>", cfg!(feature = "wgpu")),
];

fn chosen() -> (&'static str, &'static str) {
    let wanted = std::env::var("LEANBURN_TEST_DEVICE").ok();
    let mut built = BUILT.into_iter().filter(|(_, _, built)| *built);
    let found = built.find(|(name, ..)| wanted.as_deref().is_none_or(|wanted| wanted == *name));
    let (name, runtime, _) = found.unwrap_or_else(|| panic!("LEANBURN_TEST_DEVICE: this build has no {wanted:?}"));
    (name, runtime)
}

/// What the command calls it.
pub fn gpu_name() -> &'static str {
    chosen().0
}

/// What must run its kernels.
pub fn gpu_runtime() -> &'static str {
    chosen().1
}

pub fn gpu() -> Device {
    match gpu_name() {
        #[cfg(feature = "cuda")]
        "cuda" => Device::cuda(0),
        #[cfg(feature = "rocm")]
        "rocm" => Device::rocm(0),
        #[cfg(feature = "metal")]
        "metal" => Device::metal(Default::default()),
        #[cfg(feature = "vulkan")]
        "vulkan" => Device::vulkan(Default::default()),
        #[cfg(feature = "wgpu")]
        "wgpu" => Device::wgpu(Default::default()),
        name => unreachable!("{name} is built"),
    }
}
