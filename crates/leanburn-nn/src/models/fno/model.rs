//! The Fourier neural operator itself.

use burn::module::Module;
use burn::tensor::{DType, Device, Tensor, TensorData, assert_shape};
use leanburn_common::panic_if_invalid;
use leanburn_ops::numerics::cast_to;
use leanburn_ops::{Activation, ResidencyPolicy, norm_act_conv3d};

use super::config::FnoConfig;
use super::layer::FnoLayer;
use crate::blocks::{Conv3d, Conv3dConfig};
use crate::segmented::segmented;

/// Fourier neural operator in one, two or three dimensions; see [`FnoConfig`] for an example.
///
/// Input and coordinates to channels, layers with an activation between them, two pointwise convolutions to the output. Equal to the
/// networks of the paper's authors: with batch norms (414,517 numbers in two dimensions with 10 input channels, 8 modes and a width of 20) and without.
///
/// # Memory
///
/// Saved for backward: of each layer its input and the kept coefficients (with a batch norm another volume), of the projection its input
/// and `projection_channels`. Recomputing the segment `projection` saves the latter. Segments are `lift`, `layer_0`, .., `projection`.
#[derive(Module, Debug)]
pub struct Fno {
    lift: Conv3d,
    layers: Vec<FnoLayer>,
    projection: Conv3d,
    output: Conv3d,
    #[module(skip)]
    config: FnoConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

impl FnoConfig {
    /// Makes the model, weights distributed as the authors'.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> Fno {
        panic_if_invalid("Fno", &self.validate());
        let pointwise = |channels| Conv3dConfig::new(channels, 1).init(device);
        Fno {
            lift: pointwise([self.in_channels + self.modes.len(), self.width]),
            layers: (0..self.num_layers).map(|_| FnoLayer::new(self, device)).collect(),
            projection: pointwise([self.width, self.projection_channels]),
            output: pointwise([self.projection_channels, self.out_channels]),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }

    fn activation(&self) -> Activation {
        if self.batch_norm { Activation::Relu } else { Activation::Gelu }
    }
}

segmented!(Fno, FnoConfig);

impl Fno {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        let layers = (0..self.layers.len()).map(layer_name);
        [LIFT.to_string()].into_iter().chain(layers).chain([PROJECTION.to_string()]).collect()
    }

    /// The output function on the grid of the input function.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`; depth, and height, are 1 where there are fewer modes than three
    /// - output: `[batch_size, out_channels, depth, height, width]`
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `in_channels` channels, or an axis with fewer positions than twice its modes.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let in_channels = self.config.in_channels;
        assert_shape!(x, [_, in_channels, ..]);
        let [_, _, size @ ..] = x.dims();
        self.config.assert_grid(size);
        let axes = self.config.modes.len();
        let lift = move |lift: &Conv3d, x: Tensor<5>| lift.forward(with_coordinates(x, axes));
        let mut h = self.residency.run(LIFT, &self.lift, x, lift);
        let between = self.config.activation();
        for (index, layer) in self.layers.iter().enumerate() {
            let activation = if index == 0 { Activation::None } else { between };
            let run = move |layer: &FnoLayer, h| layer.forward(h, activation);
            h = self.residency.run(&layer_name(index), layer, h, run);
        }
        let last = (self.projection.clone(), self.output.clone());
        self.residency.run(PROJECTION, &last, h, move |(projection, output): &(Conv3d, Conv3d), h| {
            norm_act_conv3d(projection.forward(h), None, between, output.convolution(), None)
        })
    }
}

const LIFT: &str = "lift";
const PROJECTION: &str = "projection";

fn layer_name(layer: usize) -> String {
    format!("layer_{layer}")
}

/// The volume with the coordinates of the last axes, from 0 at the first position to 1 at the last, as more channels.
fn with_coordinates(x: Tensor<5>, axes: usize) -> Tensor<5> {
    let ([batch_size, _, size @ ..], device, dtype) = (x.dims(), x.device(), x.dtype());
    let coordinate = |axis: usize| {
        let last = size[axis].saturating_sub(1).max(1) as f32;
        let values: Vec<f32> = (0..size[axis]).map(|position| position as f32 / last).collect();
        let mut dims = [1; 5];
        dims[axis + 2] = size[axis];
        let values = Tensor::<5>::from_data(TensorData::new(values, dims), (&device, DType::F32));
        cast_to(values, dtype).expand([batch_size, 1, size[0], size[1], size[2]])
    };
    Tensor::cat([x].into_iter().chain((3 - axes..3).map(coordinate)).collect(), 1)
}
