//! The files that a command goes through, and those that it makes of them: shared by `reconstruct`, `encode`, `decode` and `segment`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use leanburn_data::{Format, find_volumes, matches};
use leanburn_systems::SystemError;

use super::or_too_large;
use super::output::{Force, Output};
use super::trained::ModelArguments;
use crate::console::print_line;
use crate::error::{CommandError, Result};

/// What goes in, and where what is made of it goes.
#[derive(Debug, Args)]
pub(super) struct Files {
    /// What goes in, and last the file for what is made of it. Inputs are files (.nii, .nii.gz, .hdr with its .img, .nrrd, .nhdr, .mha, .mhd, .npy, .npz, .safetensors, .nc, .h5 or .mat), folders of DICOM slices, or folders of these,
    /// which are searched to the bottom, or quoted patterns such as 'scans/*_t1.nii.gz'. Of several inputs or a folder, OUT is the folder for the files, made if need be: they have
    /// the names of the inputs, and lie as these do in their folder.
    #[arg(required = true, value_name = "INPUT... OUT")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Pass over inputs whose output is there already, as to go on where a batch stopped. Outputs are whole or not there.
    #[arg(long, conflicts_with = "force")]
    skip_existing: bool,
}

/// An input and what is made of it.
#[derive(Debug)]
pub(super) struct Job {
    pub input: PathBuf,
    pub out: PathBuf,
    pub output: Output,
}

impl Files {
    /// What there is to do, checked before anything is computed. Files in a folder end in `ending`, or as their inputs.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`] if an output may not be written or two are one, and if an input is missing.
    pub fn jobs(&self, model: &ModelArguments, ending: Option<&str>) -> Result<Vec<Job>> {
        let (given, out) = self.split()?;
        let is_pattern = given.iter().any(|input| matches(input).is_some());
        let named = &expanded(given)?[..];
        let is_folder =
            is_pattern || named.len() > 1 || named.iter().any(|input| is_folder_of_volumes(input)) || names_folder(out);
        let pairs = match is_folder {
            true => pairs(named, out, ending)?,
            false => named.iter().map(|input| (input.clone(), out.to_path_buf())).collect(),
        };
        let mut inputs: Vec<PathBuf> = pairs.iter().map(|(input, _)| input.clone()).collect();
        inputs.extend(model.files());
        let inputs: Rc<[PathBuf]> = inputs.into();
        let (mut jobs, all) = (Vec::new(), pairs.len());
        for (input, out) in pairs {
            Format::of_output(&out)?;
            if self.skip_existing && out.is_file() {
                Output::new(&out, &inputs, Force::FORCE)?; // it may not be an input
                continue;
            }
            let output = match is_folder {
                true => Output::in_new_folder(&out, &inputs, self.force)?,
                false => Output::new(&out, &inputs, self.force)?,
            };
            jobs.push(Job { input, out, output });
        }
        if jobs.len() < all {
            print_line(format_args!("{} of {all} outputs are there already", all - jobs.len()))?;
        }
        Ok(jobs)
    }

    /// The inputs and the output.
    fn split(&self) -> Result<(&[PathBuf], &Path)> {
        match &self.paths[..] {
            [inputs @ .., out] if !inputs.is_empty() => Ok((inputs, out)),
            paths => Err(SystemError::Input {
                subject: "arguments".into(),
                expected: "WEIGHTS INPUT... OUT".into(),
                found: format!(
                    "WEIGHTS and {}",
                    paths.iter().map(|path| path.display().to_string()).collect::<String>()
                ),
                remedy: "name the output after the inputs: a file, or a folder for several".into(),
            }
            .into()),
        }
    }
}

/// Inputs with patterns replaced by what they match.
fn expanded(inputs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let expand = |input: &PathBuf| match matches(input) {
        Some(_) => find_volumes(std::slice::from_ref(input)),
        None => Ok(vec![input.clone()]),
    };
    let expanded: Vec<Vec<PathBuf>> = inputs.iter().map(expand).collect::<std::result::Result<_, _>>()?;
    Ok(expanded.concat())
}

/// Each input with its output in the folder `out`.
fn pairs(inputs: &[PathBuf], out: &Path, ending: Option<&str>) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut outputs: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for named in inputs {
        for input in find_volumes(std::slice::from_ref(named))? {
            let inside = input.strip_prefix(named).ok().filter(|inside| !inside.as_os_str().is_empty());
            let inside = inside.or_else(|| input.file_name().map(Path::new)).unwrap_or(&input);
            let ending = ending.or_else(|| Format::output_ending(&input));
            let made = out.join(ending.map_or_else(|| inside.to_path_buf(), |ending| renamed(inside, ending)));
            if let Some(other) = outputs.insert(made.clone(), input.clone()).filter(|other| *other != input) {
                return Err(SystemError::Input {
                    subject: made.display().to_string(),
                    expected: "one input that becomes this file".into(),
                    found: format!("{} and {}", other.display(), input.display()),
                    remedy: "run the command once for each, with other folders for the outputs".into(),
                }
                .into());
            }
        }
    }
    Ok(outputs.into_iter().map(|(out, input)| (input, out)).collect())
}

/// Whether an input is a folder with volumes in it, not one of DICOM slices, which is a volume itself.
fn is_folder_of_volumes(input: &Path) -> bool {
    input.is_dir() && find_volumes(&[input.to_path_buf()]).is_ok_and(|found| found != [input])
}

/// Whether an output is named as a folder.
fn names_folder(out: &Path) -> bool {
    let ends_in_separator = out.as_os_str().to_string_lossy().ends_with(std::path::is_separator);
    ends_in_separator || (out.is_dir() && Format::of(out).is_err())
}

/// Does `work` for each job and prints the line that it gives. One that fails, or does not fit into memory, does not keep the others from
/// being done.
///
/// # Errors
///
/// Those of all jobs that failed.
pub(super) fn run_all(jobs: Vec<Job>, mut work: impl FnMut(&Job) -> Result<String>) -> Result<()> {
    let mut errors = Vec::new();
    for job in jobs {
        match or_too_large(format_args!("{}: out of memory", job.input.display()), || work(&job)) {
            Ok(line) => print_line(format_args!("{}: {line}", job.out.display()))?,
            Err(error) => errors.push(error),
        }
    }
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(CommandError::Several(errors)),
    }
}

/// A path with another ending of a volume's file.
fn renamed(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{}{ending}", Format::stem(&name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_does_not_fit_into_memory_is_named_and_the_others_are_done() {
        let folder = tempfile::tempdir().unwrap();
        let job = |name: &str| {
            let out = folder.path().join(name);
            Job { input: name.into(), output: Output::new(&out, &[], Force::FORCE).unwrap(), out }
        };
        let mut seen = Vec::new();
        let done = run_all(["damaged.nii", "large.nii", "small.nii"].map(job).into(), |job| {
            seen.push(job.input.display().to_string());
            match seen.len() {
                1 => Err(CommandError::OverBudget),
                2 => panic!("out of memory: the system has no 4096 bytes for a result"),
                _ => Ok("done".into()),
            }
        });
        assert_eq!(seen, ["damaged.nii", "large.nii", "small.nii"]);
        let Err(CommandError::Several(errors)) = done else { panic!("two errors, not {done:?}") };
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors.len(), 2);
        assert!(errors[1].starts_with("large.nii: out of memory: ") && errors[1].contains("4096 bytes"), "{errors:?}");
    }
}
