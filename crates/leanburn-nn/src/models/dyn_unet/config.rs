//! Configuration of nnU-Net's U-Net, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};

use crate::blocks::NormConfig;
use crate::models::decoder_level::DecoderLevel;
use crate::models::shape_error::ShapeError;
use crate::validation::Rules;

/// Configuration of [`DynUnet`](super::DynUnet), the options of MONAI's `DynUNet` in three dimensions, without dropout.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::DynUnetConfig;
///
/// let device = Device::flex();
/// // slices three times as thick as their voxels are wide
/// let (kernels, strides) = (vec![[1, 3, 3], [3; 3], [3; 3]], vec![[1; 3], [1, 2, 2], [2; 3]]);
/// let config = DynUnetConfig::new(1, 3, vec![4, 8, 16], kernels, strides);
/// let x = Tensor::random([1, 1, 4, 8, 8], Distribution::Default, &device);
/// assert_eq!(config.init(&device).forward(x).dims(), [1, 3, 4, 8, 8]);
/// assert!(config.check_input([1, 1, 4, 8, 10]).is_err());
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct DynUnetConfig {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the output: classes.
    pub out_channels: usize,
    /// Channels of each level, the finest first.
    pub filters: Vec<usize>,
    /// Size of the kernels of each level along depth, height and width, odd numbers.
    pub kernel_size: Vec<[usize; 3]>,
    /// By what each level divides depth, height and width of the one before; that of the finest is 1.
    pub strides: Vec<[usize; 3]>,
    /// Whether the input of a level of the encoder is added to what its convolutions give.
    #[config(default = false)]
    pub res_block: bool,
    /// The norm behind each convolution.
    #[config(default = "NormConfig::InstanceAffine")]
    pub norm: NormConfig,
    /// Whether transposed convolutions have a bias.
    #[config(default = false)]
    pub trans_bias: bool,
}

/// Channels of the finest level by nnU-Net's rules, and the most that a level has.
const FEWEST_FILTERS: usize = 32;
const MOST_FILTERS: usize = 320;

/// The least length that nnU-Net leaves of an axis.
const LEAST_LENGTH: usize = 4;

impl DynUnetConfig {
    /// The levels that nnU-Net chooses for patches of `patch` voxels, which are `spacing` apart: an axis is halved while it keeps four voxels and
    /// its voxels are less than twice as long as the shortest that are still halved; kernels are 1 along an axis until its voxels are less than twice as long as
    /// the shortest. Channels double from 32 to 320.
    ///
    /// Source: [Isensee et al.](https://doi.org/10.1038/s41592-020-01008-z), supplementary note 2, as version 2 of their program has it. A patch that the
    /// strides do not divide, which they would enlarge, is an error of [`check_input`](Self::check_input).
    ///
    /// # Example
    ///
    /// ```
    /// use leanburn_nn::models::DynUnetConfig;
    ///
    /// // slices of 3 mm
    /// let config = DynUnetConfig::planned(1, 3, [24, 96, 96], [3.0, 1.0, 1.0]);
    /// assert_eq!(config.filters, [32, 64, 128, 256, 320]);
    /// assert_eq!(config.strides, [[1, 1, 1], [1, 2, 2], [2, 2, 2], [2, 2, 2], [1, 2, 2]]);
    /// assert_eq!(config.kernel_size, [[1, 3, 3], [3; 3], [3; 3], [3; 3], [3; 3]]);
    /// ```
    pub fn planned(in_channels: usize, out_channels: usize, patch: [usize; 3], spacing: [f64; 3]) -> Self {
        let (mut length, mut spacing, mut kernel) = (patch, spacing, [1; 3]);
        let (mut kernels, mut strides) = (Vec::new(), vec![[1; 3]]);
        let shortest = |spacing: &[f64; 3], axes: [bool; 3]| {
            (0..3).filter(|axis| axes[*axis]).map(|axis| spacing[axis]).fold(f64::INFINITY, f64::min)
        };
        loop {
            let long = length.map(|length| length >= 2 * LEAST_LENGTH);
            let least = shortest(&spacing, long);
            let halved: [bool; 3] = std::array::from_fn(|axis| long[axis] && spacing[axis] / least < 2.0);
            let together = halved.iter().filter(|halved| **halved).count();
            let alone_and_short = together == 1 && (0..3).any(|axis| halved[axis] && length[axis] < 3 * LEAST_LENGTH);
            if together == 0 || alone_and_short {
                break;
            }
            let least = shortest(&spacing, [true; 3]);
            for axis in 0..3 {
                if spacing[axis] / least < 2.0 {
                    kernel[axis] = 3;
                }
            }
            kernels.push(kernel);
            strides.push(halved.map(|halved| if halved { 2 } else { 1 }));
            for axis in (0..3).filter(|axis| halved[*axis]) {
                (length[axis], spacing[axis]) = (length[axis].div_ceil(2), 2.0 * spacing[axis]);
            }
        }
        kernels.push([3; 3]);
        let filters = (0..strides.len()).map(|level| (FEWEST_FILTERS << level.min(4)).min(MOST_FILTERS)).collect();
        Self::new(in_channels, out_channels, filters, kernels, strides)
    }

    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([("in_channels", self.in_channels), ("out_channels", self.out_channels)]);
        let levels = self.filters.len();
        validation.levels("filters", &self.filters);
        let help = "list the channels of each level, as in [32, 64, 128]";
        validation.check(levels != 1, "filters", "at least 2 levels", "1 level", help);
        validation.one_per_level("kernel_size", self.kernel_size.len(), "filters", levels);
        validation.one_per_level("strides", self.strides.len(), "filters", levels);
        let even = self.kernel_size.iter().flatten().find(|size| size.is_multiple_of(2));
        even.into_iter().for_each(|size| validation.odd("kernel_size", *size));
        self.validate_strides(&mut validation);
        if let NormConfig::Group(groups) = self.norm {
            validation.groups("norm", groups, "filters", &self.filters);
        }
        validation.errors()
    }

    fn validate_strides(&self, validation: &mut Validation) {
        let sound = self.strides.iter().flatten().all(|stride| *stride > 0) && self.downsampling().is_some();
        validation.check(sound, "strides", "small positive numbers", format!("{:?}", self.strides), "use 1 or 2");
        if let Some(first) = self.strides.first().filter(|first| **first != [1; 3]) {
            let (expected, help) = ("1 for the finest level", "begin with 1: the output is as large as the input");
            validation.check(false, "strides", expected, format!("{first:?}"), help);
        }
        let reaches = |(kernel, stride): (&[usize; 3], &[usize; 3])| {
            (0..3).all(|axis| stride[axis] <= kernel[axis].saturating_add(1))
        };
        validation.check_together(
            self.kernel_size.iter().zip(&self.strides).all(reaches),
            &["kernel_size"],
            "strides",
            "strides of at most one more than the kernels of their level",
            format!("{:?} with kernels of {:?}", self.strides, self.kernel_size),
            "use larger kernels, or 2",
        );
    }

    /// By how much depth, height and width of the coarsest level are smaller than those of the volume; `None` if that is no number.
    pub fn downsampling(&self) -> Option<[usize; 3]> {
        self.down_to(self.strides.len())
    }

    /// The same of the last of so many levels.
    fn down_to(&self, levels: usize) -> Option<[usize; 3]> {
        let along = |axis: usize| {
            self.strides.iter().take(levels).try_fold(1usize, |product, stride| product.checked_mul(stride[axis]))
        };
        Some([along(0)?, along(1)?, along(2)?])
    }

    /// The levels of the decoder below the one that gives the logits, the finest first.
    pub fn decoder_levels(&self) -> Vec<DecoderLevel> {
        let coarsest = self.filters.len().saturating_sub(1);
        let level =
            |level: usize| Some(DecoderLevel { channels: self.filters[level], downsampling: self.down_to(level + 1)? });
        (1..coarsest).filter_map(level).collect()
    }

    /// Whether the levels of an input `[batch_size, channels, depth, height, width]` fit together.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] says what is wrong and which volumes fit.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        let multiples = self.downsampling().unwrap_or([usize::MAX; 3]).map(|multiple| multiple.max(1));
        ShapeError::unless_multiples(shape, self.in_channels, multiples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    fn valid() -> DynUnetConfig {
        let kernels = vec![[1, 3, 3], [3; 3], [3; 3]];
        DynUnetConfig::new(1, 3, vec![4, 8, 16], kernels, vec![[1; 3], [1, 2, 2], [2; 3]])
    }

    #[test]
    fn each_error_is_found() {
        let fields = |change: &dyn Fn(&mut DynUnetConfig)| {
            let mut config = valid();
            change(&mut config);
            keys(config.validate())
        };
        assert!(valid().validate().is_empty());
        assert_eq!(
            fields(&|config| (config.in_channels, config.out_channels) = (0, 0)),
            ["in_channels", "out_channels"]
        );
        assert_eq!(fields(&|config| config.filters = vec![4, 0, 8]), ["filters"]);
        assert_eq!(fields(&|config| config.filters = vec![4, 8]), ["kernel_size", "strides"]);
        assert_eq!(fields(&|config| config.kernel_size[1] = [2, 2, 3]), ["kernel_size"]);
        assert_eq!(fields(&|config| config.strides[1] = [1, 0, 2]), ["strides"]);
        assert_eq!(fields(&|config| config.strides[0] = [1, 2, 2]), ["strides"]);
        assert_eq!(fields(&|config| config.strides[2] = [5, 2, 2]), ["strides"]);
        assert_eq!(fields(&|config| config.kernel_size[1] = [1, 1, usize::MAX]), [""; 0]);
        assert_eq!(fields(&|config| config.norm = NormConfig::Group(3)), ["norm"]);
        let one = DynUnetConfig::new(1, 2, vec![4], vec![[3; 3]], vec![[1; 3]]);
        assert_eq!(keys(one.validate()), ["filters"]);
    }

    /// As nnU-Net's program has them (`get_pool_and_conv_props`).
    #[test]
    fn levels_are_planned_as_nn_unet_plans_them() {
        let strides = |patch, spacing| DynUnetConfig::planned(1, 2, patch, spacing).strides;
        assert_eq!(strides([128; 3], [1.0; 3]), [vec![[1; 3]], vec![[2; 3]; 5]].concat());
        // prostate: 3.6 mm slices
        let config = DynUnetConfig::planned(2, 3, [20, 320, 256], [3.6, 0.625, 0.625]);
        let expected = [[1, 1, 1], [1, 2, 2], [1, 2, 2], [2, 2, 2], [2, 2, 2], [1, 2, 2], [1, 2, 2]];
        assert_eq!(config.strides, expected);
        assert_eq!(config.kernel_size, [vec![[1, 3, 3]; 2], vec![[3; 3]; 5]].concat());
        assert_eq!(config.filters, [32, 64, 128, 256, 320, 320, 320]);
        assert!(config.validate().is_empty());
        // a last axis alone is halved from 12 voxels on
        assert_eq!(strides([4, 4, 12], [1.0; 3]).len(), 2);
        assert_eq!(strides([4, 4, 11], [1.0; 3]).len(), 1);
        assert_eq!(strides([4; 3], [1.0; 3]).len(), 1);
        for spacing in [f64::NAN, 0.0, f64::INFINITY, -1.0] {
            assert!(strides([usize::MAX; 3], [spacing, 1.0, 1.0]).len() < 70, "{spacing}");
        }
    }

    #[test]
    fn each_axis_has_its_own_multiple() {
        assert_eq!(valid().check_input([1, 1, 2, 4, 8]), Ok(()));
        let error = valid().check_input([1, 1, 2, 6, 8]).unwrap_err();
        assert_eq!(error, ShapeError::Volume { found: [2, 6, 8], multiples: [2, 4, 4] });
    }
}
