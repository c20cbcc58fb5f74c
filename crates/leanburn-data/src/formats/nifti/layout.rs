//! Sizes, limits and codes of NIfTI files.

use crate::formats::voxels::NumberType;

/// Length of the header of NIfTI-1.
pub(super) const HEADER_BYTES: usize = 348;
/// Where the voxels start when no extension follows the header of NIfTI-1.
pub(super) const FIRST_VOXEL: u64 = 352;
/// Bytes between a header and what may follow it: whether there are extensions.
pub(super) const EXTENDER_BYTES: u64 = 4;
/// Lengths are signed 16-bit numbers in NIfTI-1; longer axes of NIfTI-2 are rejected.
pub(super) const LONGEST_AXIS: usize = 32767;

pub(super) const EXPORT_AGAIN: &str = "Export the volume again as NIfTI (.nii or .nii.gz).";

/// The codes of the types that voxels may have.
const TYPES: [(i16, NumberType); 10] = [
    (2, NumberType::Uint8),
    (256, NumberType::Int8),
    (512, NumberType::Uint16),
    (4, NumberType::Int16),
    (768, NumberType::Uint32),
    (8, NumberType::Int32),
    (1280, NumberType::Uint64),
    (1024, NumberType::Int64),
    (16, NumberType::Float32),
    (64, NumberType::Float64),
];

/// The type that a code stands for; none for colours, complex numbers and wider types.
pub(super) fn number_type(code: i16) -> Option<NumberType> {
    TYPES.iter().find(|(known, _)| *known == code).map(|(_, number)| *number)
}

/// Millimetres in the unit of length that the lowest three bits of `xyzt_units` name: metres or micrometres. Without one, or with a
/// code that the format does not define, lengths are millimetres.
pub(super) fn millimetres(xyzt_units: i32) -> f64 {
    match xyzt_units & 0b111 {
        1 => 1e3,
        3 => 1e-3,
        _ => 1.0,
    }
}

/// The code of a type.
pub(super) fn code(number: NumberType) -> i16 {
    TYPES.iter().find(|(_, known)| *known == number).map(|(code, _)| *code).expect("every type has a code")
}
