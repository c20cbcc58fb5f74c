//! Configuration of the Fourier neural operator, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};

use crate::validation::Rules;

/// Configuration of [`Fno`](super::Fno).
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::FnoConfig;
///
/// let device = Device::flex();
/// let model = FnoConfig::new(1, 1, 4, vec![3, 3]).init(&device);
/// for size in [[1, 8, 8], [1, 13, 11]] {
///     let x = Tensor::random([1, 1, size[0], size[1], size[2]], Distribution::Default, &device);
///     assert_eq!(model.forward(x).dims(), [1, 1, size[0], size[1], size[2]]);
/// }
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct FnoConfig {
    /// Channels of the input, without the coordinates that are appended.
    pub in_channels: usize,
    /// Channels of the output.
    pub out_channels: usize,
    /// Channels of the layers.
    pub width: usize,
    /// Frequencies along each axis, the last one that of the width: from 0 up and as many below 0, along the last axis from 0 up. One
    /// entry for functions of one variable, two or three. Grids have at least twice as many positions.
    pub modes: Vec<usize>,
    /// Layers.
    #[config(default = 4)]
    pub num_layers: usize,
    /// Channels between the last layer and the output.
    #[config(default = 128)]
    pub projection_channels: usize,
    /// Whether a batch norm follows each layer and the activation is ReLU, as in the paper's experiments; else it is GELU.
    #[config(default = false)]
    pub batch_norm: bool,
}

impl FnoConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels),
            ("width", self.width),
            ("num_layers", self.num_layers),
            ("projection_channels", self.projection_channels),
        ]);
        let axes = self.modes.len();
        let help = "list the frequencies of each axis, as in [12, 12]";
        validation.check((1..=3).contains(&axes), "modes", "1 to 3 axes", format!("{axes} axes"), help);
        self.modes.iter().for_each(|modes| validation.count("modes", *modes));
        validation.errors()
    }

    /// The frequencies along depth, height and width, in the order of the weights.
    pub(super) fn frequencies(&self) -> [Vec<i32>; 3] {
        let unused = 3 - self.modes.len();
        [0, 1, 2].map(|axis: usize| {
            let Some(modes) = axis.checked_sub(unused).map(|axis: usize| self.modes[axis] as i32) else {
                return vec![0];
            };
            let below = if axis < 2 { -modes..0 } else { 0..0 };
            (0..modes).chain(below).collect()
        })
    }

    /// Panics unless a grid is one of as many axes as there are lists of frequencies, with all of these.
    pub(super) fn assert_grid(&self, size: [usize; 3]) {
        let unused = 3 - self.modes.len();
        let fits = |axis: usize| match axis.checked_sub(unused) {
            None => size[axis] == 1,
            Some(index) => size[axis] >= 2 * self.modes[index],
        };
        assert!(
            (0..3).all(fits),
            "Fno: the grid is {size:?}, expected {unused} axes of one position and then at least twice as many as there are modes, {:?}",
            self.modes
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    #[test]
    fn each_error_is_found() {
        let fields = |config: FnoConfig| keys(config.validate());
        let valid = || FnoConfig::new(1, 1, 4, vec![3, 3]);
        assert!(fields(valid()).is_empty());
        assert_eq!(fields(FnoConfig::new(0, 1, 4, vec![3])), ["in_channels"]);
        assert_eq!(fields(FnoConfig::new(1, 0, 4, vec![3])), ["out_channels"]);
        assert_eq!(fields(FnoConfig::new(1, 1, 0, vec![3])), ["width"]);
        assert_eq!(fields(FnoConfig::new(1, 1, 4, vec![])), ["modes"]);
        assert_eq!(fields(FnoConfig::new(1, 1, 4, vec![3, 0])), ["modes"]);
        assert_eq!(fields(FnoConfig::new(1, 1, 4, vec![1; 4])), ["modes"]);
        assert_eq!(fields(valid().with_num_layers(0)), ["num_layers"]);
        assert_eq!(fields(valid().with_projection_channels(0)), ["projection_channels"]);
    }

    #[test]
    fn frequencies_are_of_both_signs_but_along_the_width() {
        let frequencies = FnoConfig::new(1, 1, 4, vec![2, 3]).frequencies();
        assert_eq!(frequencies, [vec![0], vec![0, 1, -2, -1], vec![0, 1, 2]]);
    }

    #[test]
    #[should_panic(expected = "Fno: the grid is [1, 5, 8], expected 1 axes of one position and then at least twice")]
    fn a_grid_without_the_frequencies_is_rejected() {
        FnoConfig::new(1, 1, 4, vec![3, 3]).assert_grid([1, 5, 8]);
    }
}
