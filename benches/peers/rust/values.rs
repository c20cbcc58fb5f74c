//! Values that are the same in PyTorch, so that results can be compared; the counterpart of `pytorch/measure.py`.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Shape, Tensor, TensorData};

/// Numbers in `[-1, 1)` without a pattern, a hash of their position.
fn values(count: usize, salt: u32) -> impl Iterator<Item = f32> {
    (0..count).map(move |index| {
        let h = (index as u32).wrapping_add(salt).wrapping_mul(0x9E37_79B1);
        let h = (h ^ (h >> 15)).wrapping_mul(0x85EB_CA77);
        let h = h ^ (h >> 13);
        (f64::from(h) / 2f64.powi(31) - 1.0) as f32
    })
}

/// A tensor of such numbers times `scale`.
pub fn tensor<const D: usize>(shape: [usize; D], salt: u32, scale: f32, device: &Device) -> Tensor<D> {
    let data = values(shape.iter().product(), salt).map(|value| scale * value).collect();
    Tensor::from_data(TensorData::new::<f32, _>(data, Shape::from(shape)), device)
}

/// Gives every parameter values that follow from its shape alone; square matrices are symmetric.
pub fn fill<M: Module>(module: M) -> M {
    struct Fill;
    impl ModuleMapper for Fill {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|old| {
                let device = old.device();
                let new = tensor(old.dims(), 0, 1.0, &device);
                let fan_in: usize = old.dims()[1..].iter().product();
                let new = match D {
                    1 => new * 0.25 + 0.5,
                    2 => (new.clone() + new.swap_dims(0, 1)) / (2.0 * (fan_in as f64).sqrt()),
                    _ => new / (fan_in as f64).sqrt(),
                };
                Tensor::from_data(new.into_data(), &device).require_grad()
            })
        }
    }
    module.map(&mut Fill)
}

/// A number that other values, or the same ones elsewhere, would change.
pub fn digest<const D: usize>(tensor: &Tensor<D>) -> f64 {
    let data = tensor.to_data().try_to_vec::<f32>().expect("float32");
    let weights = values(data.len(), 1);
    data.iter().zip(weights).map(|(value, weight)| f64::from(*value).powi(2) * (1.5 + f64::from(weight))).sum()
}
