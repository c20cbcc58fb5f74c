//! NIfTI files: [NIfTI-1](https://nifti.nimh.nih.gov/pub/dist/src/niftilib/nifti1.h) and
//! [NIfTI-2](https://nifti.nimh.nih.gov/pub/dist/doc/nifti2.h), in one file or as a pair of `.hdr` and `.img`. Lengths
//! are read in the unit that a file names. Files are written as NIfTI-1 in one file, in millimetres.

mod header;
mod layout;
mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::{write, write_labels};
