//! Event files that TensorBoard shows while a run goes on: scalars, pictures, texts.
//!
//! A file is a sequence of TFRecords, each `length: u64, crc(length): u32, bytes, crc(bytes): u32`,
//! little-endian, with a masked CRC-32C; the bytes are one `Event` message.
//! Source: [TFRecord](https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details).

use super::error::ReportError;
use super::event_message::{
    Content, Dimension, Event, Image, PluginData, SessionLog, SessionStatus, StringTensor, Summary, SummaryMetadata,
    SummaryValue, TensorShape, What,
};
use prost::Message;
use std::fs::{self, File, OpenOptions};
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const DT_STRING: i32 = 7;

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
        events.write(0, What::FileVersion("brain.Event:2".to_string()))?;
        if let Some(step) = resume_from_step {
            let status = SessionStatus::Start.into();
            // TensorBoard forgets from the step of this event on, that step included.
            let next_step = step.saturating_add(1);
            events.write(next_step, What::SessionLog(SessionLog { status }))?;
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
        self.value(step, tag, None, Content::Scalar(value as f32))
    }

    /// Adds a PNG picture under `tag`, as [`encode_png`](leanburn_systems::picture::encode_png) makes it.
    ///
    /// # Errors
    ///
    /// When `png` is not a picture, or the file cannot be written.
    pub fn picture(&mut self, step: u64, tag: &str, png: &[u8]) -> Result<(), ReportError> {
        let reader = image::ImageReader::with_format(Cursor::new(png), image::ImageFormat::Png);
        let (width, height) = reader.into_dimensions()?;
        let image = Image {
            height: i32::try_from(height).unwrap_or(i32::MAX),
            width: i32::try_from(width).unwrap_or(i32::MAX),
            colorspace: 3,
            encoded_image_string: png.to_vec(),
        };
        self.value(step, tag, None, Content::Image(image))
    }

    /// Adds a text under `tag`. TensorBoard reads it as Markdown: fence what is code.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn text(&mut self, step: u64, tag: &str, markdown: &str) -> Result<(), ReportError> {
        let tensor = StringTensor {
            dtype: DT_STRING,
            tensor_shape: Some(TensorShape { dim: vec![Dimension { size: 1 }] }),
            string_val: vec![markdown.as_bytes().to_vec()],
        };
        self.value(step, tag, Some("text"), Content::Tensor(tensor))
    }

    fn value(&mut self, step: u64, tag: &str, plugin: Option<&str>, content: Content) -> Result<(), ReportError> {
        let metadata =
            plugin.map(|name| SummaryMetadata { plugin_data: Some(PluginData { plugin_name: name.to_string() }) });
        let value = SummaryValue { tag: tag.to_string(), metadata, content: Some(content) };
        self.write(step, What::Summary(Summary { value: vec![value] }))
    }

    /// Appends one event in one write, so that a crash tears at most the last record.
    fn write(&mut self, step: u64, what: What) -> Result<(), ReportError> {
        let event =
            Event { wall_time: seconds_since_epoch(), step: i64::try_from(step).unwrap_or(i64::MAX), what: Some(what) };
        let framed = frame(&event.encode_to_vec());
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

    /// Reads an event file back by the definition of its format, with a bitwise CRC of its own.
    fn read_events(path: &Path) -> Vec<Event> {
        let bytes = fs::read(path).unwrap();
        let (mut rest, mut events) = (bytes.as_slice(), Vec::new());
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            let crc = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
            assert_eq!(crc(8), masked_bitwise_crc(&rest[..8]));
            let content = &rest[12..12 + length];
            assert_eq!(crc(12 + length), masked_bitwise_crc(content));
            events.push(Event::decode(content).unwrap());
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

    fn summary(event: &Event) -> &SummaryValue {
        match &event.what {
            Some(What::Summary(summary)) => &summary.value[0],
            other => panic!("expected a summary, found {other:?}"),
        }
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
        assert_eq!(events[0].what, Some(What::FileVersion("brain.Event:2".to_string())));
        let steps: Vec<i64> = events.iter().map(|event| event.step).collect();
        assert_eq!(steps, [0, 5, 6, 7]);
        assert!(events.iter().all(|event| event.wall_time > 1.6e9));
        assert_eq!(summary(&events[1]).content, Some(Content::Scalar(0.25)));
        assert_eq!(summary(&events[1]).tag, "train/loss");
        match &summary(&events[2]).content {
            Some(Content::Image(image)) => {
                assert_eq!((image.width, image.height), (3, 2));
                assert_eq!(image.encoded_image_string, png);
            }
            other => panic!("expected a picture, found {other:?}"),
        }
        let text_metadata = summary(&events[3]).metadata.clone().unwrap();
        assert_eq!(text_metadata.plugin_data.unwrap().plugin_name, "text");
        match &summary(&events[3]).content {
            Some(Content::Tensor(tensor)) => {
                assert_eq!(tensor.string_val[0], b"```yaml\na: 1\n```")
            }
            other => panic!("expected a text, found {other:?}"),
        }
    }

    #[test]
    fn a_resumed_file_is_new_later_and_purges_the_following_steps() {
        let folder = tempfile::tempdir().unwrap();
        let first = EventFile::create(folder.path(), None).unwrap();
        let second = EventFile::create(folder.path(), Some(40)).unwrap();
        assert!(first.path() < second.path());
        let events = read_events(second.path());
        assert_eq!(events[1].step, 41);
        let start = SessionLog { status: 1 };
        assert_eq!(events[1].what, Some(What::SessionLog(start)));
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
