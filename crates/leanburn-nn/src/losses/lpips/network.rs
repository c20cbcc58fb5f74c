//! The networks, as torchvision has them, cut where LPIPS compares their features.

use burn::module::Module;
use burn::tensor::{Device, Tensor, activation};
use leanburn_ops::{MaxPool3d, max_pool3d};

use super::config::LpipsNetwork;
use crate::blocks::{Conv2d, Conv2dConfig};
use crate::weights::MonaiWeights;

/// A network and the weights with which its features count.
///
/// Named and laid out as `lpips.LPIPS`. Only linear maps, ReLUs and pooling: the slices are the planes of the depth.
#[derive(Module, Debug)]
pub struct LpipsFeatures {
    slices: Vec<FeatureSlice>,
    lins: Vec<Conv2d>,
}

/// The layers between two places where features are compared.
#[derive(Module, Debug)]
pub struct FeatureSlice {
    /// Size of the pooling windows in front, of stride two; 0 for none.
    pool: usize,
    /// Whether a last window may reach over the end.
    ceil_mode: bool,
    /// The layers at their place in torchvision's list; `None` where that has no weights or belongs to another slice.
    layers: Vec<Option<LpipsLayer>>,
}

/// A layer with weights. A ReLU follows.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "handles to parameters, small next to the parameters")]
pub enum LpipsLayer {
    /// Convolution.
    Conv(Conv2d),
    /// Fire module.
    Fire(Fire),
}

/// A 1x1 convolution to few channels, then 1x1 and 3x3 convolutions side by side.
#[derive(Module, Debug)]
pub struct Fire {
    squeeze: Conv2d,
    expand1x1: Conv2d,
    expand3x3: Conv2d,
}

impl LpipsLayer {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Self::Conv(conv) => activation::relu(conv.forward(x)),
            Self::Fire(Fire { squeeze, expand1x1, expand3x3 }) => {
                let x = activation::relu(squeeze.forward(x));
                activation::relu(Tensor::cat(vec![expand1x1.forward(x.clone()), expand3x3.forward(x)], 1))
            }
        }
    }
}

impl FeatureSlice {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let x = match self.pool {
            0 => x,
            size => {
                let windows =
                    MaxPool3d { stride: [1, 2, 2], ceil_mode: self.ceil_mode, ..MaxPool3d::new([1, size, size]) };
                max_pool3d(x, windows)
            }
        };
        self.layers.iter().flatten().fold(x, |x, layer| layer.forward(x))
    }
}

impl LpipsFeatures {
    /// Random weights.
    pub(super) fn new(network: LpipsNetwork, device: &Device) -> Self {
        let (slices, channels): (Vec<FeatureSlice>, &[usize]) = match network {
            LpipsNetwork::Squeeze => (squeeze(device), &[64, 128, 256, 384, 384, 512, 512]),
            LpipsNetwork::Alex => (alex(device), &[64, 192, 384, 256, 256]),
            LpipsNetwork::Vgg => (vgg(device), &[64, 128, 256, 512, 512]),
        };
        let lin = |channels: &usize| Conv2dConfig::new([*channels, 1], 1).with_bias(false).init(device);
        Self { slices, lins: channels.iter().map(lin).collect() }
    }

    /// The features of slices `[batch_size, 3, slices, height, width]`, one for each place where features are compared.
    pub(super) fn features(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        let mut x = x;
        let next = |slice: &FeatureSlice| {
            x = slice.forward(x.clone());
            x.clone()
        };
        self.slices.iter().map(next).collect()
    }

    /// The layers that weigh features.
    pub(super) fn lins(&self) -> &[Conv2d] {
        &self.lins
    }
}

/// A slice of layers at their places.
fn slice<const N: usize>(pool: usize, ceil_mode: bool, layers: [(usize, LpipsLayer); N]) -> FeatureSlice {
    let mut places: Vec<Option<LpipsLayer>> = Vec::new();
    for (place, layer) in layers {
        places.resize_with(place, || None);
        places.push(Some(layer));
    }
    FeatureSlice { pool, ceil_mode, layers: places }
}

fn conv(channels: [usize; 2], kernel_size: usize, stride: usize, padding: usize, device: &Device) -> LpipsLayer {
    LpipsLayer::Conv(Conv2dConfig::new(channels, kernel_size).with_stride(stride).with_padding(padding).init(device))
}

fn squeeze(device: &Device) -> Vec<FeatureSlice> {
    let fire = |place: usize, channels_in: usize, squeezed: usize, expanded: usize| {
        let fire = Fire {
            squeeze: Conv2dConfig::new([channels_in, squeezed], 1).init(device),
            expand1x1: Conv2dConfig::new([squeezed, expanded], 1).init(device),
            expand3x3: Conv2dConfig::new([squeezed, expanded], 3).with_padding(1).init(device),
        };
        (place, LpipsLayer::Fire(fire))
    };
    vec![
        slice(0, true, [(0, conv([3, 64], 3, 2, 0, device))]),
        slice(3, true, [fire(3, 64, 16, 64), fire(4, 128, 16, 64)]),
        slice(3, true, [fire(6, 128, 32, 128), fire(7, 256, 32, 128)]),
        slice(3, true, [fire(9, 256, 48, 192)]),
        slice(0, true, [fire(10, 384, 48, 192)]),
        slice(0, true, [fire(11, 384, 64, 256)]),
        slice(0, true, [fire(12, 512, 64, 256)]),
    ]
}

fn alex(device: &Device) -> Vec<FeatureSlice> {
    vec![
        slice(0, false, [(0, conv([3, 64], 11, 4, 2, device))]),
        slice(3, false, [(3, conv([64, 192], 5, 1, 2, device))]),
        slice(3, false, [(6, conv([192, 384], 3, 1, 1, device))]),
        slice(0, false, [(8, conv([384, 256], 3, 1, 1, device))]),
        slice(0, false, [(10, conv([256, 256], 3, 1, 1, device))]),
    ]
}

fn vgg(device: &Device) -> Vec<FeatureSlice> {
    let at = |place: usize, channels_in, channels_out| (place, conv([channels_in, channels_out], 3, 1, 1, device));
    vec![
        slice(0, false, [at(0, 3, 64), at(2, 64, 64)]),
        slice(2, false, [at(5, 64, 128), at(7, 128, 128)]),
        slice(2, false, [at(10, 128, 256), at(12, 256, 256), at(14, 256, 256)]),
        slice(2, false, [at(17, 256, 512), at(19, 512, 512), at(21, 512, 512)]),
        slice(2, false, [at(24, 512, 512), at(26, 512, 512), at(28, 512, 512)]),
    ]
}

impl MonaiWeights for LpipsFeatures {
    fn monai_name(path: &str) -> String {
        let parts: Vec<_> = path.split('.').collect();
        match parts[..] {
            ["slices", slice, "layers", ref rest @ ..] => {
                format!("net.slice{}.{}", slice.parse::<usize>().map_or(0, |slice| slice + 1), rest.join("."))
            }
            ["lins", index, name] => format!("lin{index}.model.1.{name}"),
            _ => path.to_string(),
        }
    }

    /// The package names the weights of the features twice, and stores the constants that images are scaled by.
    fn is_spare(name: &str) -> bool {
        name.starts_with("lins.") || name.starts_with("scaling_layer.")
    }
}
