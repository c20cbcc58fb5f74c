//! Writing NIfTI-1 files.

use crate::error::DataError;
use crate::formats::file;
use crate::formats::nifti::layout::{self, FIRST_VOXEL, HEADER_BYTES, LONGEST_AXIS};
use crate::formats::voxels::{NumberType, PACKED, write_values};
use crate::volumes::affine::{Affine, spacing};
use crate::volumes::{LabelMap, Volume};
use flate2::write::GzEncoder;
use ndarray::ArrayView4;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes 32-bit floats; one channel as 3D, several as 4D.
pub(crate) fn write(volume: &Volume, path: &Path, gzip: bool) -> Result<(), DataError> {
    let values = |output: &mut dyn Write| write_values(volume.view(), |value| value.to_le_bytes(), output);
    write_file(path, gzip, volume.shape(), volume.affine(), NumberType::Float32, values)
}

/// Writes 8-bit integers as 3D.
pub(crate) fn write_labels(labels: &LabelMap, path: &Path, gzip: bool) -> Result<(), DataError> {
    let [x, y, z] = labels.extent();
    let shape = [1, x, y, z];
    let view = ArrayView4::from_shape(shape, labels.data()).expect("the constructor checked the length");
    let values = |output: &mut dyn Write| write_values(view, |label| [label], output);
    write_file(path, gzip, shape, labels.affine(), NumberType::Uint8, values)
}

/// Replaces `path` by a header and what `values` writes after it.
fn write_file(
    path: &Path,
    gzip: bool,
    shape: [usize; 4],
    affine: &Affine,
    number: NumberType,
    values: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<(), DataError> {
    if let Some(length) = shape.into_iter().find(|length| *length > LONGEST_AXIS) {
        let expected = format!("at most {LONGEST_AXIS} voxels along an axis");
        return Err(DataError::malformed(expected, length.to_string(), "Split it, or write a volume as .npy."));
    }
    let header = header(shape, affine, number);
    let suffix = if gzip { ".nii.gz" } else { ".nii" };
    file::replace(path, suffix, |file, _| {
        let mut file = BufWriter::new(file);
        if gzip {
            let mut packer = BufWriter::new(GzEncoder::new(&mut file, PACKED));
            packer.write_all(&header)?;
            values(&mut packer)?;
            packer.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
        } else {
            file.write_all(&header)?;
            values(&mut file)?;
        }
        file.flush()
    })
}

fn header([channels, x, y, z]: [usize; 4], affine: &Affine, number: NumberType) -> [u8; FIRST_VOXEL as usize] {
    let mut header = [0; FIRST_VOXEL as usize];
    let mut put = |offset: usize, bytes: &[u8]| header[offset..offset + bytes.len()].copy_from_slice(bytes);
    let axes = if channels == 1 { 3 } else { 4 };
    put(0, &(HEADER_BYTES as i32).to_le_bytes());
    for (index, length) in [axes, x, y, z, channels, 1, 1, 1].into_iter().enumerate() {
        put(40 + 2 * index, &(length as i16).to_le_bytes()); // dim
    }
    put(70, &layout::code(number).to_le_bytes()); // datatype
    put(72, &(8 * number.size() as i16).to_le_bytes()); // bitpix
    let [width, height, depth] = spacing(affine);
    for (index, size) in [1.0, width, height, depth, 1.0, 1.0, 1.0, 1.0].into_iter().enumerate() {
        put(76 + 4 * index, &(size as f32).to_le_bytes()); // pixdim
    }
    put(108, &(FIRST_VOXEL as f32).to_le_bytes()); // vox_offset
    put(112, &1.0_f32.to_le_bytes()); // scl_slope
    put(123, &[2]); // xyzt_units: millimetres
    put(254, &2_i16.to_le_bytes()); // sform_code: aligned to another scan
    for (index, entry) in affine[..3].iter().flatten().enumerate() {
        put(280 + 4 * index, &(*entry as f32).to_le_bytes()); // srow_x, srow_y, srow_z
    }
    put(344, b"n+1\0"); // magic
    header
}
