//! The Fourier neural operator itself.

use std::ops::Range;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_common::panic_if_invalid;
use leanburn_ops::{Activation, ResidencyPolicy, Unstreamable};

use super::config::{FnoConfig, FnoPositions};
use super::grid::{Margins, cropped, margins, padded, with_channels};
use super::layer::FnoLayer;
use super::mlp::FnoMlp;
use super::upsample::FnoUpsample;
use crate::blocks::Conv3d;
use crate::segmented::segmented;

/// Fourier neural operator in one, two or three dimensions; see [`FnoConfig`] for an example and for the networks that it can be.
///
/// Input and positions to channels, a layer that refines the grid if there is one, layers with an activation between them, a network of
/// each position to the output. The same weights work on any grid.
///
/// # Memory
///
/// Saved for backward: of each layer its input and the kept coefficients (with batch norms another volume, with networks one and a half),
/// and the input of the network behind them. A linear map in front of the first layer is composed with the layer's weights: what it
/// would give is not made, so that layer saves the model's input. So a network without norms saves one volume a layer. In three
/// dimensions the networks of each position run in slabs (see [`FnoMlp`]); on planes recompute the segment `projection` where its channels
/// are many.
///
/// Segments are `lift` and `upsample` where there are such, runs of layers (`layers_0`, `layers_2`, ..) and the layers in them (`layer_0`,
/// ..), `projection`. A layer saves little but its input, so it is runs that are worth recomputing: of four layers two volumes are saved.
#[derive(Module, Debug)]
pub struct Fno {
    lift: FnoMlp,
    upsample: Option<FnoUpsample>,
    layers: Vec<FnoLayer>,
    projection: FnoMlp,
    #[module(skip)]
    config: FnoConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

impl FnoConfig {
    /// Makes the model, weights distributed as in the networks that it is modelled on.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> Fno {
        panic_if_invalid("Fno", &self.validate());
        let positions = match self.positions {
            FnoPositions::None => 0,
            _ => self.axes(),
        };
        let (first, last) = (self.widths[0], self.widths[self.num_layers()]);
        Fno {
            lift: FnoMlp::new(self.in_channels + positions, &self.lifting_channels, first, device),
            upsample: self.upsampling.as_ref().map(|upsampling| FnoUpsample::new(self, upsampling, device)),
            layers: (0..self.num_layers()).map(|layer| FnoLayer::new(self, layer, device)).collect(),
            projection: FnoMlp::new(last, &self.projection_channels, self.out_channels, device),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }

    /// Whether the first layer takes the model's input, with weights composed with those of the map in front of it.
    fn composes_lift(&self) -> bool {
        self.lifting_channels.is_empty() && self.upsampling.is_none() && self.mlp_channels(self.widths[0]) == 0
    }
}

segmented!(Fno, FnoConfig);

impl Fno {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        let lift = (!self.config.composes_lift()).then_some(LIFT);
        let entry = lift.into_iter().chain(self.upsample.as_ref().map(|_| UPSAMPLE)).map(String::from);
        let layers = (0..self.layers.len()).flat_map(|layer| {
            let run = layer.is_multiple_of(self.run_length()).then(|| run_name(layer));
            run.into_iter().chain([layer_name(layer)])
        });
        entry.chain(layers).chain([PROJECTION.to_string()]).collect()
    }

    /// The segments that can run in slabs along the depth: the networks of each position.
    pub fn unstreamable(&self) -> Vec<(String, Option<Unstreamable>)> {
        let in_slabs = |name: &String| [LIFT, PROJECTION].contains(&name.as_str());
        self.segments().into_iter().filter(in_slabs).map(|name| (name, None)).collect()
    }

    /// The output field on the grid of the input field, or on the one that is finer by the factor of the configuration.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`; depth, and height, are 1 where the model has fewer axes than three
    /// - output: `[batch_size, out_channels, ..]` with the [size](FnoConfig::output_size) of the configuration
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `in_channels` channels, or other axes; [`check_input`](FnoConfig::check_input) says which it may
    /// have.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        if let Err(error) = self.config.check_input(x.dims()) {
            panic!("Fno: {error}");
        }
        let [_, _, input @ ..] = x.dims();
        let (size, between) = (self.config.output_size(input), Activation::from(self.config.activation));
        let margins = margins(size, &self.config.padding);
        let (h, entry) = self.enter(x, between, margins);
        let run = self.run_length();
        let h = (0..self.layers.len()).step_by(run).fold(h, |h, first| {
            let layers = first..(first + run).min(self.layers.len());
            self.run_layers(layers, h, if first == 0 { entry } else { between }, margins)
        });
        let behind = if self.config.activate_last { between } else { Activation::None };
        self.projection.forward(cropped(h, margins, size), [behind, between], &self.residency, PROJECTION)
    }

    /// What the first run of layers takes, and the activation that is applied to it there. Where that run begins with the map to its
    /// channels, it makes positions and margins too: recomputed, it saves the field alone.
    fn enter(&self, x: Tensor<5>, between: Activation, margins: Margins) -> (Tensor<5>, Activation) {
        if self.config.composes_lift() {
            return (x, Activation::None);
        }
        let x = with_channels(x, self.config.axes(), self.config.positions, false);
        let h = self.lift.forward(x, [Activation::None, between], &self.residency, LIFT);
        match &self.upsample {
            Some(upsample) => {
                (padded(self.residency.run(UPSAMPLE, upsample, h, FnoUpsample::forward), margins), between)
            }
            None => (padded(h, margins), Activation::None),
        }
    }

    /// Layers of a run: the root of their number, so that as many volumes are saved between runs as are made again inside of one.
    fn run_length(&self) -> usize {
        self.layers.len().isqrt().max(1)
    }

    /// A run of layers; `entry` is the activation in front of the first.
    fn run_layers(&self, layers: Range<usize>, h: Tensor<5>, entry: Activation, margins: Margins) -> Tensor<5> {
        let (first, last) = (layers.start, self.layers.len() - 1);
        let (name, between) = (run_name(first), Activation::from(self.config.activation));
        let nested = self.residency.inside(&name);
        let lift = self.lift.linear().filter(|_| first == 0 && self.config.composes_lift()).cloned();
        let part = (lift, self.layers[layers].to_vec());
        let (axes, positions) = (self.config.axes(), self.config.positions);
        self.residency.run(&name, &part, h, move |(lift, layers): &(Option<Conv3d>, Vec<FnoLayer>), h| {
            layers.iter().zip(first..).fold(h, |h, (layer, index)| {
                let entry = if index == first { entry } else { between };
                let inner = if index == last { Activation::None } else { between };
                let name = layer_name(index);
                match lift.as_ref().filter(|_| index == 0) {
                    Some(lift) => {
                        let part = (lift.clone(), layer.clone());
                        nested.run(&name, &part, h, move |(lift, layer): &(Conv3d, FnoLayer), x| {
                            layer.forward_behind(padded(with_channels(x, axes, positions, true), margins), lift)
                        })
                    }
                    None => nested.run(&name, layer, h, move |layer: &FnoLayer, h| layer.forward(h, entry, inner)),
                }
            })
        })
    }
}

const LIFT: &str = "lift";
const UPSAMPLE: &str = "upsample";
const PROJECTION: &str = "projection";

fn run_name(first: usize) -> String {
    format!("layers_{first}")
}

fn layer_name(layer: usize) -> String {
    format!("layer_{layer}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_named_in_order_of_execution() {
        let segments = |config: FnoConfig| config.init(&Device::flex()).segments();
        let classic = FnoConfig::new(1, 1, vec![2; 3], vec![vec![2]; 2]);
        assert_eq!(segments(classic), ["layers_0", "layer_0", "layers_1", "layer_1", "projection"]);
        let refining = FnoConfig::diffsr_2d([1, 1], vec![2, 3], vec![vec![2, 2]], 2);
        assert_eq!(segments(refining), ["lift", "upsample", "layers_0", "layer_0", "projection"]);
        let gated = FnoConfig::neuraloperator(vec![4, 4], 1, 1, 4, 4);
        assert_eq!(
            segments(gated),
            ["lift", "layers_0", "layer_0", "layer_1", "layers_2", "layer_2", "layer_3", "projection"]
        );
    }

    #[test]
    #[should_panic = "Fno: the grid is [4, 8, 8], but the model's have 2 axes"]
    fn grids_that_do_not_fit_are_rejected() {
        let model = FnoConfig::classic(1, 1, 2, vec![2, 2]).init(&Device::flex());
        model.forward(Tensor::zeros([1, 1, 4, 8, 8], &Device::flex()));
    }
}
