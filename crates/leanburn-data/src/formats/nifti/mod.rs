//! NIfTI-1 files. Format: [NIfTI-1](https://nifti.nimh.nih.gov/pub/dist/src/niftilib/nifti1.h).

mod layout;
mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::{write, write_labels};
