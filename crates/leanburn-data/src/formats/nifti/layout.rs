//! Sizes and limits of a NIfTI-1 file.

/// Length of the header.
pub(super) const HEADER_BYTES: usize = 348;
/// Where the voxels start when no extension follows the header.
pub(super) const FIRST_VOXEL: u64 = 352;
/// Lengths are signed 16-bit numbers in the file.
pub(super) const LONGEST_AXIS: usize = 32767;
