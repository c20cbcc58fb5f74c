//! `leanburn devices`.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{DType, Device, Tensor, TensorData};
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::{ASCII_MARKDOWN, UTF8_FULL_CONDENSED};
use leanburn_common::Bytes;
use leanburn_nn::losses::{kl_divergence_mean, l1_loss};
use leanburn_nn::models::{AutoencoderKl, AutoencoderKlConfig};
use leanburn_ops::Gpu;
use leanburn_systems::SystemError;
use leanburn_systems::device::{self, families, gpu, precisions};

use crate::console::print_line;
use crate::error::Result;

/// `leanburn devices`
#[derive(Debug, Args)]
pub struct Devices {
    /// Print the name of the best device alone.
    #[arg(long, conflicts_with_all = ["name", "check"])]
    best: bool,
    /// Print what a device calls itself.
    #[arg(long, value_name = "DEVICE", conflicts_with = "check")]
    name: Option<String>,
    /// Take a training step on a device and on the CPU, and compare losses and gradients.
    #[arg(long, value_name = "DEVICE")]
    check: Option<String>,
}

impl Devices {
    pub(super) fn run(self) -> Result<()> {
        if self.best {
            return print_line(device::best());
        }
        if let Some(name) = self.name {
            let found = device::device(&name)?;
            return print_line(Gpu::of(&found).map_or("CPU".to_string(), |gpu| gpu.name));
        }
        match self.check {
            Some(name) => check(&name),
            None => print_line(table()),
        }
    }
}

/// The devices of this machine, and the families that this build or this machine has not.
fn table() -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["device", "what", "name", "memory", "largest tensor", "computes in"]);
    for family in families() {
        let devices = family.present();
        if devices.is_empty() {
            let missing = match family.is_built() {
                false => format!("not in this build: build with --features {}", family.name),
                true => format!("none on this machine: {}", family.driver),
            };
            table.add_row([family.name, family.about, &missing, "", "", ""]);
        }
        for (index, device) in devices.iter().enumerate() {
            let name = if index == 0 { family.name.to_string() } else { format!("{}:{index}", family.name) };
            let [what, memory, largest] = match gpu(device) {
                Some(gpu) => {
                    let memory = gpu.memory.map(|bytes| Bytes(bytes).to_string());
                    [
                        format!("{} ({})", gpu.name, gpu.runtime),
                        memory.unwrap_or_default(),
                        Bytes(gpu.largest_allocation).to_string(),
                    ]
                }
                None => {
                    let cores = std::thread::available_parallelism().map_or(1, usize::from);
                    let best = leanburn_ops::instructions().map_or(String::new(), |best| format!(", {best}"));
                    let cache = Bytes(leanburn_ops::second_level_cache() as u64);
                    [format!("{cores} threads{best}, {cache} of L2 each"), String::new(), String::new()]
                }
            };
            table.add_row([name, family.about.to_string(), what, memory, largest, precisions(device)]);
        }
    }
    table
}

/// How far a device may be from the CPU in each precision: the loss, and all gradients as one vector, relative.
const TOLERANCES: [(&str, DType, f64); 3] =
    [("f32", DType::F32, 1e-4), ("bf16", DType::BF16, 5e-2), ("f16", DType::F16, 1e-2)];

/// One step of a small autoencoder with attention.
fn check(name: &str) -> Result<()> {
    let found = device::device(name)?;
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header([
        "precision",
        "loss",
        "loss on the CPU",
        "gradients off by",
        "at most",
    ]);
    let called = Gpu::of(&found).map_or("the CPU".to_string(), |gpu| gpu.name);
    let mut is_good = true;
    for (precision, dtype, tolerance) in TOLERANCES {
        if !found.supports_dtype(dtype) {
            table.add_row([precision, "not computed in", "", "", ""]);
            continue;
        }
        let ((loss, gradients), (expected, reference)) = (step(&found, dtype), step(&Device::flex(), dtype));
        let error = distance(&gradients, &reference);
        let loss_error = f64::from((loss - expected).abs() / expected);
        is_good &= error <= tolerance && loss_error <= tolerance;
        table.add_row([
            precision.to_string(),
            loss.to_string(),
            expected.to_string(),
            format!("{error:.1e}"),
            format!("{tolerance:.0e}"),
        ]);
    }
    print_line(format_args!("A training step on {called} ({name}) compared with the CPU's\n\n{table}"))?;
    match is_good {
        true => Ok(()),
        false => Err(SystemError::Device {
            name: name.to_string(),
            reason: "it computes something else than the CPU".into(),
            remedy: "update its driver; if that does not help, please report the table".into(),
        }
        .into()),
    }
}

fn model(device: &Device) -> AutoencoderKl {
    leanburn_ops::random::seed(device, 1);
    AutoencoderKlConfig::new(vec![8, 16], vec![1, 1], vec![false, true]).with_norm_num_groups(4).init(device)
}

/// The loss, and the gradients of the parameters. A seed gives the same weights on every device.
fn step(device: &Device, dtype: DType) -> (f32, Vec<TensorData>) {
    struct Take<'a>(&'a mut leanburn_ops::Gradients, Vec<TensorData>);
    impl ModuleVisitor for Take<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.1.extend(self.0.take(&param.val()).map(|gradient| gradient.cast(DType::F32).into_data()));
        }
    }
    let device = device.clone().autodiff();
    let model = model(&device);
    let values: Vec<f32> = (0..16 * 16 * 16).map(|index| (index * 37 % 101) as f32 / 101.0).collect();
    let x = Tensor::<5>::from_data(TensorData::new(values, [1, 1, 16, 16, 16]), &device);
    let (mean, sigma) = model.encode(x.clone().cast(dtype));
    let reconstruction = model.decode(mean.clone());
    let loss = l1_loss(reconstruction.cast(DType::F32), x) + kl_divergence_mean(mean, sigma).cast(DType::F32) * 1e-3;
    let mut gradients = leanburn_ops::backward(loss.clone());
    let mut take = Take(&mut gradients, Vec::new());
    model.visit(&mut take);
    (loss.into_scalar::<f32>(), take.1)
}

fn distance(found: &[TensorData], expected: &[TensorData]) -> f64 {
    let values = |data: &[TensorData]| -> Vec<f64> { data.iter().flat_map(|data| data.iter::<f64>()).collect() };
    let (found, expected) = (values(found), values(expected));
    if found.len() != expected.len() {
        return f64::INFINITY;
    }
    let sum = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let difference = sum(&mut found.iter().zip(&expected).map(|(a, b)| a - b));
    difference / sum(&mut expected.iter().copied())
}
