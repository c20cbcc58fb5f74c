//! What a header says of the voxels, and reading them.

use super::lines::{Lines, malformed};
use crate::error::DataError;
use crate::formats::file::{self, LARGEST_EXPANSION};
use crate::formats::voxels::Stored;
use crate::volumes::affine::{Affine, IDENTITY};
use crate::volumes::{Volume, count};
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use ndarray::{Array4, ShapeBuilder};
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

/// How the voxels are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Raw,
    Gzip,
    Zlib,
}

/// What comes before the voxels in their file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skip {
    Bytes(u64),
    /// All but the voxels, which end the file.
    ToTheEnd,
}

/// An image as a header describes it.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) stored: Stored,
    /// Lengths of the axes, the fastest first.
    pub(super) sizes: Vec<usize>,
    /// The axis of the channels among them; none of an image of one channel and three axes.
    pub(super) channel_axis: Option<usize>,
    /// Voxels to millimetres, to the right, the front and the top.
    pub(super) affine: Affine,
    /// The file with the voxels, beside the header; none where they follow it.
    pub(super) file: Option<String>,
    pub(super) packing: Packing,
    /// Lines before the voxels in their file, and then bytes.
    pub(super) line_skip: u64,
    pub(super) skip: Skip,
}

impl Image {
    /// Reads the voxels behind a header, or in the file that it names.
    pub(super) fn read(&self, header: &Path, lines: Lines) -> Result<Volume, DataError> {
        let Some(name) = &self.file else { return self.read_here(header, lines) };
        let path: PathBuf = header.parent().unwrap_or(Path::new("")).join(name);
        if !path.is_file() {
            let expected = format!("the voxels in {}, which the header names", path.display());
            return Err(DataError::malformed(expected, "no such file", "Copy it beside the header.").at(header));
        }
        let voxels = Lines::open(&path)?;
        self.read_here(&path, voxels)
    }

    fn read_here(&self, path: &Path, lines: Lines) -> Result<Volume, DataError> {
        self.voxels(path, lines).and_then(|values| self.volume(values)).map_err(|error| error.at(path))
    }

    /// The values in the order of the file.
    fn voxels(&self, path: &Path, mut lines: Lines) -> Result<Vec<f32>, DataError> {
        for skipped in 0..self.line_skip {
            let bytes = lines.reader.skip_until(b'\n').map_err(|error| file::read_failed(path, error))?;
            if bytes == 0 {
                let expected = format!("at most {skipped}, as many as there are");
                return Err(malformed("line skip", &expected, &self.line_skip.to_string()));
            }
            lines.passed += bytes as u64;
        }
        let needed = count(&self.sizes)? as u64 * self.stored.number.size() as u64;
        let left = lines.length.saturating_sub(lines.passed);
        let skip = match self.skip {
            Skip::Bytes(bytes) => bytes,
            Skip::ToTheEnd => left.saturating_sub(needed),
        };
        let (mut reader, left): (Box<dyn Read>, u64) = match self.packing {
            Packing::Raw => (Box::new(lines.reader), left),
            Packing::Gzip => (Box::new(MultiGzDecoder::new(lines.reader)), left.saturating_mul(LARGEST_EXPANSION)),
            Packing::Zlib => (Box::new(ZlibDecoder::new(lines.reader)), left.saturating_mul(LARGEST_EXPANSION)),
        };
        io::copy(&mut (&mut reader).take(skip), &mut io::sink()).map_err(|error| file::read_failed(path, error))?;
        self.stored.read(path, &self.sizes, &mut reader, left.saturating_sub(skip))
    }

    fn volume(&self, values: Vec<f32>) -> Result<Volume, DataError> {
        let channels = self.channel_axis.map_or(1, |axis| self.sizes[axis]);
        let spatial: Vec<usize> = (0..self.sizes.len()).filter(|axis| Some(*axis) != self.channel_axis).collect();
        let [x, y, z] = spatial[..] else {
            let found = format!("{:?}", self.sizes);
            return Err(malformed("sizes", "three axes of space, and at most one of channels", &found));
        };
        // axes of the file in its order, then [channels, x, y, z]
        let whole = match self.channel_axis {
            Some(_) => [self.sizes[0], self.sizes[1], self.sizes[2], self.sizes[3]],
            None => [self.sizes[0], self.sizes[1], self.sizes[2], channels],
        };
        let channel_axis = self.channel_axis.unwrap_or(3);
        let values = Array4::from_shape_vec(ShapeBuilder::f(whole), values).expect("as many voxels as the sizes have");
        Volume::from_file_axes(values.view().permuted_axes([channel_axis, x, y, z]), self.affine)
    }
}

/// The affine of axes that step along `directions`, from `origin`. World axes run as `signs` say: -1 where to the left or the back.
pub(super) fn affine(directions: [[f64; 3]; 3], origin: [f64; 3], signs: [f64; 3]) -> Affine {
    let mut affine = IDENTITY;
    for world in 0..3 {
        for (axis, direction) in directions.iter().enumerate() {
            affine[world][axis] = signs[world] * direction[world];
        }
        affine[world][3] = signs[world] * origin[world];
    }
    affine
}

/// Signs of a world whose axes run to the left, the back and the top, in RAS.
pub(super) const LPS: [f64; 3] = [-1.0, -1.0, 1.0];
