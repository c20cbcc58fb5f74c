//! `.safetensors` files, by the crate of that name, which checks every length itself.

use crate::error::DataError;
use crate::formats::array::{AFFINE, Array, VOLUME};
use crate::formats::file;
use crate::volumes::{Volume, reserved};
use half::{bf16, f16};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use std::path::Path;
use std::{fs, io, io::Write};

const SAVE_AGAIN: &str = "Save the file again with safetensors.";

/// A file in memory, its tensors not yet decoded.
pub(crate) struct Safetensors(Vec<u8>);

impl Safetensors {
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        Ok(Self(fs::read(path).map_err(|error| file::read_failed(path, error))?))
    }

    fn tensors(&self) -> Result<SafeTensors<'_>, DataError> {
        SafeTensors::deserialize(&self.0)
            .map_err(|error| DataError::malformed("a whole .safetensors file", error.to_string(), SAVE_AGAIN))
    }

    pub(crate) fn names(&self) -> Result<Vec<String>, DataError> {
        Ok(self.tensors()?.names().iter().map(ToString::to_string).collect())
    }

    pub(crate) fn read<T>(&self, name: &str, cast: fn(f64) -> T) -> Result<Array<T>, DataError> {
        let tensors = self.tensors()?;
        let tensor = tensors
            .tensor(name)
            .map_err(|error| DataError::malformed("a readable tensor", error.to_string(), SAVE_AGAIN))?;
        Ok(Array { shape: tensor.shape().to_vec(), values: values(&tensor, cast)? })
    }
}

fn values<T>(tensor: &TensorView<'_>, cast: impl Fn(f64) -> T) -> Result<Vec<T>, DataError> {
    let length = tensor.shape().iter().product();
    let mut values = reserved(tensor.shape(), length)?;
    macro_rules! decode {
        ($number:ty, $cast:expr) => {
            values.extend(tensor.data().as_chunks().0.iter().map(|bytes| cast($cast(<$number>::from_le_bytes(*bytes)))))
        };
    }
    match tensor.dtype() {
        Dtype::F16 => decode!(f16, f16::to_f64),
        Dtype::BF16 => decode!(bf16, bf16::to_f64),
        Dtype::F32 => decode!(f32, f64::from),
        Dtype::F64 => decode!(f64, f64::from),
        Dtype::U8 => decode!(u8, f64::from),
        Dtype::I8 => decode!(i8, f64::from),
        Dtype::U16 => decode!(u16, f64::from),
        Dtype::I16 => decode!(i16, f64::from),
        Dtype::U32 => decode!(u32, f64::from),
        Dtype::I32 => decode!(i32, f64::from),
        Dtype::U64 => decode!(u64, |value| value as f64),
        Dtype::I64 => decode!(i64, |value| value as f64),
        other => {
            let found = format!("type {other:?}");
            return Err(DataError::malformed("integers, or floats of 16 to 64 bits", found, SAVE_AGAIN));
        }
    }
    Ok(values)
}

/// Writes `volume` as 32-bit floats and `affine` as 64-bit floats.
pub(crate) fn write(volume: &Volume, path: &Path) -> Result<(), DataError> {
    let values: Vec<u8> = volume.data().iter().flat_map(|value| value.to_le_bytes()).collect();
    let affine: Vec<u8> = volume.affine().iter().flatten().flat_map(|entry| entry.to_le_bytes()).collect();
    file::replace(path, ".safetensors", |file, _| {
        let tensors = [
            (VOLUME, TensorView::new(Dtype::F32, volume.shape().to_vec(), &values)),
            (AFFINE, TensorView::new(Dtype::F64, vec![4, 4], &affine)),
        ];
        let tensors: Result<Vec<_>, _> =
            tensors.into_iter().map(|(name, view)| view.map(|view| (name, view))).collect();
        // not `serialize_to_file`, which replaces the temporary file by another one that only the user can read
        let bytes = tensors.and_then(|tensors| serialize(tensors, None));
        file.write_all(&bytes.map_err(|error| io::Error::other(error.to_string()))?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) -> Result<Volume, DataError> {
        let views = tensors
            .iter()
            .map(|(name, dtype, shape, data)| (*name, TensorView::new(*dtype, shape.to_vec(), data).unwrap()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.safetensors");
        fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
        Volume::read(&path)
    }

    #[test]
    fn every_type() {
        macro_rules! check {
            ($($dtype:ident $from:expr),*) => {$({
                let data: Vec<u8> = [1_u8, 2, 3].into_iter().flat_map(|v| $from(v).to_le_bytes()).collect();
                let volume = parse(&[("x", Dtype::$dtype, &[1, 1, 3], data)]).unwrap();
                assert_eq!(volume.data(), [1.0, 2.0, 3.0], stringify!($dtype));
            })*};
        }
        check!(U8 u8::from, I8 (|v| v as i8), U16 u16::from, I16 i16::from, U32 u32::from, I32 i32::from,
               U64 u64::from, I64 i64::from, F32 f32::from, F64 f64::from, F16 f16::from, BF16 bf16::from);
    }

    #[test]
    fn an_error_does_not_repeat_a_shape_of_200_000_axes() {
        let error = parse(&[("volume", Dtype::U8, &[1; 200_000], vec![1])]).unwrap_err().to_string();
        assert!(error.contains("3 axes [x, y, z]") && error.contains("found [1, 1, 1"), "{error:.500}");
        assert!(error.contains("(600000 characters)") && error.len() < 600, "{} bytes", error.len());
        let error =
            parse(&[("volume", Dtype::U8, &[&[1; 3][..], &[0; 200_000]].concat(), vec![])]).unwrap_err().to_string();
        assert!(error.len() < 600, "{} bytes", error.len());
    }

    #[test]
    fn the_named_tensor_wins_and_errors_are_clear() {
        let named: (&str, Dtype, &[usize], Vec<u8>) = ("volume", Dtype::U8, &[2, 1, 1, 1], vec![7, 8]);
        let other: (&str, Dtype, &[usize], Vec<u8>) = ("other", Dtype::U8, &[1, 1, 1], vec![9]);
        let volume = parse(&[named, other.clone()]).unwrap();
        assert_eq!((volume.data(), volume.shape()), (&[7.0, 8.0][..], [2, 1, 1, 1]));
        let two = parse(&[other, ("more", Dtype::U8, &[1, 1, 1], vec![9])]).unwrap_err();
        assert!(two.to_string().contains("2 arrays"));
        let flat = parse(&[("volume", Dtype::U8, &[2], vec![1, 2])]).unwrap_err();
        assert!(flat.to_string().contains("[2]"));
        let empty = parse(&[("volume", Dtype::U8, &[0, 1, 1], vec![])]).unwrap_err();
        assert!(empty.is_malformed());
        let boolean = parse(&[("volume", Dtype::BOOL, &[1, 1, 1], vec![1])]).unwrap_err();
        assert!(boolean.to_string().contains("BOOL"));
        let affine = parse(&[("volume", Dtype::U8, &[1, 1, 1], vec![1]), ("affine", Dtype::U8, &[2], vec![1, 1])]);
        assert!(affine.unwrap_err().to_string().contains("[4, 4]"));
        let infinite = parse(&[("v", Dtype::F64, &[1, 1, 1], 1e300_f64.to_le_bytes().to_vec())]);
        assert!(infinite.unwrap_err().is_not_finite());
    }
}
