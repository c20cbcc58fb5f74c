//! Devices that a plan can be made for without having one: their memory and what their makers say of their speed.
//!
//! Sources, by kind:
//! - memory of NVIDIA and AMD cards: the total that the driver reports (`nvidia-smi`, `rocm-smi`), which is a little less
//!   than the name says; a data-centre card with error correction as delivered, switched on. Another driver may differ by
//!   some tens of MiB;
//! - memory of Apple's chips: the share of the unified memory that Metal recommends as working set,
//!   two thirds of up to 36 GB and three quarters of more (`recommendedMaxWorkingSetSize`; newer systems allow a little more);
//! - bandwidth and rates: data sheets and the architecture papers of NVIDIA (Volta to Blackwell) and AMD (RDNA 3), dense
//!   (no sparsity), at the boost clock. `f32` is that of the plain units, not TF32; `f16` and `bf16` are those of the matrix
//!   units summing in f32, as training does: on a GeForce half of what the box says. Apple names no rates since the M3: there,
//!   cores x 128 lanes x 2 x clock;
//! - context: what a CUDA, ROCm or Metal context and its runtime hold before the first tensor, a cautious round figure.
//!
//! How much of a peak rate a training step reaches is not in here, but in [`Rates::of_card`](crate::Rates::of_card).

use std::fmt;

use leanburn_common::{Bytes, likeness};
use serde::Serialize;

/// A device of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Device {
    /// The name by which it is chosen, as in `rtx-4090`.
    pub name: &'static str,
    /// The name on its box.
    pub full_name: &'static str,
    /// Memory that programs can have together.
    pub memory_bytes: Bytes,
    /// What the driver and the runtime hold of it in a process.
    pub context_bytes: Bytes,
    /// Memory bandwidth, in bytes per second.
    pub bandwidth: f64,
    /// Peak rate in f32, in floating-point operations per second.
    pub f32_rate: f64,
    /// Peak rate in f16, in floating-point operations per second; none if its maker states none.
    pub f16_rate: Option<f64>,
    /// Peak rate in bf16, in floating-point operations per second; none if the device has no units for it, or its maker
    /// states none.
    pub bf16_rate: Option<f64>,
}

impl Device {
    /// Memory that is left for tensors.
    pub fn available_bytes(&self) -> Bytes {
        self.memory_bytes - self.context_bytes
    }

    /// Every device, in the order of tables: by maker and generation, small before large.
    pub fn all() -> &'static [Self] {
        &DEVICES
    }

    /// The device of a name. Letter case, blanks, `-`, `_`, the maker's and the series' names, and the memory's size where
    /// there is only one, do not count: `RTX 4090`, `rtx4090`, `4090` and `NVIDIA GeForce RTX 4090 24GB` are one device.
    ///
    /// # Errors
    ///
    /// [`UnknownDevice`] with the names that may have been meant.
    ///
    /// # Example
    ///
    /// ```
    /// use leanburn_plan::catalogue::Device;
    ///
    /// let device = Device::find("RTX 4090").unwrap();
    /// assert_eq!(device.name, "rtx-4090");
    /// let unknown = Device::find("A100").unwrap_err();
    /// assert_eq!(unknown.candidates, ["a100-40gb", "a100-80gb"]);
    /// ```
    pub fn find(name: &str) -> Result<&'static Self, UnknownDevice> {
        let wanted = plain(name);
        DEVICES
            .iter()
            .find(|device| device.keys().contains(&wanted))
            .ok_or_else(|| UnknownDevice { name: name.to_owned(), candidates: candidates(&wanted) })
    }

    /// The device that a driver calls so, such as `NVIDIA A100-SXM4-80GB`, with that memory.
    pub fn of_driver(name: &str, memory_bytes: Bytes) -> Option<&'static Self> {
        let (wanted, is_pcie) = (chip(name), name.to_ascii_lowercase().contains("pcie"));
        let is_like = |device: &&Self| {
            chip(device.name) == wanted
                && (0.94..1.06).contains(&(memory_bytes.as_gib() / device.memory_bytes.as_gib()))
        };
        let of_the_form = |device: &&Self| device.name.contains("pcie") == is_pcie;
        let all = || DEVICES.iter().filter(is_like);
        all().find(of_the_form).or_else(|| all().next())
    }

    /// What [`plain`] makes of its names.
    fn keys(&self) -> [String; 2] {
        let name = plain(self.name);
        let gigabytes = self.memory_bytes.as_gib().round();
        let sized = format!("{name}{gigabytes}");
        [name, sized]
    }
}

/// A device that is not in the catalogue, or a name that several have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDevice {
    /// The name that was given.
    pub name: String,
    /// Names that may have been meant, in the catalogue's order; every name if none is near.
    pub candidates: Vec<&'static str>,
}

impl fmt::Display for UnknownDevice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.escape_debug();
        let known = self.candidates.join(", ");
        if self.candidates.len() == DEVICES.len() {
            write!(out, "no device `{name}` in the catalogue, which has {known}")
        } else {
            write!(out, "no device `{name}` in the catalogue; did you mean {known}?")
        }
    }
}

impl std::error::Error for UnknownDevice {}

/// The names that begin as the wanted one does, else those that are alike, else all.
fn candidates(wanted: &str) -> Vec<&'static str> {
    let names = |near: &dyn Fn(&str) -> bool| -> Vec<&'static str> {
        DEVICES.iter().filter(|device| near(&plain(device.name))).map(|device| device.name).collect()
    };
    let alike = |name: &str| likeness(wanted, name).is_some();
    let begins = |name: &str| wanted.len() > 1 && name.starts_with(wanted);
    [names(&begins), names(&alike), names(&|_| true)].into_iter().find(|names| !names.is_empty()).unwrap_or_default()
}

/// A name without its maker, series, form and memory, and without what stands in parentheses.
fn chip(name: &str) -> String {
    let name = name.split('(').next().unwrap_or_default().to_ascii_lowercase();
    let is_size = |word: &str| {
        word == "gb" || word.strip_suffix("gb").is_some_and(|size| size.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let says_nothing = |word: &str| SERIES.contains(&word) || FORMS.iter().any(|form| word.starts_with(form));
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.filter(|word| !is_size(word) && !says_nothing(word)).collect()
}

const SERIES: [&str; 8] = ["nvidia", "amd", "apple", "geforce", "radeon", "tesla", "rtx", "rx"];
const FORMS: [&str; 3] = ["pcie", "sxm", "hbm"];

/// A name without the parts that devices have in common.
fn plain(name: &str) -> String {
    let mut name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    name.make_ascii_lowercase();
    for word in SERIES {
        name = name.strip_prefix(word).map(str::to_owned).unwrap_or(name);
    }
    let size = name.strip_suffix("gib").or_else(|| name.strip_suffix("gb"));
    size.map(str::to_owned).unwrap_or(name)
}

/// Memory and context in MiB, bandwidth in GB/s, rates (f32, f16, bf16) in Tflop/s, 0 for none.
const fn device(
    name: &'static str,
    full_name: &'static str,
    [memory, context]: [u64; 2],
    bandwidth: f64,
    [f32_rate, f16_rate, bf16_rate]: [f64; 3],
) -> Device {
    const fn rate(tera: f64) -> Option<f64> {
        if tera > 0.0 { Some(tera * 1e12) } else { None }
    }
    Device {
        name,
        full_name,
        memory_bytes: Bytes::mib(memory),
        context_bytes: Bytes::mib(context),
        bandwidth: bandwidth * 1e9,
        f32_rate: f32_rate * 1e12,
        f16_rate: rate(f16_rate),
        bf16_rate: rate(bf16_rate),
    }
}

#[rustfmt::skip]
static DEVICES: [Device; 39] = [
    device("rtx-3060", "NVIDIA GeForce RTX 3060 12 GB", [12288, 512], 360.0, [12.7, 25.5, 25.5]),
    device("rtx-3070", "NVIDIA GeForce RTX 3070", [8192, 512], 448.0, [20.3, 40.6, 40.6]),
    device("rtx-3080-10gb", "NVIDIA GeForce RTX 3080 10 GB", [10240, 512], 760.0, [29.8, 59.5, 59.5]),
    device("rtx-3080-12gb", "NVIDIA GeForce RTX 3080 12 GB", [12288, 512], 912.0, [30.6, 61.3, 61.3]),
    device("rtx-3090", "NVIDIA GeForce RTX 3090", [24576, 512], 936.0, [35.6, 71.0, 71.0]),
    device("rtx-3090-ti", "NVIDIA GeForce RTX 3090 Ti", [24564, 512], 1008.0, [40.0, 80.0, 80.0]),
    device("rtx-4060", "NVIDIA GeForce RTX 4060", [8188, 512], 272.0, [15.1, 30.2, 30.2]),
    device("rtx-4060-ti-8gb", "NVIDIA GeForce RTX 4060 Ti 8 GB", [8188, 512], 288.0, [22.1, 44.1, 44.1]),
    device("rtx-4060-ti-16gb", "NVIDIA GeForce RTX 4060 Ti 16 GB", [16380, 512], 288.0, [22.1, 44.1, 44.1]),
    device("rtx-4070", "NVIDIA GeForce RTX 4070", [12282, 512], 504.0, [29.1, 58.3, 58.3]),
    device("rtx-4070-ti", "NVIDIA GeForce RTX 4070 Ti", [12282, 512], 504.0, [40.1, 80.2, 80.2]),
    device("rtx-4080", "NVIDIA GeForce RTX 4080", [16376, 512], 716.8, [48.7, 97.5, 97.5]),
    device("rtx-4090", "NVIDIA GeForce RTX 4090", [24564, 512], 1008.0, [82.6, 165.2, 165.2]),
    device("rtx-5060-ti-8gb", "NVIDIA GeForce RTX 5060 Ti 8 GB", [8151, 640], 448.0, [23.7, 47.4, 47.4]),
    device("rtx-5060-ti-16gb", "NVIDIA GeForce RTX 5060 Ti 16 GB", [16311, 640], 448.0, [23.7, 47.4, 47.4]),
    device("rtx-5070", "NVIDIA GeForce RTX 5070", [12227, 640], 672.0, [30.9, 61.7, 61.7]),
    device("rtx-5070-ti", "NVIDIA GeForce RTX 5070 Ti", [16303, 640], 896.0, [43.9, 87.9, 87.9]),
    device("rtx-5080", "NVIDIA GeForce RTX 5080", [16303, 640], 960.0, [56.3, 112.6, 112.6]),
    device("rtx-5090", "NVIDIA GeForce RTX 5090", [32607, 640], 1792.0, [104.8, 209.5, 209.5]),
    device("t4", "NVIDIA T4", [15360, 512], 320.0, [8.1, 65.0, 0.0]),
    device("v100-16gb", "NVIDIA V100 SXM2 16 GB", [16384, 512], 900.0, [15.7, 125.0, 0.0]),
    device("v100-32gb", "NVIDIA V100 SXM2 32 GB", [32768, 512], 900.0, [15.7, 125.0, 0.0]),
    device("a100-40gb", "NVIDIA A100 SXM4 40 GB", [40960, 512], 1555.0, [19.5, 312.0, 312.0]),
    device("a100-80gb", "NVIDIA A100 SXM4 80 GB", [81920, 512], 2039.0, [19.5, 312.0, 312.0]),
    device("l4", "NVIDIA L4", [23034, 512], 300.0, [30.3, 121.0, 121.0]),
    device("l40s", "NVIDIA L40S", [46068, 512], 864.0, [91.6, 362.0, 362.0]),
    device("h100-pcie", "NVIDIA H100 PCIe 80 GB", [81559, 640], 2039.0, [51.2, 756.5, 756.5]),
    device("h100-sxm", "NVIDIA H100 SXM5 80 GB", [81559, 640], 3350.0, [66.9, 989.4, 989.4]),
    device("h200", "NVIDIA H200 SXM 141 GB", [143771, 640], 4800.0, [66.9, 989.4, 989.4]),
    device("rx-7900-xt", "AMD Radeon RX 7900 XT", [20464, 512], 800.0, [51.5, 103.0, 103.0]),
    device("rx-7900-xtx", "AMD Radeon RX 7900 XTX", [24560, 512], 960.0, [61.4, 122.8, 122.8]),
    device("m1", "Apple M1, 8 GPU cores, 16 GB", [10922, 256], 68.25, [2.6, 2.6, 0.0]),
    device("m1-max", "Apple M1 Max, 32 GPU cores, 64 GB", [49152, 256], 400.0, [10.4, 10.4, 0.0]),
    device("m2", "Apple M2, 10 GPU cores, 16 GB", [10922, 256], 100.0, [3.6, 3.6, 0.0]),
    device("m2-max", "Apple M2 Max, 38 GPU cores, 64 GB", [49152, 256], 400.0, [13.6, 13.6, 0.0]),
    device("m3", "Apple M3, 10 GPU cores, 16 GB", [10922, 256], 100.0, [3.5, 3.5, 0.0]),
    device("m3-max", "Apple M3 Max, 40 GPU cores, 64 GB", [49152, 256], 400.0, [14.1, 14.1, 0.0]),
    device("m4", "Apple M4, 10 GPU cores, 16 GB", [10922, 256], 120.0, [3.8, 3.8, 0.0]),
    device("m4-max", "Apple M4 Max, 40 GPU cores, 64 GB", [49152, 256], 546.0, [16.2, 16.2, 0.0]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_find_their_device() {
        let mut keys = BTreeSet::new();
        for device in Device::all() {
            assert!(device.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
            for key in BTreeSet::from(device.keys()) {
                assert!(keys.insert(key), "{} is ambiguous", device.name);
            }
            assert_eq!(Device::find(device.name), Ok(device));
            assert_eq!(Device::find(&device.name.to_uppercase().replace('-', " ")), Ok(device));
        }
    }

    #[test]
    fn names_are_tolerant() {
        let names = [
            ("RTX 4090", "rtx-4090"),
            ("rtx4090", "rtx-4090"),
            ("4090", "rtx-4090"),
            ("NVIDIA GeForce RTX 4090 24GB", "rtx-4090"),
            ("rtx_3090_ti", "rtx-3090-ti"),
            ("RTX 4060 Ti 16 GB", "rtx-4060-ti-16gb"),
            ("rtx 3060 12GB", "rtx-3060"),
            ("Tesla T4", "t4"),
            ("a100 80gb", "a100-80gb"),
            ("A100-80", "a100-80gb"),
            ("RX 7900 XTX", "rx-7900-xtx"),
            ("Apple M4 Max", "m4-max"),
        ];
        for (name, expected) in names {
            assert_eq!(Device::find(name).map(|device| device.name), Ok(expected), "{name}");
        }
    }

    #[test]
    fn drivers_names_find_their_device() {
        let names = [
            ("NVIDIA GeForce RTX 4090", 24, "rtx-4090"),
            ("NVIDIA GeForce RTX 3080", 10, "rtx-3080-10gb"),
            ("NVIDIA GeForce RTX 3080", 12, "rtx-3080-12gb"),
            ("NVIDIA A100-SXM4-80GB", 80, "a100-80gb"),
            ("NVIDIA A100-PCIE-40GB", 40, "a100-40gb"),
            ("NVIDIA H100 80GB HBM3", 80, "h100-sxm"),
            ("NVIDIA H100 PCIe", 80, "h100-pcie"),
            ("Tesla V100-SXM2-32GB", 32, "v100-32gb"),
            ("Tesla T4", 15, "t4"),
            ("AMD Radeon RX 7900 XTX (RADV NAVI31)", 24, "rx-7900-xtx"),
        ];
        for (name, gibibytes, expected) in names {
            let found = Device::of_driver(name, Bytes::gib(gibibytes)).map(|device| device.name);
            assert_eq!(found, Some(expected), "{name}");
        }
        for (name, gibibytes) in [
            ("NVIDIA GeForce RTX 4090 Laptop GPU", 16),
            ("NVIDIA H100 NVL", 94),
            ("llvmpipe (LLVM 15.0.6)", 24),
            ("", 24),
        ] {
            assert_eq!(Device::of_driver(name, Bytes::gib(gibibytes)), None, "{name}");
        }
    }

    #[test]
    fn unknown_names_get_every_near_one() {
        let near = |name: &str| Device::find(name).unwrap_err();
        assert_eq!(near("a100").candidates, ["a100-40gb", "a100-80gb"]);
        assert_eq!(near("rtx 3080").candidates, ["rtx-3080-10gb", "rtx-3080-12gb"]);
        assert_eq!(near("H-100").candidates, ["h100-pcie", "h100-sxm"]);
        assert!(near("rtx 4091").candidates.contains(&"rtx-4090"));
        assert_eq!(near("7900xtz").candidates, ["rx-7900-xt", "rx-7900-xtx"]);
        for nothing in ["", "gb", "abacus", "\u{1b}[31m", &"4090".repeat(100_000)] {
            assert_eq!(near(nothing).candidates.len(), Device::all().len());
        }
        assert_eq!(
            near("rtx 3080").to_string(),
            "no device `rtx 3080` in the catalogue; did you mean rtx-3080-10gb, rtx-3080-12gb?"
        );
        assert!(!near("\u{1b}[31m").to_string().contains('\u{1b}'));
        assert!(near("abacus").to_string().contains("which has rtx-3060, rtx-3070,"));
    }

    #[test]
    fn figures_are_plausible() {
        for device in Device::all() {
            let name = device.name;
            let gibibytes = device.memory_bytes.as_gib();
            assert!((7.0..145.0).contains(&gibibytes), "{name}: {gibibytes} GiB");
            assert!((50e9..5e12).contains(&device.bandwidth), "{name}");
            assert!((2e12..2e14).contains(&device.f32_rate), "{name}");
            assert!(device.context_bytes < device.memory_bytes.share(0.1), "{name}");
            assert_eq!(device.available_bytes() + device.context_bytes, device.memory_bytes);
            let f16 = device.f16_rate.unwrap();
            assert!((1.0..17.0).contains(&(f16 / device.f32_rate)), "{name}: f16 is {f16:e}");
            assert!(device.bf16_rate.is_none_or(|bf16| bf16 == f16), "{name}");
            // a card reads its memory in 5 ms to a quarter of a second, and computes 9 to 150 operations a byte
            assert!((5e-3..0.25).contains(&(device.memory_bytes.get() as f64 / device.bandwidth)), "{name}");
            assert!((9.0..150.0).contains(&(device.f32_rate / device.bandwidth)), "{name}");
        }
    }

    #[test]
    fn the_size_in_a_name_is_the_memory() {
        for device in Device::all() {
            let is_apple = device.full_name.starts_with("Apple");
            let size = device.full_name.strip_suffix(" GB").filter(|_| !is_apple);
            let Some(size) = size.and_then(|name| name.rsplit(' ').next()) else { continue };
            let (named, gibibytes) = (size.parse::<f64>().unwrap(), device.memory_bytes.as_gib());
            assert!((0.99..1.005).contains(&(gibibytes / named)), "{}: {gibibytes} GiB", device.full_name);
        }
    }

    #[test]
    fn cards_without_bf16() {
        let without: Vec<&str> =
            Device::all().iter().filter(|device| device.bf16_rate.is_none()).map(|device| device.name).collect();
        let apple = ["m1", "m1-max", "m2", "m2-max", "m3", "m3-max", "m4", "m4-max"];
        assert_eq!(without, [&["t4", "v100-16gb", "v100-32gb"], &apple[..]].concat());
    }

    #[test]
    fn known_cards() {
        let card = |name| *Device::find(name).unwrap();
        assert_eq!(card("4090").memory_bytes, Bytes::mib(24_564));
        assert_eq!(card("a100-80gb").bf16_rate, Some(312e12));
        assert_eq!(card("h200").bandwidth, 4.8e12);
        assert!(card("5090").f32_rate > card("4090").f32_rate);
    }
}
