//! Writing NRRD and MetaImage files, header and voxels in one.

use super::TextHeader;
use super::image::LPS;
use crate::error::DataError;
use crate::formats::file;
use crate::formats::voxels::{PACKED, write_values};
use crate::volumes::affine::{Affine, spacing};
use crate::volumes::{LabelMap, Volume};
use flate2::write::GzEncoder;
use ndarray::ArrayView4;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes 32-bit floats; one channel as 3D, several as 4D, the channels last.
pub(crate) fn write(volume: &Volume, path: &Path, format: TextHeader) -> Result<(), DataError> {
    let values = |output: &mut dyn Write| write_values(volume.view(), |value| value.to_le_bytes(), output);
    let header = header(format, volume.shape(), volume.affine(), ["float", "MET_FLOAT"]);
    write_file(path, format, &header, values)
}

/// Writes 8-bit integers as 3D.
pub(crate) fn write_labels(labels: &LabelMap, path: &Path, format: TextHeader) -> Result<(), DataError> {
    let [x, y, z] = labels.extent();
    let shape = [1, x, y, z];
    let view = ArrayView4::from_shape(shape, labels.data()).expect("the constructor checked the length");
    let values = |output: &mut dyn Write| write_values(view, |label| [label], output);
    write_file(path, format, &header(format, shape, labels.affine(), ["uint8", "MET_UCHAR"]), values)
}

/// Replaces `path` by a header and what `values` writes after it: packed in NRRD, as 3D Slicer does it, as it is in MetaImage.
fn write_file(
    path: &Path,
    format: TextHeader,
    header: &str,
    values: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<(), DataError> {
    let suffix = match format {
        TextHeader::Nrrd => ".nrrd",
        TextHeader::MetaImage => ".mha",
    };
    file::replace(path, suffix, |file, _| {
        let mut file = BufWriter::new(file);
        file.write_all(header.as_bytes())?;
        match format {
            TextHeader::Nrrd => {
                let mut packer = BufWriter::new(GzEncoder::new(&mut file, PACKED));
                values(&mut packer)?;
                packer.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
            }
            TextHeader::MetaImage => values(&mut file)?,
        }
        file.flush()
    })
}

/// The header of a shape `[channels, x, y, z]`; `types` are the names that NRRD and MetaImage have for the numbers.
fn header(format: TextHeader, shape: [usize; 4], affine: &Affine, types: [&str; 2]) -> String {
    let [channels, x, y, z] = shape;
    let several = channels > 1;
    let sizes = if several { joined([x, y, z, channels]) } else { joined([x, y, z]) };
    let columns = [0, 1, 2, 3].map(|axis| [0, 1, 2].map(|world| LPS[world] * affine[world][axis]));
    let axes = if several { 4 } else { 3 };
    match format {
        TextHeader::Nrrd => {
            let vector = |column: [f64; 3]| format!("({})", column.map(|entry| format!("{entry:?}")).join(","));
            let [right, front, top, origin] = columns.map(vector);
            let (none, list) = if several { (" none", " list") } else { ("", "") };
            format!(
                "NRRD0004\ntype: {}\ndimension: {axes}\nspace: left-posterior-superior\nsizes: {sizes}\n\
                 space directions: {right} {front} {top}{none}\nkinds: domain domain domain{list}\nendian: little\n\
                 encoding: gzip\nspace origin: {origin}\n\n",
                types[0]
            )
        }
        TextHeader::MetaImage => {
            let spacing = spacing(affine);
            let mut matrix = vec![0.0; axes * axes];
            matrix[axes * axes - 1] = 1.0; // of the channels; an axis of space is written over it
            for (axis, column) in columns[..3].iter().enumerate() {
                (0..3).for_each(|world| matrix[axis * axes + world] = column[world] / spacing[axis]);
            }
            let (one, zero) = if several { (" 1", " 0") } else { ("", "") };
            format!(
                "ObjectType = Image\nNDims = {axes}\nBinaryData = True\nBinaryDataByteOrderMSB = False\n\
                 CompressedData = False\nTransformMatrix = {}\nOffset = {}{zero}\nElementSpacing = {}{one}\n\
                 DimSize = {sizes}\nElementType = {}\nElementDataFile = LOCAL\n",
                joined(matrix),
                joined(columns[3]),
                joined(spacing),
                types[1]
            )
        }
    }
}

fn joined<T: std::fmt::Debug>(numbers: impl IntoIterator<Item = T>) -> String {
    numbers.into_iter().map(|number| format!("{number:?}")).collect::<Vec<_>>().join(" ")
}
