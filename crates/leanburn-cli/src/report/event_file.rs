//! Event files that TensorBoard shows while a run goes on: scalars, pictures, texts.
//!
//! A file is a sequence of TFRecords, each `length: u64, crc(length): u32, bytes, crc(bytes): u32`,
//! little-endian, with a masked CRC-32C; the bytes are one `Event` message.
//! Source: [TFRecord](https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details).

use super::error::ReportError;
use super::event_message::{Content, What, event};
use std::fs::{self, File, OpenOptions};
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A TensorBoard event file, open for appending.
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    file: File,
}

impl EventFile {
    /// Starts a new event file in `folder`, which is created where it is missing.
    ///
    /// TensorBoard reads the event files of a folder in the order of their names, which begin with
    /// the time. A run that resumes from a step starts its file with a mark at which TensorBoard
    /// forgets what older files say about later steps.
    ///
    /// # Errors
    ///
    /// When the folder or the file cannot be created or written.
    pub fn create(folder: &Path, resume_from_step: Option<u64>) -> Result<Self, ReportError> {
        fs::create_dir_all(folder).map_err(ReportError::file("create", folder))?;
        let entries = fs::read_dir(folder).map_err(ReportError::file("read", folder))?;
        let path = folder.join(format!(
            "events.out.tfevents.{:010}.leanburn.{:05}",
            seconds_since_epoch() as u64,
            entries.count()
        ));
        let created = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = created.map_err(ReportError::file("create", &path))?;
        let mut events = Self { path, file };
        events.write(0, What::FileVersion("brain.Event:2"))?;
        if let Some(step) = resume_from_step {
            // TensorBoard forgets from the step of this event on, that step included.
            let next_step = step.saturating_add(1);
            events.write(next_step, What::SessionStart)?;
        }
        Ok(events)
    }

    /// The file being written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds one number to the chart named `tag`, such as `train/loss`.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn scalar(&mut self, step: u64, tag: &str, value: f64) -> Result<(), ReportError> {
        self.write(step, What::Value { tag, content: Content::Scalar(value as f32) })
    }

    /// Adds a PNG picture under `tag`, as [`encode_png`](leanburn_systems::picture::encode_png) makes it.
    ///
    /// # Errors
    ///
    /// When `png` is not a picture, or the file cannot be written.
    pub fn picture(&mut self, step: u64, tag: &str, png: &[u8]) -> Result<(), ReportError> {
        let reader = image::ImageReader::with_format(Cursor::new(png), image::ImageFormat::Png);
        let (width, height) = reader.into_dimensions()?;
        self.write(step, What::Value { tag, content: Content::Image { height, width, png } })
    }

    /// Adds a text under `tag`. TensorBoard reads it as Markdown: fence what is code.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn text(&mut self, step: u64, tag: &str, markdown: &str) -> Result<(), ReportError> {
        self.write(step, What::Value { tag, content: Content::Text(markdown) })
    }

    /// Appends one event in one write, so that a crash tears at most the last record.
    fn write(&mut self, step: u64, what: What<'_>) -> Result<(), ReportError> {
        let framed = frame(&event(seconds_since_epoch(), step, what));
        let written = self.file.write_all(&framed);
        written.map_err(ReportError::file("append to", &self.path))
    }
}

fn seconds_since_epoch() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

/// One TFRecord around `bytes`.
fn frame(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    let mut framed = Vec::with_capacity(bytes.len() + 16);
    framed.extend_from_slice(&length);
    framed.extend_from_slice(&masked_crc(&length).to_le_bytes());
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(&masked_crc(bytes).to_le_bytes());
    framed
}

/// The CRC-32C, rotated and shifted so that a CRC over bytes that hold CRCs stays sound.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::encoding::{WireType, decode_key, decode_varint};

    /// Reads an event file back by the definition of its format, with a bitwise CRC of its own.
    fn read_events(path: &Path) -> Vec<Vec<u8>> {
        let bytes = fs::read(path).unwrap();
        let (mut rest, mut events) = (bytes.as_slice(), Vec::new());
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            let crc = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
            assert_eq!(crc(8), masked_bitwise_crc(&rest[..8]));
            let content = &rest[12..12 + length];
            assert_eq!(crc(12 + length), masked_bitwise_crc(content));
            events.push(content.to_vec());
            rest = &rest[16 + length..];
        }
        events
    }

    fn masked_bitwise_crc(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for &byte in bytes {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
            }
        }
        let crc = !crc;
        crc.rotate_right(15).wrapping_add(0xa282_ead8)
    }

    /// The bytes of a field, found by its number in the message, or by those of the fields around it and its own.
    fn field<'a>(mut message: &'a [u8], numbers: &[u32]) -> Option<&'a [u8]> {
        let Some((number, inner)) = numbers.split_first() else {
            return Some(message);
        };
        while !message.is_empty() {
            let (found, wire_type) = decode_key(&mut message).unwrap();
            let length = match wire_type {
                WireType::Varint => 1 + message.iter().position(|byte| byte & 0x80 == 0).unwrap(),
                WireType::SixtyFourBit => 8,
                WireType::ThirtyTwoBit => 4,
                WireType::LengthDelimited => decode_varint(&mut message).unwrap() as usize,
                other => panic!("{other:?}"),
            };
            let (value, rest) = message.split_at(length);
            if found == *number {
                return field(value, inner);
            }
            message = rest;
        }
        None
    }

    fn integer(message: &[u8], numbers: &[u32]) -> u64 {
        field(message, numbers).map_or(0, |mut bytes| decode_varint(&mut bytes).unwrap())
    }

    #[test]
    fn frames_a_record_as_tensorflow_does() {
        // tf.io.TFRecordWriter("file").write(b"123456789"); crc32c("123456789") is 0xe3069283.
        let framed = frame(b"123456789");
        assert_eq!(framed.len(), 9 + 16);
        assert_eq!(framed[..8], [9, 0, 0, 0, 0, 0, 0, 0]);
        let mask = 0xe306_9283_u32.rotate_right(15).wrapping_add(0xa282_ead8);
        assert_eq!(framed[21..], mask.to_le_bytes());
    }

    #[test]
    fn reads_back_scalars_pictures_and_texts() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = EventFile::create(&folder.path().join("events"), None).unwrap();
        let png = leanburn_systems::picture::encode_png(&image::RgbImage::new(3, 2)).unwrap();
        file.scalar(5, "train/loss", 0.25).unwrap();
        file.picture(6, "val/slices", &png).unwrap();
        file.text(7, "config", "```yaml\na: 1\n```").unwrap();
        let events = read_events(file.path());
        assert_eq!(field(&events[0], &[3]).unwrap(), b"brain.Event:2");
        let steps: Vec<u64> = events.iter().map(|event| integer(event, &[2])).collect();
        assert_eq!(steps, [0, 5, 6, 7]);
        let time = |event: &Vec<u8>| f64::from_le_bytes(field(event, &[1]).unwrap().try_into().unwrap());
        assert!(events.iter().all(|event| time(event) > 1.6e9));
        let value = |event: usize, inside: &[u32]| field(&events[event], &[&[5, 1], inside].concat()).unwrap();
        assert_eq!(value(1, &[1]), b"train/loss");
        assert_eq!(value(1, &[2]), 0.25_f32.to_le_bytes());
        let image = value(2, &[4]);
        assert_eq!([1, 2, 3].map(|number| integer(image, &[number])), [2, 3, 3], "height, width, channels");
        assert_eq!(field(image, &[4]).unwrap(), png);
        assert_eq!(value(3, &[9, 1, 1]), b"text");
        assert_eq!(value(3, &[8, 8]), b"```yaml\na: 1\n```");
    }

    #[test]
    fn a_resumed_file_is_new_later_and_purges_the_following_steps() {
        let folder = tempfile::tempdir().unwrap();
        let first = EventFile::create(folder.path(), None).unwrap();
        let second = EventFile::create(folder.path(), Some(40)).unwrap();
        assert!(first.path() < second.path());
        let events = read_events(second.path());
        assert_eq!((integer(&events[1], &[2]), integer(&events[1], &[7, 1])), (41, 1));
    }

    #[test]
    fn errors_name_the_path_and_a_picture_must_be_a_png() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path().join("file");
        fs::write(&parent, "").unwrap();
        let error = EventFile::create(&parent, None).unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
        let mut file = EventFile::create(folder.path(), None).unwrap();
        assert!(file.picture(0, "broken", b"not a picture").is_err());
    }
}
