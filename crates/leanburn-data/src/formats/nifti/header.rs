//! Headers of NIfTI-1 and NIfTI-2 files: the same fields at other places, with wider numbers.

use crate::error::DataError;
use crate::formats::file;
use crate::formats::nifti::layout;
use std::io::Read;
use std::path::Path;

/// Length of a header of NIfTI-1.
const FIRST: usize = layout::HEADER_BYTES;
/// Length of a header of NIfTI-2.
const SECOND: usize = 540;

const EXPORT_AGAIN: &str = layout::EXPORT_AGAIN;

/// What of a header a volume needs.
#[derive(Debug)]
pub(super) struct Header {
    /// Length of the header in bytes.
    pub(super) length: u64,
    pub(super) is_big_endian: bool,
    /// Whether the voxels are in a file of their own, `.img`.
    pub(super) is_pair: bool,
    /// The number of axes, and their lengths.
    pub(super) dim: [i64; 8],
    pub(super) datatype: i16,
    /// A sign, and the lengths of voxels.
    pub(super) pixdim: [f64; 8],
    pub(super) vox_offset: f64,
    pub(super) slope: f64,
    pub(super) intercept: f64,
    /// Millimetres in the unit of all lengths here.
    pub(super) millimetres: f64,
    pub(super) qform_code: i32,
    pub(super) sform_code: i32,
    pub(super) quaternion: [f64; 3],
    pub(super) origin: [f64; 3],
    pub(super) sform: [[f64; 4]; 3],
}

impl Header {
    /// Reads the header at the beginning of a file.
    ///
    /// # Errors
    /// If it is cut short, or is none.
    pub(super) fn read(path: &Path, reader: &mut dyn Read) -> Result<Self, DataError> {
        let mut bytes = vec![0; FIRST];
        let mut fill = |bytes: &mut [u8]| reader.read_exact(bytes).map_err(|error| file::read_failed(path, error));
        fill(&mut bytes)?;
        let size = [bytes[0], bytes[1], bytes[2], bytes[3]];
        let sizes = [i32::from_le_bytes(size), i32::from_be_bytes(size)];
        if sizes.contains(&(SECOND as i32)) {
            bytes.resize(SECOND, 0);
            fill(&mut bytes[FIRST..])?;
            return Self::second(&Fields { bytes: &bytes, is_big_endian: sizes[1] == SECOND as i32 });
        }
        let first = Self::first(&Fields { bytes: &bytes, is_big_endian: sizes[1] == FIRST as i32 })?;
        match sizes.contains(&(FIRST as i32)) {
            true => Ok(first),
            false => Err(malformed(format!("a header of {} bytes", sizes[0]))),
        }
    }

    fn first(fields: &Fields<'_>) -> Result<Self, DataError> {
        let is_pair = is_pair(&fields.bytes[344..348], [b"n+1\0", b"ni1\0"])?;
        let floats = |at: usize| f64::from(fields.f32(at));
        Ok(Self {
            length: FIRST as u64,
            is_big_endian: fields.is_big_endian,
            is_pair,
            dim: fields.each(40, 2, |at| i64::from(fields.i16(at))),
            datatype: fields.i16(70),
            pixdim: fields.each(76, 4, floats),
            vox_offset: floats(108),
            slope: floats(112),
            intercept: floats(116),
            millimetres: layout::millimetres(fields.bytes[123].into()),
            qform_code: fields.i16(252).into(),
            sform_code: fields.i16(254).into(),
            quaternion: fields.each(256, 4, floats),
            origin: fields.each(268, 4, floats),
            sform: [280, 296, 312].map(|row| fields.each(row, 4, floats)),
        })
    }

    fn second(fields: &Fields<'_>) -> Result<Self, DataError> {
        let is_pair = is_pair(&fields.bytes[4..12], [b"n+2\0\r\n\x1a\n", b"ni2\0\r\n\x1a\n"])?;
        let floats = |at: usize| fields.f64(at);
        Ok(Self {
            length: SECOND as u64,
            is_big_endian: fields.is_big_endian,
            is_pair,
            dim: fields.each(16, 8, |at| fields.i64(at)),
            datatype: fields.i16(12),
            pixdim: fields.each(104, 8, floats),
            vox_offset: fields.i64(168) as f64,
            slope: floats(176),
            intercept: floats(184),
            millimetres: layout::millimetres(fields.i32(500)),
            qform_code: fields.i32(344),
            sform_code: fields.i32(348),
            quaternion: fields.each(352, 8, floats),
            origin: fields.each(376, 8, floats),
            sform: [400, 432, 464].map(|row| fields.each(row, 8, floats)),
        })
    }
}

/// Whether a file's magic is that of a pair, the second of the two.
fn is_pair<const N: usize>(magic: &[u8], [single, pair]: [&[u8; N]; 2]) -> Result<bool, DataError> {
    match magic {
        found if found == single => Ok(false),
        found if found == pair => Ok(true),
        found => Err(malformed(format!("magic {:?}", found.escape_ascii().to_string()))),
    }
}

fn malformed(found: String) -> DataError {
    let expected = "a NIfTI header (348 bytes and magic \"n+1\", or 540 and \"n+2\")";
    DataError::malformed(expected, found, EXPORT_AGAIN)
}

/// The bytes of a header, read as numbers.
struct Fields<'a> {
    bytes: &'a [u8],
    is_big_endian: bool,
}

macro_rules! read_number {
    ($($number:ident),*) => {$(
        fn $number(&self, at: usize) -> $number {
            let mut bytes = [0; size_of::<$number>()];
            bytes.copy_from_slice(&self.bytes[at..at + size_of::<$number>()]);
            if self.is_big_endian { $number::from_be_bytes(bytes) } else { $number::from_le_bytes(bytes) }
        }
    )*};
}

impl Fields<'_> {
    read_number!(i16, i32, i64, f32, f64);

    /// Numbers from `first` on, so many bytes apart.
    fn each<T, const N: usize>(&self, first: usize, apart: usize, read: impl Fn(usize) -> T) -> [T; N] {
        std::array::from_fn(|index| read(first + index * apart))
    }
}
