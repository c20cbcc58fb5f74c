//! Sizes, limits and codes of NIfTI files.

use crate::formats::voxels::NumberType;
use nifti::NiftiType;

/// Length of the header of NIfTI-1.
pub(super) const HEADER_BYTES: usize = 348;
/// Where the voxels start when no extension follows the header of NIfTI-1.
pub(super) const FIRST_VOXEL: u64 = 352;
/// Bytes between a header and what may follow it: whether there are extensions.
pub(super) const EXTENDER_BYTES: u64 = 4;
/// Lengths are signed 16-bit numbers in NIfTI-1; longer axes of NIfTI-2 are rejected.
pub(super) const LONGEST_AXIS: usize = 32767;

pub(super) const EXPORT_AGAIN: &str = "Export the volume again as NIfTI (.nii or .nii.gz).";

/// The types that voxels may have, as the crate codes them and as we read them.
const TYPES: [(NiftiType, NumberType); 10] = [
    (NiftiType::Uint8, NumberType::Uint8),
    (NiftiType::Int8, NumberType::Int8),
    (NiftiType::Uint16, NumberType::Uint16),
    (NiftiType::Int16, NumberType::Int16),
    (NiftiType::Uint32, NumberType::Uint32),
    (NiftiType::Int32, NumberType::Int32),
    (NiftiType::Uint64, NumberType::Uint64),
    (NiftiType::Int64, NumberType::Int64),
    (NiftiType::Float32, NumberType::Float32),
    (NiftiType::Float64, NumberType::Float64),
];

/// The type that a code stands for; none for colours, complex numbers and wider types.
pub(super) fn number_type(code: i16) -> Option<NumberType> {
    TYPES.iter().find(|(known, _)| *known as i16 == code).map(|(_, number)| *number)
}

/// The code of a type.
pub(super) fn code(number: NumberType) -> i16 {
    TYPES.iter().find(|(_, known)| *known == number).map(|(code, _)| *code as i16).expect("every type has a code")
}
