//! The volumes that come with the command, so that its recipes can be tried in an empty folder.

use std::fs;
use std::path::{Path, PathBuf};

use leanburn_systems::Recipe;

use super::output::{Force, Output};
use crate::console::print_line;
use crate::error::Result;

/// A file that comes with the command.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Its path in recipes.
    path: &'static str,
    bytes: &'static [u8],
}

macro_rules! samples {
    ($($name:literal),+) => {
        [$(Sample { path: concat!("data/", $name), bytes: include_bytes!(concat!("../../sample/", $name)) }),+]
    };
}

/// The volumes.
const VOLUMES: [Sample; 3] =
    samples!["mni152_2009a_t1_1mm.nii.gz", "mni152_2009a_gm_1mm.nii.gz", "mni152_2009a_wm_1mm.nii.gz"];

/// The notice that a copy of them keeps beside it.
const NOTICE: Sample = Sample { path: "data/mni152_2009a_notice.md", bytes: include_bytes!("../../sample/README.md") };

/// The files of a recipe that are to be written: those that are there as they should be are left alone.
///
/// # Errors
///
/// [`SystemError::Input`](leanburn_systems::SystemError::Input) where something else lies in the place of one.
pub(super) fn outputs(recipe: &Recipe, force: Force) -> Result<Vec<(Output, &'static [u8])>> {
    let named: Vec<Sample> = VOLUMES.into_iter().filter(|sample| recipe.text.contains(sample.path)).collect();
    let notice = (!named.is_empty()).then_some(NOTICE);
    let missing = named
        .into_iter()
        .chain(notice)
        .filter(|Sample { path, bytes }| fs::read(path).map_or(true, |there| there != *bytes));
    let output = |Sample { path, bytes }| Ok((Output::in_new_folder(Path::new(path), &no_inputs(), force)?, bytes));
    missing.map(output).collect()
}

/// Writes what [`outputs`] has found to write.
///
/// # Errors
///
/// If a file cannot be written.
pub(super) fn write(outputs: Vec<(Output, &'static [u8])>) -> Result<()> {
    for (output, bytes) in outputs {
        output.write_bytes(bytes)?;
        print_line(format_args!("{}", output.path().display()))?;
    }
    Ok(())
}

fn no_inputs() -> std::rc::Rc<[PathBuf]> {
    Vec::new().into()
}
