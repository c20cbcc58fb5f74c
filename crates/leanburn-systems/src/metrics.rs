//! `metrics.jsonl`: one JSON object a line, the record of a run that outlives crashes and resumes.

use leanburn_common::atomic;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Name of a step's peak in the metrics.
pub const PEAK: &str = "memory.peak_bytes";

/// Why a metrics file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// The file system rejected.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried, as a verb: "read", "write", "open".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason that the system gives.
        source: std::io::Error,
    },
    /// A new run would overwrite the metrics of an older one.
    #[error("{} already holds the metrics of a run: resume that run, or choose another run folder", path.display())]
    MetricsExist {
        /// The metrics file.
        path: PathBuf,
    },
    /// A line of a metrics file, not its last, is no record.
    #[error(
        "{}, line {line}: expected a JSON record {{\"step\", \"phase\", \"seconds\", \"values\"}}; \
         delete or mend that line",
        path.display()
    )]
    BrokenRecord {
        /// The metrics file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What the parser found.
        source: serde_json::Error,
    },
}

impl MetricsError {
    fn of_file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { action, path, source }
    }
}

/// Which part of a run a record belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Measured on a training batch, before the weights changed.
    Train,
    /// Measured on the validation volumes.
    #[serde(rename = "val")]
    Validation,
}

/// The metrics of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Optimizer steps taken so far.
    pub step: u64,
    /// Training or validation.
    pub phase: Phase,
    /// Wall-clock seconds since the run began, those before a resume included.
    pub seconds: f64,
    /// The numbers by name. JSON has no NaN and no infinity: both are written as `null` and read
    /// back as NaN, so that a diverged run can still be read.
    #[serde(deserialize_with = "null_as_nan")]
    pub values: BTreeMap<String, f64>,
}

fn null_as_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let values = BTreeMap::<String, Option<f64>>::deserialize(deserializer)?;
    let numbers = values.into_iter();
    Ok(numbers.map(|(name, value)| (name, value.unwrap_or(f64::NAN))).collect())
}

/// The metrics file of a run, open for appending.
#[derive(Debug)]
pub struct MetricsLog {
    path: PathBuf,
    file: File,
}

impl MetricsLog {
    /// Opens the log at `path`, for a new run with `None` or for one that goes on from a step.
    ///
    /// A resumed log forgets what it will see again: records after `resume_from_step`, and a last
    /// line that a crash tore. The shortened file replaces the old one in one piece. A resumed run
    /// may have no log yet.
    ///
    /// # Errors
    ///
    /// When a new run finds metrics that are already there, when a line other than the last is
    /// not a record, or when the file cannot be read or written.
    pub fn open(path: &Path, resume_from_step: Option<u64>) -> Result<Self, MetricsError> {
        match resume_from_step {
            None if fs::metadata(path).is_ok_and(|found| found.len() > 0) => {
                let path = path.to_path_buf();
                return Err(MetricsError::MetricsExist { path });
            }
            Some(step) if path.exists() => forget_after(path, step)?,
            _ => {}
        }
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let file = opened.map_err(MetricsError::of_file("open", path))?;
        let path = path.to_path_buf();
        Ok(Self { path, file })
    }

    /// Appends one record as one line, handed to the operating system before this returns.
    ///
    /// # Errors
    ///
    /// When the line cannot be written; the part of it that was written is taken back.
    pub fn append(&mut self, record: &Record) -> Result<(), MetricsError> {
        let length = self.file.metadata().map(|found| found.len());
        let written = length.and_then(|length| {
            let mut line = serde_json::to_vec(record)?;
            line.push(b'\n');
            self.file.write_all(&line).inspect_err(|_| {
                let _ = self.file.set_len(length);
            })
        });
        written.map_err(MetricsError::of_file("append to", &self.path))
    }
}

/// Reads all records of a metrics file in their order, without a last line that a crash tore.
///
/// # Errors
///
/// When the file cannot be read, or a line other than the last is not a record.
pub fn read_metrics(path: &Path) -> Result<Vec<Record>, MetricsError> {
    let bytes = fs::read(path).map_err(MetricsError::of_file("read", path))?;
    let lines = whole_lines(path, &bytes)?;
    Ok(lines.into_iter().map(|(_, record)| record).collect())
}

/// Rewrites the file without the records after `step`; the lines kept stay as they are.
fn forget_after(path: &Path, step: u64) -> Result<(), MetricsError> {
    let bytes = fs::read(path).map_err(MetricsError::of_file("read", path))?;
    let mut kept = Vec::with_capacity(bytes.len());
    for (line, record) in whole_lines(path, &bytes)? {
        if record.step <= step {
            kept.extend_from_slice(line);
            kept.push(b'\n');
        }
    }
    if kept == bytes {
        return Ok(());
    }
    atomic::write(path, &kept).map_err(MetricsError::of_file("write", path))
}

/// The lines that hold a record, with that record. Only the last line may be torn.
fn whole_lines<'a>(path: &Path, bytes: &'a [u8]) -> Result<Vec<(&'a [u8], Record)>, MetricsError> {
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut lines = text.split(|&byte| byte == b'\n').zip(1..).peekable();
    let mut records = Vec::new();
    while let Some((content, line)) = lines.next() {
        match serde_json::from_slice(content) {
            Ok(record) => records.push((content, record)),
            Err(_) if lines.peek().is_none() => {}
            Err(source) => {
                let path = path.to_path_buf();
                return Err(MetricsError::BrokenRecord { path, line, source });
            }
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(step: u64, loss: f64) -> Record {
        Record {
            step,
            phase: Phase::Train,
            seconds: step as f64 * 0.5,
            values: BTreeMap::from([("loss".to_string(), loss)]),
        }
    }

    fn log_of(steps: &[u64]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut log = MetricsLog::open(&path, None).unwrap();
        for &step in steps {
            log.append(&record(step, 1.0 / step as f64)).unwrap();
        }
        (folder, path)
    }

    fn steps(path: &Path) -> Vec<u64> {
        read_metrics(path).unwrap().iter().map(|record| record.step).collect()
    }

    #[test]
    fn reads_back_what_was_appended() {
        let (_folder, path) = log_of(&[1, 2]);
        assert_eq!(read_metrics(&path).unwrap(), [record(1, 1.0), record(2, 0.5)]);
        let first = fs::read_to_string(&path).unwrap();
        assert_eq!(first.lines().next().unwrap(), r#"{"step":1,"phase":"train","seconds":0.5,"values":{"loss":1.0}}"#);
    }

    #[test]
    fn a_diverged_loss_can_be_read_back() {
        let (_folder, path) = log_of(&[]);
        let mut log = MetricsLog::open(&path, None).unwrap();
        log.append(&record(7, f64::NAN)).unwrap();
        assert!(read_metrics(&path).unwrap()[0].values["loss"].is_nan());
    }

    #[test]
    fn resume_drops_later_steps_and_appends() {
        let (_folder, path) = log_of(&[10, 20, 30, 40]);
        let mut log = MetricsLog::open(&path, Some(20)).unwrap();
        log.append(&record(21, 0.1)).unwrap();
        assert_eq!(steps(&path), [10, 20, 21]);
    }

    #[test]
    fn resume_drops_a_torn_last_line() {
        for torn in ["{\"step\":11,\"pha", "\0\0\0\0\0\n"] {
            let (_folder, path) = log_of(&[10]);
            let whole = fs::read_to_string(&path).unwrap();
            fs::write(&path, whole.clone() + torn).unwrap();
            assert_eq!(steps(&path), [10], "a running log must be readable");
            let mut log = MetricsLog::open(&path, Some(100)).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), whole);
            log.append(&record(11, 0.1)).unwrap();
            assert_eq!(steps(&path), [10, 11]);
        }
    }

    #[test]
    fn resume_ends_a_whole_line_that_lacks_its_newline() {
        let (_folder, path) = log_of(&[10, 11]);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, whole.trim_end()).unwrap();
        let mut log = MetricsLog::open(&path, Some(11)).unwrap();
        log.append(&record(12, 0.1)).unwrap();
        assert_eq!(steps(&path), [10, 11, 12]);
    }

    #[test]
    fn a_broken_line_in_the_middle_is_named() {
        let (_folder, path) = log_of(&[10]);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}not json\n{whole}")).unwrap();
        let message = read_metrics(&path).unwrap_err().to_string();
        assert!(message.contains("metrics.jsonl, line 2"), "{message}");
        assert!(MetricsLog::open(&path, Some(10)).is_err());
    }

    #[test]
    fn a_fresh_run_does_not_overwrite() {
        let (_folder, path) = log_of(&[10]);
        let error = MetricsLog::open(&path, None).unwrap_err();
        assert!(error.to_string().contains("resume that run"), "{error}");
        assert_eq!(steps(&path), [10]);
    }

    #[test]
    fn a_resumed_run_may_have_no_log_yet() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        MetricsLog::open(&path, Some(5)).unwrap();
        assert!(steps(&path).is_empty());
    }
}
