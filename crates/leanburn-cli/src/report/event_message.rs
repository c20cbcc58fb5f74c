//! The few protobuf messages of a TensorBoard event file that a run writes.
//!
//! Field numbers are those of `event.proto`, `summary.proto` and `tensor.proto`.
//! Source: [tensorboard/compat/proto](https://github.com/tensorflow/tensorboard/tree/master/tensorboard/compat/proto).

use prost::encoding::{WireType, double, encode_key, encode_varint, float, int64};

const DT_STRING: i64 = 7;
const SESSION_START: i64 = 1;
/// Channels of a picture: red, green and blue.
const RGB: i64 = 3;

/// What an event says.
#[derive(Debug, Clone, Copy)]
pub(super) enum What<'a> {
    FileVersion(&'a str),
    /// TensorBoard forgets what older files say about this step and later ones.
    SessionStart,
    Value {
        tag: &'a str,
        content: Content<'a>,
    },
}

/// What is shown under a tag.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content<'a> {
    Scalar(f32),
    Image { height: u32, width: u32, png: &'a [u8] },
    Text(&'a str),
}

/// The bytes of an `Event`.
pub(super) fn event(wall_time: f64, step: u64, what: What<'_>) -> Vec<u8> {
    let step = i64::try_from(step).unwrap_or(i64::MAX);
    let event = Message::default().double(1, wall_time).integer(2, step);
    let event = match what {
        What::FileVersion(version) => event.string(3, version),
        What::Value { tag, content } => event.message(5, Message::default().message(1, value(tag, content))),
        What::SessionStart => event.message(7, Message::default().integer(1, SESSION_START)),
    };
    event.0
}

/// A `Summary.Value`.
fn value(tag: &str, content: Content<'_>) -> Message {
    let value = Message::default().string(1, tag);
    match content {
        Content::Scalar(scalar) => value.float(2, scalar),
        Content::Image { height, width, png } => {
            let image = Message::default().integer(1, height.into()).integer(2, width.into()).integer(3, RGB);
            value.message(4, image.bytes(4, png))
        }
        Content::Text(text) => {
            let shape = Message::default().message(2, Message::default().integer(1, 1));
            let tensor = Message::default().integer(1, DT_STRING).message(2, shape).bytes(8, text.as_bytes());
            let metadata = Message::default().message(1, Message::default().string(1, "text"));
            value.message(8, tensor).message(9, metadata)
        }
    }
}

/// The bytes of a message, field by field. proto3 leaves out numbers that are 0 and strings that are empty.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn integer(mut self, field: u32, value: i64) -> Self {
        if value != 0 {
            int64::encode(field, &value, &mut self.0);
        }
        self
    }

    fn double(mut self, field: u32, value: f64) -> Self {
        if value != 0.0 {
            double::encode(field, &value, &mut self.0);
        }
        self
    }

    fn string(self, field: u32, value: &str) -> Self {
        if value.is_empty() { self } else { self.bytes(field, value.as_bytes()) }
    }

    /// One of several that a message may hold: written even if it is 0.
    fn float(mut self, field: u32, value: f32) -> Self {
        float::encode(field, &value, &mut self.0);
        self
    }

    /// Written even if there are none, as in a list.
    fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        encode_varint(value.len() as u64, &mut self.0);
        self.0.extend_from_slice(value);
        self
    }

    fn message(self, field: u32, message: Self) -> Self {
        self.bytes(field, &message.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected bytes are those of prost's derived messages.
    #[test]
    fn events_are_encoded_as_their_definitions_say() {
        let hex = |what| event(1.5, 300, what).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let value = |content| hex(What::Value { tag: "t", content });
        let head = "09000000000000f83f10ac02";
        assert_eq!(value(Content::Scalar(0.0)), format!("{head}2a0a0a080a01741500000000"));
        let image = Content::Image { height: 2, width: 3, png: &[9, 8] };
        assert_eq!(value(image), format!("{head}2a110a0f0a0174220a08021003180322020908"));
        let text = "2a1c0a1a0a0174420b08071204120208014201614a080a060a0474657874";
        assert_eq!(value(Content::Text("a")), format!("{head}{text}"));
        assert_eq!(hex(What::SessionStart), format!("{head}3a020801"));
        assert_eq!(event(0.0, 0, What::FileVersion("v")), b"\x1a\x01v");
    }
}
