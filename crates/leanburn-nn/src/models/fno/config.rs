//! Configuration of the Fourier neural operators, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};
use serde::{Deserialize, Serialize};

use crate::blocks::Activation;
use crate::models::shape_error::ShapeError;
use crate::validation::Rules;

/// Configuration of [`Fno`](super::Fno). The networks in use are [`classic`](Self::classic), [`diffsr_2d`](Self::diffsr_2d),
/// [`diffsr_3d`](Self::diffsr_3d) and [`neuraloperator`](Self::neuraloperator).
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::FnoConfig;
///
/// let device = Device::flex();
/// let model = FnoConfig::classic(1, 1, 4, vec![3, 3]).init(&device);
/// for size in [[8, 8], [13, 11]] {
///     let x = Tensor::random([1, 1, 1, size[0], size[1]], Distribution::Default, &device);
///     assert_eq!(model.forward(x).dims(), [1, 1, 1, size[0], size[1]]);
/// }
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct FnoConfig {
    /// Channels of the input, without the positions that are appended.
    pub in_channels: usize,
    /// Channels of the output.
    pub out_channels: usize,
    /// Channels in front of the first layer and behind each: one entry more than layers.
    pub widths: Vec<usize>,
    /// Frequencies of each layer along each axis, the last one that of the width. One entry for fields on lines, two or three for planes
    /// and volumes; the same number in each layer. What they count is said by `frequencies`.
    pub modes: Vec<Vec<usize>>,
    /// Which frequencies are kept.
    #[config(default = "FnoFrequencies::Corners")]
    pub frequencies: FnoFrequencies,
    /// The positions that are appended to the input's channels, one for each axis.
    #[config(default = "FnoPositions::ToTheEnd")]
    pub positions: FnoPositions,
    /// Channels inside of the network from the input to the first layer; with none it is a linear map.
    #[config(default = "Vec::new()")]
    pub lifting_channels: Vec<usize>,
    /// Channels inside of the network from the last layer to the output.
    #[config(default = "vec![128]")]
    pub projection_channels: Vec<usize>,
    /// The activation between layers, and inside of the two networks.
    #[config(default = "Activation::Gelu")]
    pub activation: Activation,
    /// Whether the activation follows the last layer too.
    #[config(default = false)]
    pub activate_last: bool,
    /// What a layer has besides the spectral convolution and the pointwise one.
    #[config(default = "FnoBlock::Plain")]
    pub block: FnoBlock,
    /// Share of numbers that the Tucker factors of spectral weights have of the weights; `None` for weights that are not factorised.
    #[config(default = "None")]
    pub rank: Option<f64>,
    /// The layer in front of the first one that refines the grid, if there is one.
    #[config(default = "None")]
    pub upsampling: Option<FnoUpsampling>,
    /// Zeros in front of each axis and behind it while layers run, as shares of its length; an entry for each axis, or none.
    #[config(default = "Vec::new()")]
    pub padding: Vec<[f64; 2]>,
}

/// The frequencies of a layer. What a grid does not have, beyond half of its length, is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FnoFrequencies {
    /// `modes` from 0 up and as many below 0; along the last axis from 0 up. Weights are uniform from 0 to `1 / (in * out)`.
    #[default]
    Corners,
    /// `modes` around 0, the odd one out below it; along the last axis from 0 to `modes / 2`. Weights are normal with a variance of
    /// `2 / (in + out)`.
    Centred,
}

/// Positions as channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FnoPositions {
    /// None.
    None,
    /// From 0 at the first to 1 at the last.
    #[default]
    ToTheEnd,
    /// From 0 at the first to 1 behind the last, which is the first again.
    Periodic,
}

/// A layer that refines the grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FnoUpsampling {
    /// By how much each axis grows, a power of two.
    pub factor: usize,
    /// Its frequencies along each axis.
    pub modes: Vec<usize>,
}

/// What a layer has besides the spectral convolution and the pointwise one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FnoBlock {
    /// Nothing.
    #[default]
    Plain,
    /// A batch norm behind their sum.
    BatchNorm,
    /// A network of two pointwise convolutions with GELU behind their sum, with so many times the channels between them, and beside it
    /// the layer's input times a weight for each channel.
    ChannelMlp(f64),
}

impl FnoConfig {
    /// The networks of the paper's authors: four layers of one width.
    ///
    /// Their experiments have batch norms and ReLU: `.with_block(FnoBlock::BatchNorm).with_activation(Activation::Relu)`. So 414,517
    /// numbers are trained in two dimensions and 6,558,537 in three, with 10 channels, 8 modes and a width of 20.
    #[must_use]
    pub fn classic(in_channels: usize, out_channels: usize, width: usize, modes: Vec<usize>) -> Self {
        Self::new(in_channels, out_channels, vec![width; 5], vec![modes; 4])
    }

    /// `FNO2d` of [DiffSR](https://github.com/lizhihao2022/DiffSR): super-resolution of fields on planes, by a factor.
    ///
    /// The grid grows in front of the first layer, by a spectral convolution from the coarse grid to the fine one plus transposed
    /// convolutions. As there, it has the last entry of `modes`, and entries for which `widths` has no layer are left out. The activation
    /// follows every layer.
    #[must_use]
    pub fn diffsr_2d(
        [in_channels, out_channels]: [usize; 2],
        widths: Vec<usize>,
        mut modes: Vec<Vec<usize>>,
        factor: usize,
    ) -> Self {
        let upsampling = FnoUpsampling { factor, modes: modes.last().cloned().unwrap_or_default() };
        modes.truncate(widths.len().saturating_sub(1));
        let last = widths.last().copied().unwrap_or_default();
        Self::new(in_channels, out_channels, widths, modes)
            .with_positions(FnoPositions::None)
            .with_projection_channels(vec![128, last])
            .with_activate_last(true)
            .with_upsampling(Some(upsampling))
    }

    /// `FNO3d` of [DiffSR](https://github.com/lizhihao2022/DiffSR), without positions: they are the caller's channels.
    #[must_use]
    pub fn diffsr_3d([in_channels, out_channels]: [usize; 2], widths: Vec<usize>, modes: Vec<Vec<usize>>) -> Self {
        Self::new(in_channels, out_channels, widths, modes).with_positions(FnoPositions::None)
    }

    /// `FNO` of [neuraloperator](https://github.com/neuraloperator/neuraloperator) 2.0 with its defaults and so many layers. With
    /// `with_rank(Some(0.1))` it is `TFNO`.
    #[must_use]
    pub fn neuraloperator(
        n_modes: Vec<usize>,
        in_channels: usize,
        out_channels: usize,
        hidden_channels: usize,
        n_layers: usize,
    ) -> Self {
        let widths = vec![hidden_channels; n_layers.saturating_add(1)];
        let inside = vec![hidden_channels.saturating_mul(2)];
        Self::new(in_channels, out_channels, widths, vec![n_modes; n_layers])
            .with_frequencies(FnoFrequencies::Centred)
            .with_positions(FnoPositions::Periodic)
            .with_lifting_channels(inside.clone())
            .with_projection_channels(inside)
            .with_block(FnoBlock::ChannelMlp(0.5))
    }

    /// Layers.
    pub fn num_layers(&self) -> usize {
        self.modes.len()
    }

    /// Axes of a grid: 1, 2 or 3.
    pub fn axes(&self) -> usize {
        self.modes.first().map_or(0, Vec::len)
    }

    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([("in_channels", self.in_channels), ("out_channels", self.out_channels)]);
        validation.one_per_level("widths", self.widths.len(), "modes", self.num_layers() + 1);
        let channels = [
            ("widths", &self.widths),
            ("lifting_channels", &self.lifting_channels),
            ("projection_channels", &self.projection_channels),
        ];
        for (key, channels) in channels {
            channels.iter().for_each(|channels| validation.count(key, *channels));
        }
        self.validate_modes(&mut validation);
        if let Activation::LeakyRelu(slope) = self.activation {
            validation.check(slope.is_finite(), "activation", "a finite slope", slope, "use 0.01");
        }
        self.validate_block(&mut validation);
        if let Some(rank) = self.rank {
            let sound = rank > 0.0 && rank <= 1.0;
            validation.check(sound, "rank", "a number above 0 and at most 1", rank, "use 0.1");
        }
        if let Some(FnoUpsampling { factor, modes }) = &self.upsampling {
            let sound = factor.is_power_of_two() && *factor <= MAX_UPSAMPLING && modes.len() == self.axes();
            let expected = format!("a power of two, at most {MAX_UPSAMPLING}, and modes of {} axes", self.axes());
            let found = format!("{factor} and {modes:?}");
            validation.check_together(sound, &["modes"], "upsampling", &expected, found, "use a factor of 2 or 4");
            modes.iter().for_each(|modes| validation.count("upsampling", *modes));
        }
        validation.errors()
    }

    fn validate_modes(&self, validation: &mut Validation) {
        let (layers, axes) = (self.num_layers(), self.axes());
        let expected = format!("1 to {MAX_LAYERS} layers");
        let help = "list the frequencies of each layer along each axis, as in [[12, 12], [12, 12]]";
        validation.check((1..=MAX_LAYERS).contains(&layers), "modes", &expected, format!("{layers} layers"), help);
        if layers == 0 {
            return;
        }
        let same = self.modes.iter().all(|modes| modes.len() == axes);
        let found = format!("{:?}", self.modes.iter().map(Vec::len).collect::<Vec<_>>());
        validation.check(same && (1..=3).contains(&axes), "modes", "1 to 3 axes, as many in each layer", found, help);
        self.modes.iter().flatten().for_each(|modes| validation.count("modes", *modes));
        let sound = self.padding.is_empty() || self.padding.len() == axes;
        let found = format!("{} entries", self.padding.len());
        validation.check_together(
            sound,
            &["modes"],
            "padding",
            "an entry for each axis, or none",
            found,
            "leave it out",
        );
        let sound = self.padding.iter().flatten().all(|share| (0.0..=1.0).contains(share));
        validation.check(sound, "padding", "shares from 0 to 1", format!("{:?}", self.padding), "use 0.1");
    }

    fn validate_block(&self, validation: &mut Validation) {
        let FnoBlock::ChannelMlp(expansion) = self.block else { return };
        let even = self.widths.windows(2).all(|widths| widths[0] == widths[1]);
        validation.check_together(
            even,
            &["block"],
            "widths",
            "one width, since the layer's input is added to its output",
            format!("{:?}", self.widths),
            "use the same number in each entry",
        );
        let inside = self.mlp_channels(self.widths.first().copied().unwrap_or(1));
        let sound = expansion.is_finite() && inside > 0;
        validation.check(sound, "block", "an expansion that leaves a channel", expansion, "use 0.5");
    }

    /// Channels inside of the network of a layer, rounded half to even as Python does.
    pub(super) fn mlp_channels(&self, width: usize) -> usize {
        match self.block {
            FnoBlock::ChannelMlp(expansion) => (width as f64 * expansion).round_ties_even() as usize,
            FnoBlock::Plain | FnoBlock::BatchNorm => 0,
        }
    }

    /// The frequencies of a layer of these modes along depth, height and width, in the order of the weights.
    pub(super) fn frequencies_of(&self, modes: &[usize]) -> [Vec<i32>; 3] {
        let unused = 3 - modes.len();
        [0, 1, 2].map(|axis: usize| {
            let Some(count) = axis.checked_sub(unused).map(|axis: usize| modes[axis] as i32) else {
                return vec![0];
            };
            match (self.frequencies, axis) {
                (FnoFrequencies::Corners, 2) => (0..count).collect(),
                (FnoFrequencies::Corners, _) => (0..count).chain(-count..0).collect(),
                (FnoFrequencies::Centred, 2) => (0..=count / 2).collect(),
                (FnoFrequencies::Centred, _) => (-(count / 2)..count - count / 2).collect(),
            }
        })
    }

    /// Whether the model takes an input `[batch_size, channels, depth, height, width]`.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] where there are other channels, or another number of axes than the model's.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        let [_, channels, found @ ..] = shape;
        if channels != self.in_channels {
            return Err(ShapeError::Channels { expected: self.in_channels, found: channels });
        }
        let axes = self.axes();
        let fits = |axis: usize| found[axis] == 1 || axis + axes >= 3 && found[axis] > 0;
        if (0..3).all(fits) { Ok(()) } else { Err(ShapeError::Axes { found, axes }) }
    }

    /// Depth, height and width of the output for those of an input.
    pub fn output_size(&self, input: [usize; 3]) -> [usize; 3] {
        let factor = self.upsampling.as_ref().map_or(1, |upsampling| upsampling.factor);
        std::array::from_fn(|axis| if axis + self.axes() >= 3 { input[axis] * factor } else { input[axis] })
    }
}

/// More layers than anybody has.
const MAX_LAYERS: usize = 256;

const MAX_UPSAMPLING: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    fn valid() -> FnoConfig {
        FnoConfig::classic(1, 1, 4, vec![3, 3])
    }

    #[test]
    fn each_error_is_found() {
        let fields = |config: FnoConfig| keys(config.validate());
        let layers = |widths, modes| fields(FnoConfig::new(1, 1, widths, modes));
        assert!(fields(valid()).is_empty());
        assert_eq!(fields(FnoConfig { in_channels: 0, out_channels: 0, ..valid() }), ["in_channels", "out_channels"]);
        assert_eq!(layers(vec![4], vec![]), ["modes"]);
        assert_eq!(layers(vec![4; 3], vec![vec![3]]), ["widths"]);
        assert_eq!(layers(vec![4, 0], vec![vec![3]]), ["widths"]);
        assert_eq!(layers(vec![4; 2], vec![vec![]]), ["modes"]);
        assert_eq!(layers(vec![4; 2], vec![vec![1; 4]]), ["modes"]);
        assert_eq!(layers(vec![4; 3], vec![vec![1; 2], vec![1]]), ["modes"]);
        assert_eq!(layers(vec![4; 2], vec![vec![3, 0]]), ["modes"]);
        assert_eq!(fields(valid().with_lifting_channels(vec![0])), ["lifting_channels"]);
        assert_eq!(fields(valid().with_projection_channels(vec![8, 0])), ["projection_channels"]);
        assert_eq!(fields(valid().with_activation(Activation::LeakyRelu(f64::NAN))), ["activation"]);
        assert_eq!(fields(valid().with_rank(Some(0.0))), ["rank"]);
        for (factor, modes) in [(3, vec![2; 2]), (2, vec![2]), (2, vec![2, 0])] {
            assert_eq!(fields(valid().with_upsampling(Some(FnoUpsampling { factor, modes }))), ["upsampling"]);
        }
        assert_eq!(fields(valid().with_padding(vec![[0.1; 2]])), ["padding"]);
        assert_eq!(fields(valid().with_padding(vec![[0.1, -0.1]; 2])), ["padding"]);
        let gated = FnoConfig::neuraloperator(vec![4, 4], 1, 1, 8, 2);
        assert!(fields(gated.clone()).is_empty());
        assert_eq!(fields(FnoConfig { widths: vec![8, 8, 4], ..gated.clone() }), ["widths"]);
        assert_eq!(fields(gated.with_block(FnoBlock::ChannelMlp(0.0))), ["block"]);
    }

    #[test]
    fn frequencies_are_of_both_signs_but_along_the_width() {
        let frequencies = FnoConfig::classic(1, 1, 4, vec![2, 3]).frequencies_of(&[2, 3]);
        assert_eq!(frequencies, [vec![0], vec![0, 1, -2, -1], vec![0, 1, 2]]);
        let frequencies = FnoConfig::neuraloperator(vec![4, 4, 4], 1, 1, 8, 2).frequencies_of(&[4, 3, 5]);
        assert_eq!(frequencies, [vec![-2, -1, 0, 1], vec![-1, 0, 1], vec![0, 1, 2]]);
    }

    #[test]
    fn grids_of_other_axes_are_rejected() {
        assert_eq!(valid().check_input([2, 1, 1, 5, 8]), Ok(()));
        assert_eq!(valid().check_input([2, 3, 1, 5, 8]), Err(ShapeError::Channels { expected: 1, found: 3 }));
        let error = valid().check_input([2, 1, 4, 5, 8]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the grid is [4, 5, 8], but the model's have 2 axes: expected a depth of 1, no axis of length 0"
        );
        assert!(valid().check_input([2, 1, 1, 0, 8]).is_err());
    }
}
