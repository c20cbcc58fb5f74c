//! The rates of convolutions on a GPU, forward and backward: `cargo run --release --example gpu_convolutions --features vulkan`
//!
//! The sizes are those of the autoencoder [32, 64, 64] at 128 x 128 x 64. Medians of 5 after 2, each of 4 in a row.

#[cfg(feature = "cube")]
#[path = "../tests/common/gpu.rs"]
mod device;

#[cfg(not(feature = "cube"))]
fn main() {
    println!("there is no GPU in this build: --features vulkan, wgpu, cuda, metal or rocm");
}

/// Runs between two waits for the device.
#[cfg(feature = "cube")]
const REPEATS: usize = 4;

#[cfg(feature = "cube")]
fn main() {
    use burn::tensor::{DType, Distribution, Tensor, ops::ConvOptions};
    use leanburn_ops::{Convolution, backward, conv3d};
    use std::time::Instant;

    let device = device::gpu().autodiff();
    println!(
        "| dtype | in | out | volume | forward | TFLOP/s | with backward | TFLOP/s |\n\
         |---|---:|---:|---|---:|---:|---:|---:|"
    );
    let sizes: [(usize, usize, [usize; 3]); 6] = [
        (1, 32, [128, 128, 64]),
        (32, 32, [128, 128, 64]),
        (64, 64, [128, 128, 64]),
        (64, 32, [128, 128, 64]),
        (64, 64, [32, 32, 16]),
        (32, 1, [128, 128, 64]),
    ];
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        if !device.supports_dtype(dtype) {
            continue;
        }
        for (channels_in, channels_out, [depth, height, width]) in sizes {
            let random = |dims| Tensor::<5>::random(dims, Distribution::Default, (&device, DType::F32));
            let x = random([1, channels_in, depth, height, width]).cast(dtype).detach().require_grad();
            let weight = random([channels_out, channels_in, 3, 3, 3]).require_grad();
            let options = ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
            let forward =
                || conv3d(x.clone(), Convolution { weight: weight.clone(), bias: None, options: options.clone() });
            let seconds = |run: &dyn Fn()| {
                let mut seconds: Vec<f64> = (0..7)
                    .map(|_| {
                        device.sync().expect("the device works");
                        let begin = Instant::now();
                        (0..REPEATS).for_each(|_| run());
                        device.sync().expect("the device works");
                        begin.elapsed().as_secs_f64() / REPEATS as f64
                    })
                    .skip(2)
                    .collect();
                seconds.sort_by(f64::total_cmp);
                seconds[2]
            };
            let alone = seconds(&|| drop(forward()));
            let both = seconds(&|| {
                let mut gradients = backward(forward().cast(DType::F32).sum());
                drop((gradients.take(&x), gradients.take(&weight)));
            });
            let flops = 2.0 * 27.0 * (channels_in * channels_out * depth * height * width) as f64;
            println!(
                "| {dtype:?} | {channels_in} | {channels_out} | {depth} x {height} x {width} | {:.2} ms | {:.1} | {:.2} ms | {:.1} |",
                alone * 1e3,
                flops / alone / 1e12,
                both * 1e3,
                3.0 * flops / both / 1e12
            );
        }
    }
}
