//! The few protobuf messages of a TensorBoard event file that a run writes.
//!
//! Field numbers are those of `event.proto`, `summary.proto` and `tensor.proto`.
//! Source: [tensorboard/compat/proto](https://github.com/tensorflow/tensorboard/tree/master/tensorboard/compat/proto).

use prost::{Enumeration, Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    #[prost(double, tag = "1")]
    pub wall_time: f64,
    #[prost(int64, tag = "2")]
    pub step: i64,
    #[prost(oneof = "What", tags = "3, 5, 7")]
    pub what: Option<What>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
    #[prost(message, tag = "7")]
    SessionLog(SessionLog),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SessionLog {
    #[prost(enumeration = "SessionStatus", tag = "1")]
    pub status: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Enumeration)]
#[repr(i32)]
pub(super) enum SessionStatus {
    Unspecified = 0,
    Start = 1,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub value: Vec<SummaryValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SummaryValue {
    #[prost(string, tag = "1")]
    pub tag: String,
    #[prost(message, optional, tag = "9")]
    pub metadata: Option<SummaryMetadata>,
    #[prost(oneof = "Content", tags = "2, 4, 8")]
    pub content: Option<Content>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Content {
    #[prost(float, tag = "2")]
    Scalar(f32),
    #[prost(message, tag = "4")]
    Image(Image),
    #[prost(message, tag = "8")]
    Tensor(StringTensor),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SummaryMetadata {
    #[prost(message, optional, tag = "1")]
    pub plugin_data: Option<PluginData>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PluginData {
    #[prost(string, tag = "1")]
    pub plugin_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Image {
    #[prost(int32, tag = "1")]
    pub height: i32,
    #[prost(int32, tag = "2")]
    pub width: i32,
    /// Channels of the picture: 3 for red, green and blue.
    #[prost(int32, tag = "3")]
    pub colorspace: i32,
    #[prost(bytes = "vec", tag = "4")]
    pub encoded_image_string: Vec<u8>,
}

/// A `TensorProto` that holds strings.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StringTensor {
    /// The element type; 7 is `DT_STRING`.
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub tensor_shape: Option<TensorShape>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub string_val: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorShape {
    #[prost(message, repeated, tag = "2")]
    pub dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Dimension {
    #[prost(int64, tag = "1")]
    pub size: i64,
}
