//! An array of numbers as a file holds it, and the names under which arrays are stored.

/// The array that holds the volume.
pub(crate) const VOLUME: &str = "volume";
/// The array that holds voxel to millimetres, shape `[4, 4]`; optional.
pub(crate) const AFFINE: &str = "affine";

/// An array of any rank, last axis fastest; an axis may be empty.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Array<T> {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<T>,
}
