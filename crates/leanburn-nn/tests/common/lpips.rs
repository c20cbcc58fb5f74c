//! The perceptual loss with the weights of the fixture of `lpips`, which `make_lpips.py` made.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::prelude::*;
use leanburn_nn::losses::{Lpips, LpipsConfig, LpipsFeatures, LpipsNetwork, Plane};
use leanburn_nn::weights::MonaiWeights;
use leanburn_ops::random;

use super::{Tensors, read_tensors, relative_error, values};

/// The shapes of a network's weights by the names of `lpips`.
pub fn shapes(network: LpipsNetwork) -> BTreeMap<String, Vec<usize>> {
    struct Shapes(Vec<String>, BTreeMap<String, Vec<usize>>);
    impl ModuleVisitor for Shapes {
        fn enter_module(&mut self, name: &str, container: &str) {
            if !container.starts_with("Enum:") {
                self.0.push(name.to_string());
            }
        }
        fn exit_module(&mut self, _name: &str, container: &str) {
            if !container.starts_with("Enum:") {
                self.0.pop();
            }
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let path = self.0.join(".");
            let name = LpipsFeatures::monai_name(path.strip_prefix("features.").expect("of the network"));
            self.1.insert(name, param.val().shape().to_vec());
        }
    }
    let mut shapes = Shapes(Vec::new(), BTreeMap::new());
    LpipsConfig::new().with_network(network).init(&Device::flex()).visit(&mut shapes);
    shapes.1
}

/// The weights of `make_lpips.py`, and what else a state dict of `lpips` holds.
pub fn state_dict(network: LpipsNetwork) -> Tensors {
    let mut tensors = Tensors::new();
    for (index, (name, shape)) in shapes(network).into_iter().enumerate() {
        let fan_in = shape[1..].iter().product::<usize>() as f64;
        let value = |position| {
            let uniform = (random::derive(index as u64, &[position]) >> 40) as f64 / f64::from(1 << 24);
            let value = match () {
                _ if name.starts_with("lin") => uniform / shape[1] as f64,
                _ if name.ends_with(".bias") => (2.0 * uniform - 1.0) * 0.1,
                _ => (2.0 * uniform - 1.0) * (6.0 / fan_in).sqrt(),
            };
            value as f32
        };
        let values: Vec<f32> = (0..shape.iter().product::<usize>() as u64).map(value).collect();
        if let Some(lin) = name.strip_prefix("lin") {
            tensors.insert(format!("lins.{lin}"), (shape.clone(), values.clone()));
        }
        tensors.insert(name, (shape, values));
    }
    tensors.insert("scaling_layer.shift".to_string(), (vec![1, 3, 1, 1], vec![0.0; 3]));
    tensors
}

pub fn write(tensors: &Tensors, path: &Path) {
    let bytes = tensors.iter().map(|(name, (shape, values))| {
        (name, (shape, values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()))
    });
    let bytes: BTreeMap<_, _> = bytes.collect();
    let views = bytes.iter().map(|(name, (shape, bytes))| {
        (name, safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.to_vec(), bytes).unwrap())
    });
    safetensors::serialize_to_file(views, None, path).unwrap();
}

/// The loss with the fixture's weights, on all slices across the depth.
pub fn load(network: LpipsNetwork, device: &Device) -> Lpips {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lpips.safetensors");
    write(&state_dict(network), &path);
    let config = LpipsConfig::new().with_network(network).with_planes(vec![Plane::Depth]).with_slice_share(1.0);
    config.load(&path, device).unwrap()
}

/// How far distances and gradients are from those of `lpips`, relative.
pub fn errors(network: LpipsNetwork, device: &Device) -> (f64, f64) {
    let (device, fixture) = (device.clone().autodiff(), read_tensors("lpips"));
    let loss = load(network, &device);
    let (mut distances, mut gradients) = (Vec::new(), Vec::new());
    for image in 0..2 {
        let input = |name: &str| {
            let (shape, values) = &fixture[name];
            let images = Tensor::<4>::from_data(TensorData::new(values.clone(), shape.clone()), &device);
            images.narrow(0, image, 1).unsqueeze_dim::<5>(2)
        };
        let x = input("input.x").require_grad();
        let distance = loss.forward(x.clone(), input("input.y"), 0);
        gradients.extend(values(x.grad(&distance.clone().backward()).unwrap() / 2.0));
        distances.extend(values(distance));
    }
    let error = |found: &[f32], name: &str| relative_error(found, &fixture[&format!("{name}.{}", network.name())].1);
    (error(&distances, "output"), error(&gradients, "grad"))
}
