//! Devices by name: `flex`, `vulkan:0`, `cuda:1`, `best`.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::{DType, Device};
use leanburn_ops::{Gpu, use_exclusive_pages};
use leanburn_train::Precision;

use crate::error::{Result, SystemError};
use crate::shared::{Allocator, DeviceSection};

/// A family of devices, and whether this build has it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Family {
    /// Its name, also that of the cargo feature that adds it to a build.
    pub name: &'static str,
    /// What it stands for.
    pub about: &'static str,
    /// What to install where the build has it and the machine does not.
    pub driver: &'static str,
    /// The devices of the family that the machine has, discrete cards first; if the family is compiled in.
    enumerate: Option<fn() -> Vec<Device>>,
}

macro_rules! family {
    ($name:literal, $about:literal, $driver:literal, $kind:ident) => {{
        #[cfg(feature = $name)]
        let enumerate: Option<fn() -> Vec<Device>> =
            Some(|| Device::enumerate(burn::tensor::DeviceType::$kind).into_vec());
        #[cfg(not(feature = $name))]
        let enumerate = None;
        Family { name: $name, about: $about, driver: $driver, enumerate }
    }};
}

/// All families, the fastest first; the CPU last.
pub fn families() -> [Family; 6] {
    [
        family!("cuda", "NVIDIA GPUs", "install NVIDIA's driver", Cuda),
        family!("rocm", "AMD GPUs", "install AMD's ROCm", Rocm),
        family!("metal", "Apple GPUs", "it needs macOS", Metal),
        family!("vulkan", "GPUs through Vulkan", "install libvulkan1 and the card's driver", Vulkan),
        family!("wgpu", "GPUs through WebGPU", "install the card's driver", Wgpu),
        Family { name: "flex", about: "CPU, all cores", driver: "", enumerate: Some(|| vec![Device::flex()]) },
    ]
}

impl Family {
    /// The devices that the machine has; a runtime that finds no driver panics, and has none.
    pub fn present(&self) -> Vec<Device> {
        let Some(enumerate) = self.enumerate else { return Vec::new() };
        ASKED_DRIVERS.fetch_or(self.name != "flex", Ordering::Relaxed);
        quietly(enumerate).unwrap_or_default()
    }

    /// Whether this build can use it.
    pub fn is_built(&self) -> bool {
        self.enumerate.is_some()
    }

    /// The first device that is a card.
    fn card(&self) -> Option<Gpu> {
        let device = self.present().into_iter().next()?;
        gpu(&device).filter(|gpu| gpu.is_card)
    }
}

static ASKED_DRIVERS: AtomicBool = AtomicBool::new(false);

/// Whether this process has asked a driver for its GPUs, which keeps memory of the heap.
pub(crate) fn has_asked_drivers() -> bool {
    ASKED_DRIVERS.load(Ordering::Relaxed)
}

/// What a GPU says of itself; none for the CPU, and where its driver fails.
pub fn gpu(device: &Device) -> Option<Gpu> {
    quietly(|| Gpu::of(device)).flatten()
}

thread_local! {
    static ASKS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread asks a driver what there is, and takes a panic for "nothing": a program's panic hook may leave it unprinted.
pub fn is_asking() -> bool {
    ASKS.get()
}

/// The result of `query`; none if it panics.
fn quietly<T>(query: impl FnOnce() -> T) -> Option<T> {
    let before = ASKS.replace(true);
    let found = catch_unwind(AssertUnwindSafe(query));
    ASKS.set(before);
    found.ok()
}

/// The name of the best device that is there: a graphics card, else the CPU.
pub fn best() -> &'static str {
    static BEST: OnceLock<&'static str> = OnceLock::new();
    BEST.get_or_init(|| {
        let found = families().into_iter().find(|family| family.name == "flex" || family.card().is_some());
        found.map_or("flex", |family| family.name)
    })
}

fn reject(name: &str, reason: String, remedy: String) -> SystemError {
    SystemError::Device { name: name.to_string(), reason, remedy }
}

/// The family that a name begins with, and the number behind it.
fn family(name: &str) -> Result<(Family, usize)> {
    let (family_name, index) = match name.split_once(':') {
        None => (name, 0),
        Some((family, index)) => match index.parse() {
            Ok(index) => (family, index),
            Err(_) => {
                let remedy = format!("write `{family}` for the first device or `{family}:1` for the second");
                return Err(reject(name, format!("`{index}` is not the number of a device"), remedy));
            }
        },
    };
    let family_name = match family_name {
        "cpu" => "flex",
        "best" => best(),
        name => name,
    };
    let families = families();
    let names: Vec<&str> = families.iter().map(|family| family.name).collect();
    let Some(family) = families.into_iter().find(|family| family.name == family_name) else {
        let nearest = names.iter().max_by(|a, b| strsim::jaro(a, family_name).total_cmp(&strsim::jaro(b, family_name)));
        let remedy = format!("did you mean `{}`? there are best, {}", nearest.unwrap_or(&"flex"), names.join(", "));
        return Err(reject(name, "there is no such kind of device".into(), remedy));
    };
    match family.name == "flex" && index > 0 {
        true => Err(reject(name, "the CPU is one device".into(), "write `flex`".into())),
        false => Ok((family, index)),
    }
}

/// Whether the device called `name` is the CPU; this build need not have it.
///
/// # Errors
///
/// [`SystemError::Device`] for a name that is unknown.
pub fn is_cpu(name: &str) -> Result<bool> {
    Ok(family(name)?.0.name == "flex")
}

/// How many devices of the kind called `name` this process sees: a launcher may show each process the card that is meant for it alone.
///
/// # Errors
///
/// [`SystemError::Device`] for a name that is unknown.
pub(crate) fn devices_seen(name: &str) -> Result<usize> {
    Ok(family(name)?.0.present().len())
}

/// The device called `name`: a family, and `:N` for another than the first; or `best`.
///
/// # Errors
///
/// [`SystemError::Device`] for a name that is unknown, a family that this build has not, or a device that the machine has
/// not.
pub fn device(name: &str) -> Result<Device> {
    let (family, index) = family(name)?;
    if !family.is_built() {
        let remedy = format!("build with `cargo build --release --features {}`, or use `--device flex`", family.name);
        return Err(reject(name, "this build does not have it".into(), remedy));
    }
    let devices = family.present();
    devices.get(index).cloned().ok_or_else(|| match devices.len() {
        0 => reject(name, "this machine has none".into(), format!("{}, or use `--device flex`", family.driver)),
        count => {
            let remedy = format!("`leanburn devices` lists them; write `{}` for the first", family.name);
            reject(name, format!("this machine has {count}"), remedy)
        }
    })
}

/// The half precision to use on the device called `name`, bfloat16 if it computes in both: as it says if it is here, else as
/// Burn knows of its kind.
pub fn half_precision(name: &str) -> Option<Precision> {
    let halves = [Precision::Bf16, Precision::F16];
    match device(name) {
        Ok(device) => quietly(|| halves.into_iter().find(|half| half.is_supported_by(&device))).flatten(),
        Err(_) if matches!(family(name), Ok((Family { name: "vulkan" | "wgpu", .. }, _))) => Some(Precision::F16),
        Err(_) => Some(Precision::Bf16),
    }
}

/// The device called `name`, which must compute in `precision`.
///
/// # Errors
///
/// [`SystemError::Device`], as [`device`], or if it does not.
pub fn device_for(name: &str, precision: Precision) -> Result<Device> {
    let device = device(name)?;
    match precision.is_supported_by(&device) {
        true => Ok(device),
        false => Err(SystemError::Device {
            name: name.to_string(),
            reason: format!("it does not compute in {precision}"),
            remedy: format!("set device.precision to one of {}", precisions(&device)),
        }),
    }
}

/// The device that a configuration names, which must compute in its precision and allocates as it says.
///
/// # Errors
///
/// As [`device_for`].
pub fn device_of(section: &DeviceSection) -> Result<Device> {
    static TOLD: OnceLock<()> = OnceLock::new();
    let device = device_for(&section.name, section.resolved_precision())?;
    if section.allocator == Allocator::ExclusivePages && TOLD.set(()).is_ok() {
        use_exclusive_pages(&device);
    }
    Ok(device)
}

/// The precisions that a device computes in, and not only stores.
pub fn precisions(device: &Device) -> String {
    let all = [("f32", DType::F32), ("bf16", DType::BF16), ("f16", DType::F16)];
    let supported: Vec<&str> =
        all.into_iter().filter(|(_, dtype)| device.supports_dtype(*dtype)).map(|(name, _)| name).collect();
    supported.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str) -> String {
        let error = device(name).unwrap_err();
        format!("{error} {}", error.help().unwrap_or_default())
    }

    #[test]
    fn the_cpu_is_always_there() {
        assert!(device("flex").is_ok() && device("cpu").is_ok() && device("best").is_ok());
    }

    #[test]
    fn a_wrong_name_is_told_the_nearest() {
        assert!(message("vulcan").contains("`vulkan`"));
        assert!(message("flex:2").contains("one device"));
        assert!(message("flex:x").contains("`x`"));
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_family_that_is_not_built_says_how_to_build_it() {
        assert!(message("cuda:0").contains("--features cuda"));
    }

    #[cfg(not(any(feature = "cuda", feature = "rocm", feature = "metal", feature = "vulkan", feature = "wgpu")))]
    #[test]
    fn without_gpus_the_cpu_is_the_best() {
        assert_eq!(best(), "flex");
    }
}
