//! Reading NIfTI files.

use crate::error::DataError;
use crate::formats::file::{self, Source};
use crate::formats::nifti::header::Header;
use crate::formats::nifti::layout::{self, EXPORT_AGAIN, EXTENDER_BYTES, LONGEST_AXIS};
use crate::formats::voxels::{NumberType, Stored};
use crate::volumes::Volume;
use crate::volumes::affine::{self, Affine, IDENTITY};
use ndarray::{Array4, ShapeBuilder};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Reads a volume and brings it to RAS order; errors name the file that is wrong, of a pair either of the two.
pub(crate) fn read(path: &Path) -> Result<Volume, DataError> {
    let named = |error: DataError| error.at(path);
    let Source { mut reader, at_most } = file::open(path)?;
    let header = Header::read(path, &mut reader).map_err(named)?;
    if !header.is_pair {
        return read_voxels(path, &header, header.length, reader, at_most).map_err(named);
    }
    let image = image_of(path).map_err(named)?;
    let Source { reader, at_most } = file::open(&image)?;
    read_voxels(&image, &header, 0, reader, at_most).map_err(|error| error.at(&image))
}

/// The file with the voxels that belong to a `.hdr`.
fn image_of(header: &Path) -> Result<PathBuf, DataError> {
    let found = || format!("the header of a .hdr/.img pair in {}", header.display());
    if !header.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("hdr")) {
        let expected = "a header with voxels behind it, or a name that ends in .hdr";
        return Err(DataError::malformed(expected, found(), "Rename the header to .hdr and keep its .img beside it."));
    }
    let images = ["img", "img.gz", "IMG"].map(|ending| header.with_extension(ending));
    let image = images.iter().find(|image| image.is_file()).cloned();
    let remedy = "Copy the .img of the same name beside it.";
    image.ok_or_else(|| DataError::malformed("an .img or .img.gz beside the header", "none", remedy))
}

/// Reads the voxels of a header from a file of which `passed` bytes are read.
fn read_voxels(
    path: &Path,
    header: &Header,
    passed: u64,
    mut reader: Box<dyn Read>,
    at_most: u64,
) -> Result<Volume, DataError> {
    let shape = shape(header)?;
    let number = number_type(header)?;
    skip_to_voxels(path, header, passed, &mut reader)?;
    let (slope, intercept) = scaling(header);
    let stored = Stored { number, is_big_endian: header.is_big_endian, slope, intercept };
    let values = stored.read(path, &shape, &mut reader, at_most)?;
    let [x, y, z, channels] = shape;
    let values = Array4::from_shape_vec((x, y, z, channels).f(), values).expect("as many voxels as the shape has");
    Volume::from_file_axes(values.view().permuted_axes([3, 0, 1, 2]), affine_in_millimetres(header)?)
}

/// `[x, y, z, channels]` as in the file.
fn shape(header: &Header) -> Result<[usize; 4], DataError> {
    let axes = header.dim[0];
    if axes != 3 && axes != 4 {
        let remedy = "Save each 3D image, or one 4D image with channels last, to a file of its own.";
        return Err(DataError::malformed("3 or 4 axes", format!("{axes}"), remedy));
    }
    let mut shape = [1; 4];
    for (axis, length) in shape.iter_mut().enumerate().take(axes as usize) {
        let found = header.dim[axis + 1];
        if !(1..=LONGEST_AXIS as i64).contains(&found) {
            let expected = format!("1 to {LONGEST_AXIS} voxels along axis {}", axis + 1);
            return Err(DataError::malformed(expected, found.to_string(), EXPORT_AGAIN));
        }
        *length = found as usize;
    }
    Ok(shape)
}

fn number_type(header: &Header) -> Result<NumberType, DataError> {
    layout::number_type(header.datatype).ok_or_else(|| {
        DataError::malformed(
            "integers of 8 to 64 bits or floats of 32 or 64 bits",
            format!("data type {}", header.datatype),
            "Convert the image to floats; colours and complex numbers are no volume.",
        )
    })
}

fn skip_to_voxels(path: &Path, header: &Header, passed: u64, reader: &mut dyn Read) -> Result<(), DataError> {
    let first = if header.is_pair { 0 } else { header.length + EXTENDER_BYTES };
    let offset = match header.vox_offset {
        0.0 => first, // some writers leave it at 0
        offset if offset >= first as f64 && offset <= 1e9 => offset as u64,
        offset => {
            let expected = format!("voxels that start at byte {first} or later");
            return Err(DataError::malformed(expected, format!("byte {offset}"), EXPORT_AGAIN));
        }
    };
    let skipped = offset - passed;
    let found = io::copy(&mut reader.take(skipped), &mut io::sink()).map_err(|error| file::read_failed(path, error))?;
    match found == skipped {
        true => Ok(()),
        false => Err(file::read_failed(path, io::ErrorKind::UnexpectedEof.into())),
    }
}

/// Slope and intercept; a slope of 0 means that the voxels are the values.
fn scaling(header: &Header) -> (f64, f64) {
    let (slope, intercept) = (header.slope, header.intercept);
    match slope != 0.0 && slope.is_finite() && intercept.is_finite() {
        true => (slope, intercept),
        false => (1.0, 0.0),
    }
}

fn affine_in_millimetres(header: &Header) -> Result<Affine, DataError> {
    let [x, y, z, last] = best_affine(header)?;
    let [x, y, z] = [x, y, z].map(|row| row.map(|length| length * header.millimetres));
    Ok([x, y, z, last])
}

/// The first of sform and qform that places every voxel, in the header's unit; voxel sizes where the header names neither.
fn best_affine(header: &Header) -> Result<Affine, DataError> {
    let [x, y, z] = header.sform;
    let sform = [x, y, z, IDENTITY[3]];
    let named = [
        (header.sform_code > 0).then_some(("sform", sform)),
        (header.qform_code > 0).then(|| ("qform", quaternion_affine(header))),
    ];
    let named: Vec<(&str, Affine)> = named.into_iter().flatten().collect();
    if let Some((_, sound)) = named.iter().find(|(_, affine)| affine::is_sound(affine)) {
        return Ok(*sound);
    }
    if let Some((name, broken)) = named.first() {
        // with voxel sizes alone the volume would lie at the origin, as if the header said nothing
        let expected = format!("a place for every voxel, as the header's {name} says it has");
        let remedy = "Export the volume again, or set sform_code and qform_code to 0 if only its voxel sizes matter.";
        return Err(DataError::malformed(expected, format!("{:?}", &broken[..3]), remedy));
    }
    Some(voxel_size_affine(header)).filter(affine::is_sound).ok_or_else(|| {
        let found = format!("{:?}", &header.pixdim[1..4]);
        DataError::malformed("positive voxel sizes (pixdim)", found, EXPORT_AGAIN)
    })
}

/// Method 2 of the NIfTI format.
fn quaternion_affine(header: &Header) -> Affine {
    let [b, c, d] = header.quaternion;
    let rest = 1.0 - (b * b + c * c + d * d);
    // Beyond the unit sphere only by rounding: a half turn about the axis (b, c, d).
    let (a, length) = if rest > 1e-7 { (rest.sqrt(), 1.0) } else { (0.0, (1.0 - rest).sqrt()) };
    let [b, c, d] = [b, c, d].map(|part| part / length);
    let [x, y, z] = header.origin;
    let rotation = [
        [a * a + b * b - c * c - d * d, 2.0 * (b * c - a * d), 2.0 * (b * d + a * c), x],
        [2.0 * (b * c + a * d), a * a + c * c - b * b - d * d, 2.0 * (c * d - a * b), y],
        [2.0 * (b * d - a * c), 2.0 * (c * d + a * b), a * a + d * d - b * b - c * c, z],
        IDENTITY[3],
    ];
    let handedness = if header.pixdim[0] < 0.0 { -1.0 } else { 1.0 };
    let [i, j, k] = voxel_sizes(header);
    affine::subgrid(&rotation, [0.0; 3], [i, j, k * handedness])
}

/// Method 1 of the NIfTI format: no orientation is known, the axes count as RAS.
fn voxel_size_affine(header: &Header) -> Affine {
    affine::subgrid(&IDENTITY, [0.0; 3], voxel_sizes(header))
}

fn voxel_sizes(header: &Header) -> [f64; 3] {
    [1, 2, 3].map(|axis| header.pixdim[axis].abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::affine::place;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::fs;
    use std::io::Write;

    /// A header in either byte order, and voxels after it.
    struct Handmade {
        big: bool,
        bytes: Vec<u8>,
    }

    impl Handmade {
        fn new(big: bool, dim: &[i16], datatype: i16, voxels: &[u8]) -> Self {
            let mut file = Self { big, bytes: vec![0; 352] };
            file.put(0, &[348_i32]).put(40, &[dim.len() as i16]).put(42, dim);
            file.put(70, &[datatype]).put(76, &[1.0_f32, 1.0, 2.0, 3.0]).put(108, &[352.0_f32]);
            file.bytes[344..348].copy_from_slice(b"n+1\0");
            file.bytes.extend(voxels);
            file
        }

        fn put<T: Number>(&mut self, offset: usize, values: &[T]) -> &mut Self {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.bytes(self.big)).collect();
            self.bytes[offset..offset + bytes.len()].copy_from_slice(&bytes);
            self
        }

        fn read(&self) -> Result<Volume, DataError> {
            read_bytes("v.nii", &self.bytes)
        }

        fn fails(&self, with: &str) {
            let error = self.read().unwrap_err();
            assert!(error.is_malformed(), "{error}");
            assert!(error.to_string().contains(with), "{error}");
        }
    }

    trait Number: Copy {
        const CODE: i16;
        fn bytes(self, big: bool) -> Vec<u8>;
        fn from_small(value: i8) -> Self;
    }

    macro_rules! numbers {
        ($($number:ty: $code:literal),*) => {$(
            impl Number for $number {
                const CODE: i16 = $code;
                fn bytes(self, big: bool) -> Vec<u8> {
                    if big { self.to_be_bytes().to_vec() } else { self.to_le_bytes().to_vec() }
                }
                fn from_small(value: i8) -> Self {
                    value as $number
                }
            }
        )*};
    }
    numbers!(u8: 2, i16: 4, i32: 8, f32: 16, f64: 64, i8: 256, u16: 512, u32: 768, i64: 1024, u64: 1280);

    fn read_bytes(name: &str, bytes: &[u8]) -> Result<Volume, DataError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        Volume::read(&path)
    }

    fn sound() -> Handmade {
        Handmade::new(false, &[2, 1, 1], 2, &[3, 4])
    }

    fn reads_type<T: Number>() {
        for big in [false, true] {
            let lowest = if T::from_small(-1).bytes(false) == T::from_small(0).bytes(false) { 0 } else { 1 };
            let voxels: Vec<u8> = (lowest..lowest + 6).flat_map(|value| T::from_small(value).bytes(big)).collect();
            let mut file = Handmade::new(big, &[3, 2, 1], T::CODE, &voxels);
            let volume = file.read().unwrap();
            assert_eq!(volume.shape(), [1, 3, 2, 1]);
            // x is fastest in the file, z in the volume.
            let expected = [0, 3, 1, 4, 2, 5].map(|value: i8| f32::from(value + lowest));
            assert_eq!(volume.data(), expected, "type {} big {big}", T::CODE);
            file.put(112, &[0.5_f32, -2.0]);
            assert_eq!(file.read().unwrap().data(), expected.map(|value| value * 0.5 - 2.0));
        }
    }

    #[test]
    fn every_type_and_byte_order() {
        reads_type::<u8>();
        reads_type::<i8>();
        reads_type::<u16>();
        reads_type::<i16>();
        reads_type::<u32>();
        reads_type::<i32>();
        reads_type::<u64>();
        reads_type::<i64>();
        reads_type::<f32>();
        reads_type::<f64>();
        let negative = Handmade::new(true, &[1, 1, 1], 4, &(-300_i16).to_be_bytes());
        assert_eq!(negative.read().unwrap().data(), [-300.0]);
    }

    #[test]
    fn the_fourth_axis_becomes_channels() {
        let volume = Handmade::new(false, &[2, 1, 1, 3], 2, &[0, 1, 2, 3, 4, 5]).read().unwrap();
        assert_eq!((volume.shape(), volume.data()), ([3, 2, 1, 1], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0][..]));
        assert_eq!(volume.spacing(), [1.0, 2.0, 3.0]);
    }

    #[test]
    fn sform_then_qform_then_voxel_sizes() {
        let mut file = sound();
        assert_eq!(place(file.read().unwrap().affine(), [1, 0, 0]), [1.0, 0.0, 0.0]);
        // A half turn about z: right and front become left and back; qfac mirrors z.
        file.put(252, &[1_i16, 0]).put(256, &[0.0_f32, 0.0, 1.0, 10.0, 20.0, 30.0]).put(76, &[-1.0_f32]);
        let volume = file.read().unwrap();
        assert_eq!(volume.original_orientation().codes(), "LPI");
        assert_eq!(volume.data(), [4.0, 3.0]);
        assert_eq!(place(volume.affine(), [1, 0, 0]), [10.0, 20.0, 30.0]);
        assert_eq!(volume.into_original_orientation().unwrap().data(), [3.0, 4.0]);
        // The sform goes before it, unless it is flat.
        file.put(254, &[1_i16])
            .put(280, &[[4.0_f32, 0.0, 0.0, 1.0], [0.0, 5.0, 0.0, 2.0], [0.0, 0.0, 6.0, 3.0]].concat());
        assert_eq!(file.read().unwrap().spacing(), [4.0, 5.0, 6.0]);
        file.put(280, &[0.0_f32; 12]);
        assert_eq!(file.read().unwrap().spacing(), [1.0, 2.0, 3.0]);
    }

    #[test]
    fn lengths_are_in_the_unit_of_the_header() {
        // the bits above the lowest three are the unit of time
        for (units, factor) in [(0_u8, 1.0), (2, 1.0), (3, 1e-3), (8 + 3, 1e-3), (1, 1e3), (16 + 1, 1e3)] {
            let mut file = sound();
            file.bytes[123] = units;
            let check = |file: &Handmade, affine: [[f64; 4]; 3]| {
                let volume = file.read().unwrap();
                for (found, expected) in volume.affine().as_flattened().iter().zip(affine.as_flattened()) {
                    assert!((found - factor * expected).abs() < 1e-12 * factor, "{units}: {:?}", volume.affine());
                }
            };
            check(&file, [[1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0]]);
            file.put(252, &[1_i16, 0]).put(268, &[10.0_f32, 20.0, 30.0]);
            check(&file, [[1.0, 0.0, 0.0, 10.0], [0.0, 2.0, 0.0, 20.0], [0.0, 0.0, 3.0, 30.0]]);
            let sform = [[4.0_f32, 0.0, 0.0, 1.0], [0.0, 5.0, 0.0, 2.0], [0.0, 0.0, 6.0, 3.0]];
            file.put(254, &[1_i16]).put(280, sform.as_flattened());
            check(&file, sform.map(|row| row.map(f64::from)));
        }
    }

    #[test]
    fn a_place_that_is_no_place_is_an_error() {
        for broken in [[f32::NAN; 12], [0.0; 12], [1.0; 12]] {
            let mut file = sound();
            file.put(252, &[0_i16, 1]).put(280, &broken);
            let error = file.read().unwrap_err().to_string();
            assert!(error.contains("sform") && error.contains("sform_code"), "{error}");
            file.put(254, &[0_i16]);
            assert_eq!(file.read().unwrap().spacing(), [1.0, 2.0, 3.0], "what is not named does not matter");
        }
    }

    #[test]
    fn quaternions_turn_the_right_way() {
        let codes = |parts: [f32; 3]| {
            let mut file = sound();
            file.put(252, &[1_i16]).put(256, &parts);
            file.read().unwrap().original_orientation().codes()
        };
        let quarter = 0.5_f32.sqrt();
        assert_eq!(codes([quarter, 0.0, 0.0]), "RSP");
        assert_eq!(codes([0.0, quarter, 0.0]), "IAR");
        assert_eq!(codes([0.0, 0.0, quarter]), "ALS");
        // Rounding may carry a half turn past the unit sphere.
        assert_eq!(codes([0.0, 0.0, 1.000_000_1]), "LPS");
    }

    #[test]
    fn broken_headers_have_errors_of_their_own() {
        sound().put(344, &[0_i32]).fails("magic");
        sound().put(0, &[540_i32]).fails("cut short");
        sound().put(0, &[17_i32]).fails("17 bytes");
        sound().put(344, &[i32::from_le_bytes(*b"ni1\0")]).fails(".hdr/.img");
        sound().put(40, &[5_i16, 2, 1, 1, 1, 1]).fails("found 5");
        sound().put(40, &[2_i16]).fails("found 2");
        sound().put(44, &[0_i16]).fails("along axis 2, found 0");
        sound().put(44, &[-4_i16]).fails("found -4");
        sound().put(70, &[128_i16]).fails("data type 128");
        sound().put(70, &[99_i16]).fails("data type 99");
        sound().put(108, &[f32::NAN]).fails("byte NaN");
        sound().put(108, &[100.0_f32]).fails("byte 100");
        sound().put(108, &[1e8_f32]).fails("cut short");
        sound().put(80, &[0.0_f32]).fails("pixdim");
        sound().put(42, &[2_i16, 2, 2]).fails("cut short");
        sound().put(42, &[30000_i16, 3, 1]).fails("at most");
        let huge = sound().put(42, &[32767_i16; 3]).read().unwrap_err();
        assert!(huge.is_too_large(), "{huge}");
        let nan = Handmade::new(false, &[1, 1, 1], 16, &f32::NAN.to_le_bytes()).read().unwrap_err();
        assert!(nan.is_not_finite() && nan.to_string().contains("v.nii"), "{nan}");
        // Wrong bit counts and a zero offset are common and harmless.
        assert!(sound().put(72, &[-7_i16]).put(108, &[0.0_f32]).read().is_ok());
    }

    #[test]
    fn gzip_is_known_by_its_bytes_and_its_sum_is_checked() {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(&sound().bytes).unwrap();
        let mut packed = packer.finish().unwrap();
        assert_eq!(read_bytes("v.nii", &packed).unwrap().data(), [3.0, 4.0]);
        assert_eq!(read_bytes("v.nii.gz", &sound().bytes).unwrap().data(), [3.0, 4.0]);
        let sum = packed.len() - 8;
        packed[sum] ^= 1;
        assert!(read_bytes("v.nii.gz", &packed).unwrap_err().to_string().contains("damaged"));
    }
}
