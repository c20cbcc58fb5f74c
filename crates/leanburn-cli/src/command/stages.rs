//! The first stage of a run on latents, trained before it.

use std::path::Path;

use leanburn_systems::{Config, RunFolder, Session, SystemError, recipes};
use leanburn_train::Group;

use super::observer::Terminal;
use super::signals::Signals;
use crate::console::print_line;
use crate::error::{CommandError, Result};

/// Trains the autoencoder whose latents a configuration is trained on, unless it is there: from the beginning, or to its end where its run
/// has stopped before. `path` is the configuration's file.
///
/// # Errors
///
/// [`SystemError::Input`] if there are no stages, or nothing says how the first is trained; those of its run.
pub(super) fn train_first_stage(config: &Config, path: &Path, signals: &Signals, group: &Group) -> Result<()> {
    let Some(latents) = &config.latents else {
        let error = SystemError::Input {
            subject: "--with-stages".into(),
            expected: "a configuration with a section `latents`, which has a first stage".into(),
            found: format!("a section `{}`", config.system_name()),
            remedy: "leave it out: this is the only stage".into(),
        };
        return Err(error.into());
    };
    let weights = latents.weights();
    let folder = RunFolder::new(weights.parent().unwrap_or(Path::new(".")));
    let (mut stage, name) = first_stage(&folder, path)?;
    let begun = folder.newest_checkpoint(false)?;
    let is_finished = |step: u64| step >= stage.training().max_steps;
    if weights.is_file() && begun.as_ref().is_none_or(|(step, _)| is_finished(*step)) {
        return Ok(());
    }
    stage.device.name.clone_from(&config.device.name);
    if group.leads() {
        print_line(format_args!("the first stage, {name}, in {}", folder.path().display()))?;
    }
    let session = Session::new(stage)?.named(name).in_folder(folder.path()).resume(begun.is_some());
    let session = session.stop_when(|| signals.first().is_some()).in_group(group.clone());
    let interrupted = session.with_observer(Terminal::default()).run()?.interrupted;
    match signals.first().filter(|_| interrupted) {
        Some(signal) => Err(CommandError::Interrupted(signal)),
        None => Ok(()),
    }
}

/// How the first stage is trained, and what that is called: as its run says if there is one, by the file of its name beside the second
/// stage's, or by the recipe of its name.
fn first_stage(folder: &RunFolder, second: &Path) -> Result<(Config, String)> {
    let named = folder.path().file_name().unwrap_or_default().display().to_string();
    let beside = second.with_file_name(format!("{named}.yaml"));
    for file in [folder.config(), beside.clone()] {
        if file.is_file() {
            return Ok((Config::load(&file, &[])?, file.display().to_string()));
        }
    }
    match recipes().into_iter().find(|recipe| recipe.name == named) {
        Some(recipe) => Ok((Config::parse(recipe.text, recipe.name, &[])?, format!("the recipe {named}"))),
        None => Err(SystemError::Input {
            subject: "--with-stages".into(),
            expected: format!("{}, which says how the first stage is trained", beside.display()),
            found: "no such file".into(),
            remedy: format!(
                "write it, or name in `latents.autoencoder` the run of a recipe, such as runs/{}",
                recipes().first().map_or("", |recipe| recipe.name)
            ),
        }
        .into()),
    }
}
