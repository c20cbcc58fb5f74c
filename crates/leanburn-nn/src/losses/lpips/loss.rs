//! The perceptual loss itself.

use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use leanburn_common::panic_if_invalid;
use leanburn_ops::numerics::widen;
use leanburn_ops::{ResidencyPolicy, conv3d, random};

use super::config::{LpipsConfig, Plane};
use super::error::LpipsError;
use super::network::LpipsFeatures;
use crate::losses::shapes::assert_same_shape;
use crate::segmented::segmented;
use crate::weights;

/// Mean and deviation of photographs in `[-1, 1]`, as the networks were trained on.
const SHIFT: [f32; 3] = [-0.030, -0.088, -0.188];
const SCALE: [f32; 3] = [0.458, 0.448, 0.450];

/// Perceptual distance of the slices of two volumes; see [`LpipsConfig`].
///
/// Equal to `lpips.LPIPS` (version 0.1) of each slice, averaged over slices, planes and the batch. The weights are fixed.
///
/// # Memory
///
/// Saved for backward: nothing but the volumes, as every few slices are a segment that is recomputed unless the policy says otherwise
/// ([`with_residency`](Self::with_residency)). Backward of a segment holds all features of its slices, those of the
/// target not.
///
/// # Numerics
///
/// The network runs in the dtype of the prediction, distances are float32.
#[derive(Module, Debug)]
pub struct Lpips {
    features: LpipsFeatures,
    #[module(skip)]
    config: LpipsConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

impl LpipsConfig {
    /// Makes the loss with the weights of a file, which is what it is good for.
    ///
    /// The file is the state dict of the package `lpips`, `.pt` or `.safetensors`. It is written once with
    ///
    /// ```text
    /// pip install lpips
    /// python -c "import lpips, torch; torch.save(lpips.LPIPS(net='squeeze').state_dict(), 'lpips_squeeze.pt')"
    /// ```
    ///
    /// # Errors
    ///
    /// [`LpipsError`], which says how to make the file.
    ///
    /// # Panics
    ///
    /// As [`init`](Self::init).
    pub fn load(&self, path: &Path, device: &Device) -> Result<Lpips, LpipsError> {
        let mut loss = self.init(device);
        let failed = |source| LpipsError { network: self.network, source: Box::new(source) };
        weights::load(&mut loss.features, path).map_err(failed)?;
        loss.features = loss.features.no_grad();
        Ok(loss)
    }

    /// Makes the loss with random weights: for planning, where values do not matter.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> Lpips {
        panic_if_invalid("Lpips", &self.validate());
        Lpips {
            features: LpipsFeatures::new(self.network, device).no_grad(),
            config: self.clone(),
            residency: ResidencyPolicy::recompute_all(),
        }
    }
}

segmented!(Lpips, LpipsConfig);

impl Lpips {
    /// The network and the weights of its features, named as the package `lpips` names them.
    pub fn features(&self) -> &LpipsFeatures {
        &self.features
    }

    /// The distance.
    ///
    /// Where not all slices are compared, they are evenly spaced from a place that is a pure function of `draw`: give
    /// the number of the step, and over time all are compared.
    ///
    /// # Shapes
    ///
    /// - `prediction`, `target`: `[batch_size, 1 or 3, depth, height, width]`, values in `[-1, 1]`
    /// - output: `[1]`
    ///
    /// # Panics
    ///
    /// Panics if the shapes differ, there are other than one or three channels, or a slice is smaller than the network's
    /// [`smallest_side`](super::LpipsNetwork::smallest_side).
    pub fn forward(&self, prediction: Tensor<5>, target: Tensor<5>, draw: u64) -> Tensor<1> {
        self.check(&prediction);
        assert_same_shape(&prediction, &target);
        let target = target.detach();
        // Its weights are fixed: to the segments it is a constant that they share, and none keeps a copy of its structure.
        let network = Arc::new(self.features.clone());
        let planes = self.config.planes.iter().map(|&plane| {
            let (prediction, target) = (across(prediction.clone(), plane), across(target.clone(), plane));
            let seed = random::derive(draw, &[plane as u64]);
            let chosen = evenly(prediction.dims()[2], self.config.slice_share, seed);
            let count = chosen.len() as f64;
            let groups = chosen.chunks(self.config.slices_per_segment).enumerate();
            let groups = groups.map(|(index, group)| self.group(&network, plane, index, group, [&prediction, &target]));
            groups.reduce(|sum, group| sum + group).expect("at least one slice") / count
        });
        let total = planes.reduce(|sum, plane| sum + plane).expect("at least one plane");
        total / self.config.planes.len() as f64
    }

    /// The sum of the distances of some slices: one segment.
    fn group(
        &self,
        network: &Arc<LpipsFeatures>,
        plane: Plane,
        index: usize,
        places: &[i64],
        [x, y]: [&Tensor<5>; 2],
    ) -> Tensor<1> {
        let name = format!("perceptual.{}.slices_{index}", plane.name());
        let (network, places, no_module) = (network.clone(), places.to_vec(), 0usize);
        self.residency.run(&name, &no_module, (x.clone(), y.clone()), move |_, (x, y): (Tensor<5>, Tensor<5>)| {
            let device = x.device();
            let slices = |volume: Tensor<5>| photographs(select(volume, &places, &device));
            distance(&network, slices(x), slices(y)) * places.len() as f64
        })
    }

    fn check(&self, x: &Tensor<5>) {
        let [_, channels, volume @ ..] = x.dims();
        assert!(channels == 1 || channels == 3, "Lpips: slices have 1 or 3 channels, found {channels}");
        let smallest = self.config.network.smallest_side();
        for plane in &self.config.planes {
            let sides: Vec<_> = (0..3).filter(|axis| *axis != *plane as usize).map(|axis| volume[axis]).collect();
            assert!(
                sides.iter().all(|side| *side >= smallest),
                "Lpips: slices across the {} of {volume:?} are {sides:?}, {} needs {smallest} at least; leave that plane \
                 out of `planes` or take another network",
                plane.name(),
                self.config.network.name()
            );
        }
    }
}

/// The volume with the axis of the plane as its depth.
fn across(x: Tensor<5>, plane: Plane) -> Tensor<5> {
    match plane {
        Plane::Depth => x,
        Plane::Height => x.permute([0, 1, 3, 2, 4]),
        Plane::Width => x.permute([0, 1, 4, 2, 3]),
    }
}

/// A share of `size` places, evenly spaced from a drawn one on.
fn evenly(size: usize, share: f64, seed: u64) -> Vec<i64> {
    let count = ((size as f64 * share).ceil() as usize).clamp(1, size.max(1));
    // In whole numbers, so that no two places fall together.
    let start = (seed % size.max(1) as u64) as usize;
    (0..count).map(|index| ((start + index * size) / count) as i64).collect()
}

fn select(x: Tensor<5>, places: &[i64], device: &Device) -> Tensor<5> {
    x.select(2, Tensor::<1, Int>::from_data(places, device))
}

/// Three channels, scaled as the networks know them.
fn photographs(x: Tensor<5>) -> Tensor<5> {
    let [batch_size, _, slices, height, width] = x.dims();
    let constant = |values: [f32; 3]| Tensor::<1>::from_data(values, (&x.device(), x.dtype())).reshape([1, 3, 1, 1, 1]);
    let (shift, scale) = (constant(SHIFT), constant(SCALE));
    (x.expand([batch_size, 3, slices, height, width]) - shift) / scale
}

/// The distance averaged over slices and the batch.
fn distance(network: &LpipsFeatures, x: Tensor<5>, y: Tensor<5>) -> Tensor<1> {
    let features = network.features(y).into_iter().zip(network.features(x)).zip(network.lins());
    let layers = features.map(|((y, x), lin)| {
        let difference = (unit(x) - unit(y)).square();
        conv3d(difference, lin.convolution()).mean()
    });
    layers.reduce(|sum, layer| sum + layer).expect("a network has layers")
}

/// The features of each pixel, divided by their length, in float32.
///
/// The smallest length is added under the root, so that the gradient of no features at all is none.
fn unit(features: Tensor<5>) -> Tensor<5> {
    let features = widen(features);
    let length = (features.clone().square().sum_dim(1) + 1e-20).sqrt();
    features / length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_evenly_spaced_and_all_are_compared() {
        let mut seen = [false; 10];
        for draw in 0..50 {
            let places = evenly(10, 0.3, random::derive(draw, &[]));
            assert_eq!(places.len(), 3);
            assert!(places.windows(2).all(|pair| (3..=4).contains(&(pair[1] - pair[0]))), "{places:?}");
            places.iter().for_each(|&place| seen[place as usize] = true);
        }
        assert_eq!(seen, [true; 10]);
        assert_eq!(evenly(5, 1.0, u64::MAX), [0, 1, 2, 3, 4]);
        assert_eq!(evenly(5, 1e-9, 0).len(), 1);
    }
}
