//! The `device` section.

use leanburn_common::{Bytes, Validation, ValidationError};
use leanburn_train::Precision;
use serde::{Deserialize, Serialize, Serializer};

use super::builders::with_methods;
use crate::yaml::{Choice, Limits, Node, POSITIVE, Read, Section, Value, Wrong};

/// What computes, and in which precision.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DeviceSection {
    /// The device, as `--device` names it. Default: best, a graphics card where there is one, else the CPU.
    pub name: String,
    /// Half precision as PyTorch's automatic mixed precision has it: f16 with loss scaling.
    /// Default: false.
    pub mixed_precision: bool,
    /// The precision of activations, by name: bf16 in place of the f16 of `mixed_precision`, say. Default: unset.
    pub precision: Option<Precision>,
    /// What the loss is multiplied by in f16 before the backward pass. Default: dynamic.
    pub loss_scale: LossScale,
    /// How memory is taken from a GPU. Default: adaptive.
    pub allocator: Allocator,
    /// What the run may hold, such as 20GiB, where that is less than the device has. Default: unset.
    #[serde(serialize_with = "as_text")]
    pub memory_limit: Option<Bytes>,
}

/// How memory is taken from a GPU. Vulkan, WebGPU and Metal; CUDA and ROCm are adaptive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allocator {
    /// In pages as large as the largest tensor so far, which tensors share.
    #[default]
    Adaptive,
    /// A page for each tensor, in sizes that grow by steps.
    ExclusivePages,
}

/// The loss scale of training in f16.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LossScale {
    /// As large as the gradients allow, found while training. Written `dynamic`.
    Dynamic,
    /// A fixed factor, such as 512.
    Static(f64),
}

impl Default for DeviceSection {
    fn default() -> Self {
        Self {
            name: "best".into(),
            mixed_precision: false,
            precision: None,
            loss_scale: LossScale::Dynamic,
            allocator: Allocator::Adaptive,
            memory_limit: None,
        }
    }
}

with_methods! { DeviceSection {
    with_mixed_precision => mixed_precision: bool,
    with_precision => precision: Option<Precision>,
    with_loss_scale => loss_scale: LossScale,
    with_allocator => allocator: Allocator,
    with_memory_limit => memory_limit: Option<Bytes>,
} }

impl DeviceSection {
    /// The device of this name, as `leanburn devices` lists them; it is opened when a run begins.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// What contradicts itself: keys of this section.
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.check_together(
            !(self.mixed_precision && self.precision == Some(Precision::F32)),
            &["device.mixed_precision"],
            "precision",
            "settings that agree",
            "`mixed_precision: true` with `precision: f32`",
            "remove `precision` for f16, or set `mixed_precision: false`",
        );
        validation.check_together(
            self.loss_scale == LossScale::Dynamic || self.resolved_precision() == Precision::F16,
            &["device.precision", "device.mixed_precision"],
            "loss_scale",
            "`precision: f16` or `mixed_precision: true`",
            "a loss scale without f16",
            "remove `loss_scale`: only f16 needs one",
        );
        validation.errors()
    }

    pub(crate) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            name: section.get("name", default.name),
            mixed_precision: section.get("mixed_precision", default.mixed_precision),
            precision: section.get("precision", None).map(|Choice(precision)| precision),
            loss_scale: section.number("loss_scale", default.loss_scale, POSITIVE),
            allocator: section.choice("allocator", default.allocator),
            memory_limit: section.get("memory_limit", default.memory_limit),
        }
    }

    /// The precision that `precision` and `mixed_precision` come to.
    pub fn resolved_precision(&self) -> Precision {
        let amp = if self.mixed_precision { Precision::F16 } else { Precision::F32 };
        self.precision.unwrap_or(amp)
    }
}

/// A size as people write it, to the byte.
fn as_text<S: Serializer>(size: &Option<Bytes>, serializer: S) -> Result<S::Ok, S::Error> {
    let is_exact = |size: Bytes, text: &String| text.parse() == Ok(size);
    let exact = |size: Bytes| {
        Some(size.to_string()).filter(|text| is_exact(size, text)).unwrap_or_else(|| format!("{} B", size.get()))
    };
    size.map(exact).serialize(serializer)
}

impl Read for LossScale {
    fn expected(limits: &Limits) -> String {
        format!("dynamic or {}", f64::expected(limits))
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        match &node.value {
            Value::Text(text) if text == "dynamic" => Ok(Self::Dynamic),
            _ => f64::read(node, limits).map(Self::Static).map_err(|_| Wrong::new(node, Self::expected(limits))),
        }
    }
}

impl Serialize for LossScale {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Dynamic => serializer.serialize_str("dynamic"),
            Self::Static(scale) => serializer.serialize_f64(*scale),
        }
    }
}
