//! nnU-Net's U-Net: keys of the `segmentation` section where its `model` is `dyn_unet`.

use leanburn_data::DataConfig;
use leanburn_nn::blocks::NormConfig;
use leanburn_nn::models::DynUnetConfig;
use serde::Serialize;

use super::norm::NormName;
use crate::shared::with_methods;
use crate::yaml::{MANY, PerAxis, Section};

/// nnU-Net's U-Net: MONAI's `DynUNet` in three dimensions, without dropout.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DynUnetSection {
    /// Channels of each level, the finest first. Default: the levels that [nnU-Net's rules](DynUnetConfig::planned) have for the size and spacing
    /// of the patches; required where the data has no size.
    pub filters: Vec<usize>,
    /// Size of the kernels of each level, odd numbers. Default: 3; by the same rules where `filters` are not written.
    pub kernel_size: Vec<[usize; 3]>,
    /// By what each level divides depth, height and width of the one before; that of the finest is 1. Default: 1, and 2 for all others; by the
    /// same rules where `filters` are not written.
    pub strides: Vec<[usize; 3]>,
    /// Whether the input of a level of the encoder is added to what its convolutions give. Default: false.
    pub res_block: bool,
    /// The norm behind each convolution; an instance norm has a scale and a shift that are learned. Default: instance.
    pub norm_name: NormName,
    /// Whether transposed convolutions have a bias. Default: false.
    pub trans_bias: bool,
}

with_methods! { DynUnetSection {
    with_kernel_size => kernel_size: Vec<[usize; 3]>,
    with_strides => strides: Vec<[usize; 3]>,
    with_res_block => res_block: bool,
    with_norm_name => norm_name: NormName,
    with_trans_bias => trans_bias: bool,
} }

impl DynUnetSection {
    /// A U-Net with these channels a level, the finest first, and every default.
    pub fn new(filters: Vec<usize>) -> Self {
        let levels = filters.len();
        let strides = (0..levels).map(|level| if level == 0 { [1; 3] } else { [2; 3] }).collect();
        let (res_block, norm_name, trans_bias) = (false, NormName::Instance, false);
        Self { filters, kernel_size: vec![[3; 3]; levels], strides, res_block, norm_name, trans_bias }
    }

    /// A U-Net with the levels that nnU-Net has for patches of the data, if their size is known.
    fn planned(data: &DataConfig) -> Option<Self> {
        let patch = data.patch_size.or(data.voxel_size)?;
        let DynUnetConfig { filters, kernel_size, strides, .. } =
            DynUnetConfig::planned(1, 2, patch, data.spacing.unwrap_or([1.0; 3]));
        Some(Self { kernel_size, strides, ..Self::new(filters) })
    }

    pub(super) fn read(section: &mut Section<'_>, data: &DataConfig) -> Self {
        section.alias("features_per_stage", "filters");
        section.alias("kernel_sizes", "kernel_size");
        let default = match Self::planned(data).filter(|_| !section.has("filters")) {
            Some(planned) => Self { filters: section.number("filters", planned.filters.clone(), 1..=MANY), ..planned },
            None => Self::new(section.required("filters", 1..=MANY)),
        };
        let mut axes = |key, default: &[[usize; 3]]| {
            let default = default.iter().copied().map(PerAxis).collect::<Vec<_>>();
            section.number(key, default, 1..=MANY).into_iter().map(|PerAxis(axes)| axes).collect()
        };
        Self {
            kernel_size: axes("kernel_size", &default.kernel_size),
            strides: axes("strides", &default.strides),
            res_block: section.get("res_block", default.res_block),
            norm_name: section.choice("norm_name", default.norm_name),
            trans_bias: section.get("trans_bias", default.trans_bias),
            filters: default.filters,
        }
    }

    /// The configuration of the model, from so many channels to so many classes.
    pub fn model(&self, in_channels: usize, num_classes: usize) -> DynUnetConfig {
        let norm = match self.norm_name {
            NormName::Instance => NormConfig::InstanceAffine,
            other => other.config(),
        };
        let (filters, kernels, strides) = (self.filters.clone(), self.kernel_size.clone(), self.strides.clone());
        DynUnetConfig::new(in_channels, num_classes, filters, kernels, strides)
            .with_res_block(self.res_block)
            .with_norm(norm)
            .with_trans_bias(self.trans_bias)
    }
}
