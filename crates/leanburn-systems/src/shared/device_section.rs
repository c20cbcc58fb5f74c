//! The `device` section.

use bytesize::ByteSize;
use leanburn_train::Precision;
use serde::{Deserialize, Serialize, Serializer};

use super::choice::Choice;
use super::limits::{Limits, POSITIVE};
use super::reader::Section;
use super::tree::{Node, Value};
use super::values::{Read, Wrong};

/// What computes, and in which precision.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    pub memory_limit: Option<ByteSize>,
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

impl DeviceSection {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            name: match section.get("name", "best".to_owned()) {
                name if name == "best" => crate::device::best().to_owned(),
                name => name,
            },
            mixed_precision: section.get("mixed_precision", false),
            precision: section.get("precision", None).map(|Choice(precision)| precision),
            loss_scale: section.number("loss_scale", LossScale::Dynamic, POSITIVE),
            allocator: section.get("allocator", Choice(Allocator::Adaptive)).0,
            memory_limit: section.get("memory_limit", None),
        }
    }

    /// The precision that `precision` and `mixed_precision` come to.
    pub fn resolved_precision(&self) -> Precision {
        let amp = if self.mixed_precision { Precision::F16 } else { Precision::F32 };
        self.precision.unwrap_or(amp)
    }
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
