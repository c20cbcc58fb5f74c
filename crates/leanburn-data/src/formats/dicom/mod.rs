//! DICOM series: a folder with a file for each slice.
//!
//! [PS3.3, C.7.6.2](https://dicom.nema.org/medical/dicom/current/output/chtml/part03/sect_C.7.6.2.html) places a slice, C.11.1 says what
//! its numbers stand for. Files are parsed by `dicom-object`; pixels are decoded here, and only those that are not packed.

mod series;
mod slice;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub(super) use series::read;

/// Whether a file is of DICOM: by its ending, or, where it has none that is known, by the mark behind its preamble.
pub(super) fn is_slice(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if name == "dicomdir" {
        return false; // the list of a medium
    }
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_number = ending.bytes().all(|byte| byte.is_ascii_digit()); // the end of an identifier, such as 1.2.840.7
    match ending.as_str() {
        "dcm" | "dicom" => true,
        "ima" => has_mark(path),
        _ => is_number && has_mark(path),
    }
}

fn has_mark(path: &Path) -> bool {
    let mut start = [0; 132];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start.ends_with(b"DICM")
}
