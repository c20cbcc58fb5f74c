//! Voxels as files store them: numbers of one type and byte order, one after the other.

use crate::error::DataError;
use crate::formats::file;
use crate::volumes::{count, reserved};
use flate2::Compression;
use ndarray::ArrayView4;
use std::io::{self, Read, Write};
use std::path::Path;

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberType {
    Uint8,
    Int8,
    Uint16,
    Int16,
    Uint32,
    Int32,
    Uint64,
    Int64,
    Float32,
    Float64,
}

impl NumberType {
    /// Bytes of a number.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Uint8 | Self::Int8 => 1,
            Self::Uint16 | Self::Int16 => 2,
            Self::Uint32 | Self::Int32 | Self::Float32 => 4,
            Self::Uint64 | Self::Int64 | Self::Float64 => 8,
        }
    }
}

/// How the voxels of a file are stored: `value = number * slope + intercept`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stored {
    pub(crate) number: NumberType,
    pub(crate) is_big_endian: bool,
    pub(crate) slope: f64,
    pub(crate) intercept: f64,
}

/// Bytes that are decoded at once.
const BLOCK: usize = 1 << 16;

impl Stored {
    /// Numbers that are the values.
    pub(crate) fn plain(number: NumberType, is_big_endian: bool) -> Self {
        Self { number, is_big_endian, slope: 1.0, intercept: 0.0 }
    }

    /// Reads the values of a shape, and the file to its end, which lets gzip check its sum. `at_most` bounds the bytes that `reader`
    /// can give.
    ///
    /// # Errors
    /// If the file is too short or damaged, or there is no memory for the values.
    pub(crate) fn read(
        &self,
        path: &Path,
        shape: &[usize],
        reader: &mut dyn Read,
        at_most: u64,
    ) -> Result<Vec<f32>, DataError> {
        let values = count(shape)?;
        let mut left = values as u64 * self.number.size() as u64;
        if left > at_most {
            let expected = format!("{left} bytes of voxels for shape {shape:?}");
            return Err(DataError::malformed(
                expected,
                format!("at most {at_most}"),
                "Copy or download the file again.",
            ));
        }
        let mut data = reserved(shape, values)?;
        let mut block = vec![0; BLOCK];
        while left > 0 {
            let bytes = &mut block[..left.min(BLOCK as u64) as usize];
            reader.read_exact(bytes).map_err(|error| file::read_failed(path, error))?;
            self.decode(bytes, &mut data);
            left -= bytes.len() as u64;
        }
        io::copy(reader, &mut io::sink()).map_err(|error| file::read_failed(path, error))?;
        Ok(data)
    }

    /// Appends the values of whole numbers in `bytes`.
    pub(crate) fn decode(&self, bytes: &[u8], values: &mut Vec<f32>) {
        macro_rules! decode {
            ($number:ty) => {
                values.extend(bytes.as_chunks().0.iter().map(|bytes| {
                    let from = if self.is_big_endian { <$number>::from_be_bytes } else { <$number>::from_le_bytes };
                    (from(*bytes) as f64 * self.slope + self.intercept) as f32
                }))
            };
        }
        match self.number {
            NumberType::Uint8 => decode!(u8),
            NumberType::Int8 => decode!(i8),
            NumberType::Uint16 => decode!(u16),
            NumberType::Int16 => decode!(i16),
            NumberType::Uint32 => decode!(u32),
            NumberType::Int32 => decode!(i32),
            NumberType::Uint64 => decode!(u64),
            NumberType::Int64 => decode!(i64),
            NumberType::Float32 => decode!(f32),
            NumberType::Float64 => decode!(f64),
        }
    }
}

/// Writes the voxels of `[channels, x, y, z]`, the first axis fastest, as the file has them.
pub(crate) fn write_values<T: Copy, const BYTES: usize>(
    values: ArrayView4<'_, T>,
    bytes: impl Fn(T) -> [u8; BYTES],
    output: &mut dyn Write,
) -> io::Result<()> {
    values.permuted_axes([0, 3, 2, 1]).iter().try_for_each(|value| output.write_all(&bytes(*value)))
}

/// The fastest level that fits its codes to the values: those below make floats larger than they are.
pub(crate) const PACKED: Compression = Compression::new(3);
