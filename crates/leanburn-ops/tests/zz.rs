#![allow(missing_docs)]
#![cfg(feature = "cube")]
use burn::tensor::{activation::softmax, Device, DeviceKind, Tensor, TensorData};

fn compare(name: &str, f: impl Fn(&Device) -> TensorData) {
    let (a, b) = (f(&Device::flex()), f(&Device::vulkan(DeviceKind::DefaultDevice)));
    let d: f64 = a.iter::<f64>().zip(b.iter::<f64>()).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    let n: f64 = a.iter::<f64>().map(|a| a * a).sum::<f64>().sqrt();
    println!("{name}: {:.1e}", d / n);
}
fn t(device: &Device, dims: [usize; 3], salt: usize) -> Tensor<3> {
    let n = dims.iter().product::<usize>();
    let v: Vec<f32> = (0..n).map(|i| ((i * 37 + salt) * 7919 % 1009) as f32 / 1009.0 - 0.5).collect();
    Tensor::from_data(TensorData::new(v, dims), device)
}
#[test]
fn zz() {
    for (b, c, p) in [(2, 8, 120), (1, 16, 64), (1, 16, 120)] {
        println!("-- {b} {c} {p}");
        compare("swapped matmul", |d| t(d, [b, c, p], 1).swap_dims(1, 2).matmul(t(d, [b, c, p], 2)).into_data());
        compare("plain matmul", |d| t(d, [b, p, c], 1).matmul(t(d, [b, c, p], 2)).into_data());
        compare("softmax", |d| softmax(t(d, [b, p, p], 1) * 3.0, 2).into_data());
        compare("max_dim", |d| t(d, [b, p, p], 1).max_dim(2).into_data());
        compare("sum_dim", |d| t(d, [b, p, p], 1).add_scalar(1.0).sum_dim(2).into_data());
        compare("second", |d| t(d, [b, p, p], 1).matmul(t(d, [b, c, p], 2).swap_dims(1, 2)).into_data());
        compare("second swapped out", |d| t(d, [b, p, p], 1).matmul(t(d, [b, c, p], 2).swap_dims(1, 2)).swap_dims(1, 2).into_data());
        compare("third", |d| t(d, [b, c, p], 1).matmul(t(d, [b, p, p], 2)).into_data());
        compare("third swapped", |d| t(d, [b, c, p], 1).matmul(t(d, [b, p, p], 2).swap_dims(1, 2)).into_data());
    }
}
