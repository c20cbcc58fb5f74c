//! Devices by name: `flex`, `vulkan:0`, `cuda:1`.

use burn::tensor::{DType, Device};
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use leanburn_train::Precision;

use crate::error::{CommandError, Result};

/// A family of devices, and whether this build has it.
#[derive(Clone, Copy, Debug)]
struct Family {
    name: &'static str,
    about: &'static str,
    /// The device of an index, if the family is compiled in.
    device: Option<fn(usize) -> Device>,
}

/// A GPU of wgpu: discrete ones by index, the best one as 0.
#[cfg(any(feature = "vulkan", feature = "wgpu", feature = "metal"))]
fn gpu(index: usize) -> burn::tensor::DeviceKind {
    use burn::tensor::DeviceKind;
    if index == 0 { DeviceKind::DefaultDevice } else { DeviceKind::DiscreteGpu(index) }
}

macro_rules! compiled {
    ($feature:literal, $device:expr) => {{
        #[cfg(feature = $feature)]
        let device: Option<fn(usize) -> Device> = Some($device);
        #[cfg(not(feature = $feature))]
        let device: Option<fn(usize) -> Device> = None;
        device
    }};
}

fn families() -> [Family; 6] {
    [
        Family { name: "flex", about: "CPU, all cores", device: Some(|_| Device::flex()) },
        Family {
            name: "vulkan",
            about: "GPUs through Vulkan",
            device: compiled!("vulkan", |n| Device::vulkan(gpu(n))),
        },
        Family { name: "wgpu", about: "GPUs through WebGPU", device: compiled!("wgpu", |n| Device::wgpu(gpu(n))) },
        Family { name: "cuda", about: "NVIDIA GPUs", device: compiled!("cuda", |n| Device::cuda(n)) },
        Family { name: "metal", about: "Apple GPUs", device: compiled!("metal", |n| Device::metal(gpu(n))) },
        Family { name: "rocm", about: "AMD GPUs", device: compiled!("rocm", |n| Device::rocm(n)) },
    ]
}

fn refuse(name: &str, reason: String, remedy: String) -> CommandError {
    CommandError::Device { name: name.to_string(), reason, remedy }
}

/// The family that a name begins with, and the number behind it.
fn family(name: &str) -> Result<(Family, usize)> {
    let (family_name, index) = match name.split_once(':') {
        None => (name, 0),
        Some((family, index)) => match index.parse() {
            Ok(index) => (family, index),
            Err(_) => {
                let remedy = format!("write `{family}` for the first device or `{family}:1` for the second");
                return Err(refuse(name, format!("`{index}` is not the number of a device"), remedy));
            }
        },
    };
    let family_name = if family_name == "cpu" { "flex" } else { family_name };
    let families = families();
    let names: Vec<&str> = families.iter().map(|family| family.name).collect();
    let Some(family) = families.into_iter().find(|family| family.name == family_name) else {
        let nearest = names.iter().max_by(|a, b| strsim::jaro(a, family_name).total_cmp(&strsim::jaro(b, family_name)));
        let remedy = format!("did you mean `{}`? there are {}", nearest.unwrap_or(&"flex"), names.join(", "));
        return Err(refuse(name, "there is no such kind of device".into(), remedy));
    };
    match family.name == "flex" && index > 0 {
        true => Err(refuse(name, "the CPU is one device".into(), "write `flex`".into())),
        false => Ok((family, index)),
    }
}

/// Whether the device called `name` is the CPU; this build need not have it.
///
/// # Errors
///
/// [`CommandError::Device`] for a name that is unknown.
pub fn is_cpu(name: &str) -> Result<bool> {
    Ok(family(name)?.0.name == "flex")
}

/// The device called `name`: a family, and `:N` for another than the first.
///
/// # Errors
///
/// [`CommandError::Device`] for a name that is unknown, or a family that this build has not.
pub fn device(name: &str) -> Result<Device> {
    let (family, index) = family(name)?;
    match family.device {
        Some(device) => Ok(device(index)),
        None => Err(refuse(
            name,
            "this build does not have it".into(),
            format!("build with `cargo build --release --features {}`, or use `--device flex`", family.name),
        )),
    }
}

/// The device called `name`, which must compute in `precision`.
///
/// # Errors
///
/// [`CommandError::Device`], as [`device`], or if it does not.
pub fn device_for(name: &str, precision: Precision) -> Result<Device> {
    let device = device(name)?;
    match precision.is_supported_by(&device) {
        true => Ok(device),
        false => Err(CommandError::Device {
            name: name.to_string(),
            reason: format!("it does not compute in {precision:?}"),
            remedy: "set device.precision to one that `leanburn devices` lists".into(),
        }),
    }
}

/// The families of devices as a table: which this build has, and what each computes in.
pub fn table() -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(["device", "what", "in this build", "computes in"]);
    for family in families() {
        let (built, precisions) = match family.device {
            Some(device) if family.name == "flex" => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                (format!("yes, {cores} threads"), precisions(&device(0)))
            }
            Some(_) => ("yes".into(), "asked when used".into()),
            None => (format!("no: build with --features {}", family.name), String::new()),
        };
        table.add_row([family.name.to_string(), family.about.to_string(), built, precisions]);
    }
    table
}

fn precisions(device: &Device) -> String {
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
        let help = miette::Diagnostic::help(&error).map(|help| help.to_string()).unwrap_or_default();
        format!("{error} {help}")
    }

    #[test]
    fn the_cpu_is_always_there() {
        assert!(device("flex").is_ok() && device("cpu").is_ok());
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
        assert!(table().to_string().contains("--features cuda"));
    }
}
