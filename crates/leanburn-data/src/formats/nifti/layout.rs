//! Sizes and limits of NIfTI files.

/// Length of the header of NIfTI-1.
pub(super) const HEADER_BYTES: usize = 348;
/// Where the voxels start when no extension follows the header of NIfTI-1.
pub(super) const FIRST_VOXEL: u64 = 352;
/// Bytes between a header and what may follow it: whether there are extensions.
pub(super) const EXTENDER_BYTES: u64 = 4;
/// Lengths are signed 16-bit numbers in NIfTI-1; longer axes of NIfTI-2 are rejected.
pub(super) const LONGEST_AXIS: usize = 32767;

pub(super) const EXPORT_AGAIN: &str = "Export the volume again as NIfTI (.nii or .nii.gz).";
