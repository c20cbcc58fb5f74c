//! One slice: what places it, and its pixels.

use crate::error::DataError;
use crate::formats::voxels::{NumberType, Stored};
use dicom_object::{DefaultDicomObject, OpenFileOptions, Tag};
use std::error::Error;
use std::path::{Path, PathBuf};

const SERIES: Tag = Tag(0x0020, 0x000e);
const POSITION: Tag = Tag(0x0020, 0x0032);
const ORIENTATION: Tag = Tag(0x0020, 0x0037);
const SAMPLES: Tag = Tag(0x0028, 0x0002);
const FRAMES: Tag = Tag(0x0028, 0x0008);
const ROWS: Tag = Tag(0x0028, 0x0010);
const COLUMNS: Tag = Tag(0x0028, 0x0011);
const PIXEL_SPACING: Tag = Tag(0x0028, 0x0030);
const BITS_ALLOCATED: Tag = Tag(0x0028, 0x0100);
const BITS_STORED: Tag = Tag(0x0028, 0x0101);
const HIGH_BIT: Tag = Tag(0x0028, 0x0102);
const IS_SIGNED: Tag = Tag(0x0028, 0x0103);
const INTERCEPT: Tag = Tag(0x0028, 0x1052);
const SLOPE: Tag = Tag(0x0028, 0x1053);
const PIXELS: Tag = Tag(0x7fe0, 0x0010);

/// Transfer syntaxes whose pixels are numbers one after the other, in little-endian order.
const PLAIN: [&str; 3] = ["1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.1.98"];

/// Where a slice lies, in millimetres to the left, the back and the top, and to which series it belongs.
#[derive(Debug, Clone)]
pub(super) struct Slice {
    pub(super) path: PathBuf,
    pub(super) series: String,
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// The first pixel.
    pub(super) position: [f64; 3],
    /// Steps from a column to the next, and from a row to the next.
    pub(super) steps: [[f64; 3]; 2],
}

impl Slice {
    /// Reads what comes before the pixels.
    ///
    /// # Errors
    /// If the file is damaged, packed, of colours, or says not where it lies.
    pub(super) fn read(path: &Path) -> Result<Self, DataError> {
        let object = Attributes::open(path, OpenFileOptions::new().read_until(PIXELS))?;
        let syntax = object.0.meta().transfer_syntax().trim_end_matches(['\0', ' ']).to_string();
        if !PLAIN.contains(&syntax.as_str()) {
            let remedy = "Unpack the series first, as with `gdcmconv --raw` or `dcmconv +ti`, or convert it to NIfTI with dcm2niix.";
            return Err(DataError::malformed(
                "pixels that are not packed",
                format!("transfer syntax {syntax}"),
                remedy,
            ));
        }
        for (tag, what) in [(SAMPLES, "one number for each pixel"), (FRAMES, "one frame in a file")] {
            let found = object.integer_or(tag, 1)?;
            if found != 1 {
                let remedy = "Convert the series to NIfTI, as with dcm2niix.";
                return Err(DataError::malformed(what, found.to_string(), remedy));
            }
        }
        let [left, back, top, down_left, down_back, down_top] =
            object.floats(ORIENTATION, "ImageOrientationPatient")?;
        let [between_rows, between_columns] = object.floats(PIXEL_SPACING, "PixelSpacing")?;
        Ok(Self {
            path: path.into(),
            series: object.text(SERIES, "SeriesInstanceUID")?,
            rows: object.length(ROWS, "Rows")?,
            columns: object.length(COLUMNS, "Columns")?,
            position: object.floats(POSITION, "ImagePositionPatient")?,
            steps: [
                [left, back, top].map(|part| part * between_columns),
                [down_left, down_back, down_top].map(|part| part * between_rows),
            ],
        })
    }

    /// Appends the values of its pixels, row by row.
    ///
    /// # Errors
    /// If the file has changed, or has too few pixels.
    pub(super) fn append(&self, values: &mut Vec<f32>) -> Result<(), DataError> {
        let object = Attributes::open(&self.path, OpenFileOptions::new())?;
        let allocated = object.integer_or(BITS_ALLOCATED, 16)?;
        let stored = object.integer_or(BITS_STORED, allocated)?;
        let high = object.integer_or(HIGH_BIT, stored - 1)?;
        let is_signed = object.integer_or(IS_SIGNED, 0)? == 1;
        let number = match (allocated, is_signed) {
            (8, false) => NumberType::Uint8,
            (8, true) => NumberType::Int8,
            (16, false) => NumberType::Uint16,
            (16, true) => NumberType::Int16,
            (32, false) => NumberType::Uint32,
            (32, true) => NumberType::Int32,
            _ => return Err(malformed("BitsAllocated of 8, 16 or 32", allocated)),
        };
        if !(1..=allocated).contains(&stored) || !(stored - 1..allocated).contains(&high) {
            return Err(malformed("BitsStored and HighBit within BitsAllocated", format!("{stored} and {high}")));
        }
        let pixels = object.0.get(PIXELS).ok_or_else(|| malformed("pixels (PixelData)", "none"))?;
        let bytes = pixels.to_bytes().map_err(|error| malformed("pixels that are not packed", error))?;
        let needed = self.rows * self.columns * number.size();
        if bytes.len() < needed {
            return Err(malformed(format!("{needed} bytes of pixels"), bytes.len()));
        }
        // the bits that count, at the top of the number, and back with their sign
        let (up, down) = (allocated - 1 - high, allocated - stored);
        let bytes = match (up, down) {
            (0, 0) => bytes,
            _ => aligned(&bytes[..needed], number, up as u32, down as u32).into(),
        };
        let decimal = |tag, otherwise| object.decimal_or(tag, otherwise);
        let is_big_endian = cfg!(target_endian = "big"); // the parser gives numbers in this machine's order
        let stored = Stored { number, is_big_endian, slope: decimal(SLOPE, 1.0)?, intercept: decimal(INTERCEPT, 0.0)? };
        stored.decode(&bytes[..needed], values);
        Ok(())
    }
}

/// Numbers whose bits are shifted up and then down again, which carries the sign along.
fn aligned(bytes: &[u8], number: NumberType, up: u32, down: u32) -> Vec<u8> {
    macro_rules! shift {
        ($number:ty) => {
            bytes
                .as_chunks()
                .0
                .iter()
                .flat_map(|bytes| (<$number>::from_ne_bytes(*bytes) << up >> down).to_ne_bytes())
                .collect()
        };
    }
    match number {
        NumberType::Uint8 => shift!(u8),
        NumberType::Int8 => shift!(i8),
        NumberType::Uint16 => shift!(u16),
        NumberType::Int16 => shift!(i16),
        NumberType::Uint32 => shift!(u32),
        _ => shift!(i32),
    }
}

/// The attributes of a file.
struct Attributes(DefaultDicomObject);

impl Attributes {
    fn open(path: &Path, options: OpenFileOptions) -> Result<Self, DataError> {
        options.open_file(path).map(Self).map_err(|error| {
            let mut causes = error.to_string();
            let mut source = error.source();
            while let Some(cause) = source {
                causes = format!("{causes}: {cause}");
                source = cause.source();
            }
            let found = format!("one that is damaged ({})", causes.chars().take(300).collect::<String>());
            DataError::malformed("a DICOM file", found, "Copy or export the series again.")
        })
    }

    fn text(&self, tag: Tag, name: &str) -> Result<String, DataError> {
        let text = self.0.get(tag).and_then(|element| element.to_str().ok());
        let text = text.map(|text| text.trim_matches(['\0', ' ']).to_string()).filter(|text| !text.is_empty());
        text.ok_or_else(|| malformed(format!("a {name}"), "none"))
    }

    fn floats<const N: usize>(&self, tag: Tag, name: &str) -> Result<[f64; N], DataError> {
        let numbers = self.0.get(tag).and_then(|element| element.to_multi_float64().ok()).unwrap_or_default();
        let finite = numbers.iter().all(|number| number.is_finite());
        let found = format!("{numbers:?}");
        let exact: Option<[f64; N]> = numbers.try_into().ok().filter(|_| finite);
        exact.ok_or_else(|| malformed(format!("{N} numbers in {name}, which place a slice"), found))
    }

    fn length(&self, tag: Tag, name: &str) -> Result<usize, DataError> {
        match self.integer_or(tag, 0)? {
            length @ 1..=65535 => Ok(length as usize),
            found => Err(malformed(format!("{name} from 1 to 65535"), found)),
        }
    }

    fn integer_or(&self, tag: Tag, otherwise: i64) -> Result<i64, DataError> {
        let Some(element) = self.0.get(tag) else { return Ok(otherwise) };
        element.to_int().map_err(|error| malformed(format!("a whole number in {tag}"), error))
    }

    fn decimal_or(&self, tag: Tag, otherwise: f64) -> Result<f64, DataError> {
        let Some(element) = self.0.get(tag) else { return Ok(otherwise) };
        let number = element.to_float64().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| malformed(format!("a number in {tag}"), "none"))
    }
}

fn malformed(expected: impl Into<String>, found: impl ToString) -> DataError {
    DataError::malformed(expected, found.to_string(), "Export the series again, or convert it to NIfTI with dcm2niix.")
}
