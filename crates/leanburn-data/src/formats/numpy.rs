//! NumPy's `.npy` files, by the `npyz` crate.
//!
//! Format: [NEP 1](https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). The
//! header is checked here before the crate parses it, which trusts its length and its shape.

use crate::error::DataError;
use crate::formats::array::Array;
use crate::formats::file;
use crate::volumes::{Volume, count};
use half::f16;
use ndarray::{ArrayD, ShapeBuilder};
use npyz::{DType, NpyFile, Order, TypeChar, WriteOptions, WriterBuilder};
use std::io::{self, BufWriter, Cursor, Read, Write};
use std::path::Path;

/// NumPy itself rejects longer headers.
const LONGEST_HEADER: usize = 10_000;
const SAVE_AGAIN: &str = "Save the array again with numpy.save.";

type NumpyArray<'a> = NpyFile<Box<dyn Read + 'a>>;

/// Reads an array of any rank, in C or Fortran order. `at_most` bounds the bytes that `reader` can give.
pub(crate) fn read<T: Clone>(
    path: &Path,
    mut reader: &mut dyn Read,
    at_most: u64,
    cast: fn(f64) -> T,
) -> Result<Array<T>, DataError> {
    let header = read_header(path, &mut reader)?;
    let shape = shape(&header)?;
    let array = NpyFile::new(Box::new(Cursor::new(header).chain(reader)) as Box<dyn Read + '_>)
        .map_err(|error| DataError::malformed("a .npy header", error.to_string(), SAVE_AGAIN))?;
    let order = array.order();
    let mut values = values(path, array, count(&shape)?, at_most, cast)?;
    if order == Order::Fortran {
        let turned = ArrayD::from_shape_vec(shape.clone().f(), values).expect("as many values as the shape has");
        values = turned.as_standard_layout().into_owned().into_raw_vec_and_offset().0;
    }
    Ok(Array { shape, values })
}

/// The bytes from the magic to the end of the header's text.
fn read_header(path: &Path, reader: &mut dyn Read) -> Result<Vec<u8>, DataError> {
    let mut take = |header: &mut Vec<u8>, bytes: usize| -> Result<(), DataError> {
        let found = reader.take(bytes as u64).read_to_end(header);
        match found.map_err(|error| file::read_failed(path, error))? == bytes {
            true => Ok(()),
            false => Err(file::read_failed(path, io::ErrorKind::UnexpectedEof.into())),
        }
    };
    let mut header = Vec::new();
    take(&mut header, 8)?;
    if !header.starts_with(b"\x93NUMPY") {
        let found = format!("{:?}", header[..6].escape_ascii().to_string());
        return Err(DataError::malformed("the magic \"\\x93NUMPY\"", found, SAVE_AGAIN));
    }
    let wide = if header[6] == 1 { 2 } else { 4 };
    take(&mut header, wide)?;
    let length = header[8..].iter().rev().fold(0, |sum, byte| sum * 256 + usize::from(*byte));
    if length > LONGEST_HEADER {
        let expected = format!("a header of at most {LONGEST_HEADER} bytes");
        return Err(DataError::malformed(expected, length.to_string(), SAVE_AGAIN));
    }
    take(&mut header, length)?;
    Ok(header)
}

/// The shape as the header's text has it. A header without nesting cannot exhaust the parser's
/// stack, and a shape with a sound product cannot overflow in the crate.
fn shape(header: &[u8]) -> Result<Vec<usize>, DataError> {
    let text = String::from_utf8_lossy(header);
    let malformed = |found: &str| {
        let found = found.escape_debug().to_string();
        DataError::malformed("a header with the shape of a plain array", found, SAVE_AGAIN)
    };
    if text.matches(['(', '[', '{']).count() > 2 {
        return Err(malformed("a structured or nested type"));
    }
    let shape = text.split_once("shape").and_then(|(_, rest)| rest.split_once('('));
    let Some((shape, _)) = shape.and_then(|(_, rest)| rest.split_once(')')) else {
        return Err(malformed("no shape"));
    };
    let lengths = shape.split(',').map(str::trim).filter(|length| !length.is_empty());
    let lengths: Option<Vec<usize>> = lengths.map(|length| length.parse().ok()).collect();
    let lengths = lengths.ok_or_else(|| malformed(&format!("({shape})")))?;
    // An empty axis must not hide a product that overflows in the crate.
    count(&lengths.iter().map(|length| (*length).max(1)).collect::<Vec<_>>())?;
    Ok(lengths)
}

fn values<T>(
    path: &Path,
    array: NumpyArray<'_>,
    length: usize,
    at_most: u64,
    cast: fn(f64) -> T,
) -> Result<Vec<T>, DataError> {
    let found = array.dtype().descr();
    let plain = match array.dtype() {
        DType::Plain(kind) => Some((kind.type_char(), kind.size_field())),
        _ => None,
    };
    let bytes = length as u64 * plain.map_or(0, |(_, size)| size.min(16));
    if array.len() != length as u64 || bytes > at_most {
        let expected = format!("{bytes} bytes of values");
        return Err(DataError::malformed(expected, format!("at most {at_most}"), SAVE_AGAIN));
    }
    macro_rules! collect {
        ($number:ty) => {
            collect::<$number, T>(path, array, length, |value| cast(value as f64))
        };
    }
    match plain {
        Some((TypeChar::Float, 2)) => collect(path, array, length, |value: f16| cast(value.into())),
        Some((TypeChar::Float, 4)) => collect!(f32),
        Some((TypeChar::Float, 8)) => collect!(f64),
        Some((TypeChar::Int, 1)) => collect!(i8),
        Some((TypeChar::Int, 2)) => collect!(i16),
        Some((TypeChar::Int, 4)) => collect!(i32),
        Some((TypeChar::Int, 8)) => collect!(i64),
        Some((TypeChar::Uint, 1)) => collect!(u8),
        Some((TypeChar::Uint, 2)) => collect!(u16),
        Some((TypeChar::Uint, 4)) => collect!(u32),
        Some((TypeChar::Uint, 8)) => collect!(u64),
        Some((TypeChar::Bool, _)) => collect(path, array, length, |value: bool| cast(value.into())),
        _ => {
            let remedy = "Save the array with dtype float32.";
            Err(DataError::malformed("integers, floats or booleans", format!("dtype {found}"), remedy))
        }
    }
}

fn collect<N: npyz::Deserialize, T>(
    path: &Path,
    array: NumpyArray<'_>,
    length: usize,
    cast: impl Fn(N) -> T,
) -> Result<Vec<T>, DataError> {
    let items =
        array.data::<N>().map_err(|error| DataError::malformed("a plain dtype", error.to_string(), SAVE_AGAIN))?;
    let mut values = Vec::new();
    values.try_reserve_exact(length).map_err(|_| DataError::too_large(&[length], length))?;
    for item in items {
        values.push(cast(item.map_err(|error| file::read_failed(path, error))?));
    }
    Ok(values)
}

/// Writes 32-bit floats; one channel as 3D, several as 4D.
pub(crate) fn write(volume: &Volume, path: &Path) -> Result<(), DataError> {
    let shape = volume.shape();
    write_values(if shape[0] == 1 { &shape[1..] } else { &shape }, volume.data(), path)
}

/// Writes 32-bit floats of a shape.
pub(crate) fn write_values(shape: &[usize], values: &[f32], path: &Path) -> Result<(), DataError> {
    file::replace(path, ".npy", |file, _| {
        let mut file = BufWriter::new(file);
        write_array(&mut file, shape, values.iter().copied())?;
        file.flush()
    })
}

/// Writes one array in C order.
pub(crate) fn write_array<N: npyz::AutoSerialize>(
    file: &mut impl Write,
    shape: &[usize],
    values: impl IntoIterator<Item = N>,
) -> io::Result<()> {
    let shape: Vec<u64> = shape.iter().map(|length| *length as u64).collect();
    let mut writer = WriteOptions::<N>::new().default_dtype().shape(&shape).writer(file).begin_nd()?;
    writer.extend(values)?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn file(dtype: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let text = format!("{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn parse(bytes: Vec<u8>) -> Result<Volume, DataError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("array.npy");
        fs::write(&path, bytes).unwrap();
        Volume::read(&path)
    }

    #[test]
    fn every_type() {
        macro_rules! check {
            ($name:literal, $number:ty, $bytes:ident, $endian:literal) => {
                let data: Vec<u8> = (0..6).flat_map(|value| (value as $number).$bytes()).collect();
                let volume = parse(file(concat!($endian, $name), "False", "(1, 2, 3)", &data)).unwrap();
                assert_eq!(volume.data(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], $name);
                assert_eq!(volume.shape(), [1, 1, 2, 3]);
            };
            ($($name:literal $number:ty),*) => {$(
                check!($name, $number, to_le_bytes, "<");
                check!($name, $number, to_be_bytes, ">");
            )*};
        }
        check!("i2" i16, "i4" i32, "i8" i64, "u2" u16, "u4" u32, "u8" u64, "f4" f32, "f8" f64);
        check!("i1", i8, to_le_bytes, "|");
        check!("u1", u8, to_le_bytes, "|");
        let half: Vec<u8> = [0.5_f32, -2.0].iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect();
        assert_eq!(parse(file("<f2", "False", "(1, 1, 2)", &half)).unwrap().data(), [0.5, -2.0]);
        assert_eq!(parse(file("|b1", "False", "(1, 1, 2)", &[0, 1])).unwrap().data(), [0.0, 1.0]);
    }

    #[test]
    fn orders_and_channels() {
        let data: Vec<u8> = (0..12).collect();
        let c = parse(file("|u1", "False", "(2, 1, 2, 3)", &data)).unwrap();
        let fortran = parse(file("|u1", "True", "(2, 1, 2, 3)", &data)).unwrap();
        assert_eq!(c.shape(), [2, 1, 2, 3]);
        assert_eq!(c.view()[[1, 0, 0, 2]], 8.0);
        assert_eq!(fortran.view()[[1, 0, 0, 2]], 9.0);
        assert_eq!(fortran.view()[[0, 0, 1, 0]], 2.0);
    }

    #[test]
    fn broken_arrays_have_errors_of_their_own() {
        let message = |bytes: Vec<u8>| parse(bytes).unwrap_err().to_string();
        assert!(message(file("|u1", "False", "(2, 3)", &[0; 6])).contains("[2, 3]"));
        assert!(message(file("|u1", "False", "(0, 2, 3)", &[])).contains("[1, 0, 2, 3]"));
        assert!(message(file("|u1", "False", "(1, 1, 1, 2, 3)", &[0; 6])).contains("[1, 1, 1, 2, 3]"));
        assert!(message(file("|u1", "False", "(2, 2, 3)", &[0; 6])).contains("cut short"));
        assert!(message(file("|u1", "False", &format!("({})", "1,".repeat(4_900)), &[0])).len() < 600);
        assert!(message(file("<c8", "False", "(1, 1, 1)", &[0; 8])).contains("c8"));
        assert!(message(file("|O", "False", "(1, 1, 1)", &[0; 8])).contains("dtype"));
        let huge = "(18446744073709551615, 3, 2)";
        assert!(parse(file("|u1", "False", huge, &[])).unwrap_err().is_too_large());
        assert!(message(file("<f8", "False", "(4000, 2000, 2000)", &[])).contains("bytes"));
        assert!(message(file("<f4", "False", &"[".repeat(9000), &[])).contains("nested"));
        assert!(message(b"PK\x03\x04 a zip, not an array".to_vec()).contains("magic"));
        let nan = parse(file("<f4", "False", "(1, 1, 1)", &f32::NAN.to_le_bytes()));
        assert!(nan.unwrap_err().is_not_finite());
        let mut long = file("|u1", "False", "(1, 1, 1)", &[0]);
        long[6] = 2;
        assert!(message(long).contains("header of at most"));
    }
}
