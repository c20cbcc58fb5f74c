//! How far samplers are from the data's deviation, where the noise is known exactly: ours, and MONAI 1.6.1's arithmetic.
//!
//!     cargo run --release -p leanburn-nn --example samplers
//!
//! The data is normal with deviation 1/2. Samplers are linear then: one voxel carries the noise of the begin, each of the others that of one
//! draw, and the sum of their squares is the variance, without a sampling error.

use burn::tensor::{Device, Tensor, TensorData};
use leanburn_nn::diffusion::{
    Compatible, Ddim, Ddpm, DiffusionProcess, DiffusionProcessConfig, Karras, KarrasMethod, Pndm, RectifiedFlow,
    Sampler, karras_sigmas,
};

const DATA: f64 = 0.5;
const TIMES: usize = 1000;
const STEPS: [usize; 5] = [10, 20, 50, 100, 250];

/// The deviation of samples, divided by that of the data.
fn deviation(sampler: &impl Sampler, mut network: impl FnMut(Tensor<5>, f64) -> Tensor<5>) -> f64 {
    let voxels = sampler.times().len() + 1;
    let one = |index: usize| {
        let values = (0..voxels).map(|voxel| f32::from(voxel == index)).collect();
        Tensor::<5>::from_data(TensorData::new::<f32, _>(values, [1, 1, 1, 1, voxels]), &Device::flex())
    };
    let mut drawn = 0;
    let mut draw = |_: &Tensor<5>| {
        drawn += 1;
        one(drawn)
    };
    let samples = sampler.sample_with(one(0), &mut network, &mut draw).square().sum().into_scalar::<f32>();
    f64::from(samples).sqrt() / DATA
}

/// The noise in a volume of the process.
fn noise(process: &DiffusionProcess) -> impl FnMut(Tensor<5>, f64) -> Tensor<5> {
    let process = process.clone();
    move |x, time| {
        let alpha = process.alpha_cumprod(time as usize);
        x * ((1.0 - alpha).sqrt() / (alpha * DATA * DATA + 1.0 - alpha))
    }
}

fn velocity(x: Tensor<5>, time: f64) -> Tensor<5> {
    let share = time / TIMES as f64;
    let variance = ((1.0 - share) * DATA).powi(2) + share * share;
    x * (((1.0 - share) * DATA * DATA - share) / variance)
}

fn denoised(x: Tensor<5>, sigma: f64) -> Tensor<5> {
    x * (DATA * DATA / (sigma * sigma + DATA * DATA))
}

fn row(name: &str, of: impl Fn(usize) -> f64) {
    let cells: Vec<String> = STEPS.iter().map(|steps| format!("{:.3}", of(*steps))).collect();
    println!("| {name} | {} |", cells.join(" | "));
}

fn main() {
    let process = DiffusionProcessConfig::new().init();
    println!("| sampler | {} |", STEPS.map(|steps| format!("{steps} steps")).join(" | "));
    println!("|---|{}", "---:|".repeat(STEPS.len()));
    for (whose, compatible) in [("", Compatible::Papers), (", as MONAI", Compatible::Monai)] {
        let new = || process.clone();
        row(&format!("PNDM{whose}"), |steps| {
            deviation(&Pndm::new(new(), steps).with_compatible(compatible), noise(&process))
        });
        row(&format!("PNDM without Runge-Kutta{whose}"), |steps| {
            let sampler = Pndm::new(new(), steps).with_skip_prk_steps(true).with_compatible(compatible);
            deviation(&sampler, noise(&process))
        });
        row(&format!("DDPM{whose}"), |steps| {
            deviation(&Ddpm::new(new(), steps).with_compatible(compatible), noise(&process))
        });
        row(&format!("DDIM{whose}"), |steps| {
            deviation(&Ddim::new(new(), steps).with_compatible(compatible), noise(&process))
        });
        row(&format!("rectified flow{whose}"), |steps| {
            deviation(&RectifiedFlow::new(TIMES, steps).with_compatible(compatible), velocity)
        });
    }
    for (name, method) in [
        ("Heun on noise levels", KarrasMethod::Heun),
        ("Euler on noise levels", KarrasMethod::Euler),
        ("ancestral Euler on noise levels", KarrasMethod::EulerAncestral),
    ] {
        row(name, |steps| deviation(&Karras::new(karras_sigmas(steps, 0.002, 80.0, 7.0), method), denoised));
    }
}
