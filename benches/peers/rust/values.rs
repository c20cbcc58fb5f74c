//! Values that are the same in PyTorch, so that results can be compared; the same as in `pytorch/measure.py`.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Shape, Tensor, TensorData};
use serde_json::{Value, json};

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
                    2 if old.dims()[0] == fan_in => {
                        (new.clone() + new.swap_dims(0, 1)) / (2.0 * (fan_in as f64).sqrt())
                    }
                    _ => new / (fan_in as f64).sqrt(),
                };
                Tensor::from_data(new.into_data(), &device).require_grad()
            })
        }
    }
    module.map(&mut Fill)
}

/// A tensor's length, and its product with a fixed direction: other values, signs or places would change them.
pub fn digest<const D: usize>(tensor: &Tensor<D>) -> Value {
    let data = tensor.to_data().try_to_vec::<f32>().expect("float32");
    let [mut squares, mut of_direction, mut product] = [0.0; 3];
    for (value, direction) in data.iter().zip(values(data.len(), 1)) {
        let [value, direction] = [*value, direction].map(f64::from);
        squares += value * value;
        of_direction += direction * direction;
        product += value * direction;
    }
    json!({"length": squares.sqrt(), "along": product / of_direction.sqrt()})
}

/// The 2-norm of the gradients of all parameters together.
///
/// # Panics
///
/// Panics if a parameter has no gradient.
pub fn gradient_norm<M: Module>(module: &M, gradients: &GradientsParams) -> f64 {
    struct Squares<'a>(&'a GradientsParams, f64);
    impl ModuleVisitor for Squares<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let gradient = self.0.get::<D>(param.id).expect("every parameter has a gradient");
            let values = gradient.into_data().try_to_vec::<f32>().expect("float32");
            self.1 += values.into_iter().map(|value| f64::from(value).powi(2)).sum::<f64>();
        }
    }
    let mut squares = Squares(gradients, 0.0);
    module.visit(&mut squares);
    squares.1.sqrt()
}

/// The largest number of groups, 32 at most, that divides every level's channels.
pub fn norm_num_groups(channels: &[usize]) -> usize {
    (1..=32).rev().find(|groups| channels.iter().all(|channels| channels % groups == 0)).unwrap_or(1)
}
