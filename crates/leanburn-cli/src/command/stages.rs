//! What a run needs other runs for, trained before it: the autoencoder of its latents, a teacher.

use std::path::Path;

use leanburn_systems::{Config, NeededRun, RunFolder, Session, SystemError, recipes};
use leanburn_train::Group;

use super::observer::Terminal;
use super::signals::Signals;
use crate::console::print_line;
use crate::error::{CommandError, Result};

/// Trains what a configuration needs and is not there, each from the beginning, or to its end where its run has stopped before. `path` is
/// the configuration's file.
///
/// # Errors
///
/// [`SystemError::Input`] if there are no stages, or nothing says how one is trained; those of its run.
pub(super) fn train_stages(config: &Config, path: &Path, signals: &Signals, group: &Group) -> Result<()> {
    let needed = config.needed_runs();
    if needed.is_empty() {
        let error = SystemError::Input {
            subject: "--with-stages".into(),
            expected: "a configuration with a section `latents`, which has a first stage".into(),
            found: format!("a section `{}`", config.system_name()),
            remedy: "leave it out: this is the only stage".into(),
        };
        return Err(error.into());
    }
    needed.iter().try_for_each(|run| train_stage(run, config, path, (signals, group)))
}

fn train_stage(run: &NeededRun, config: &Config, path: &Path, (signals, group): (&Signals, &Group)) -> Result<()> {
    let folder = RunFolder::new(run.weights.parent().unwrap_or(Path::new(".")));
    let is_staged = !config.notes.is_empty();
    let (mut stage, name) = configuration(run, &folder, (path, is_staged))?;
    let begun = folder.newest_checkpoint(false)?;
    let is_finished = |step: u64| step >= stage.training().max_steps;
    if run.weights.is_file() && begun.as_ref().is_none_or(|(step, _)| is_finished(*step)) {
        return Ok(());
    }
    stage.device.name.clone_from(&config.device.name);
    if !stage.needed_runs().is_empty() {
        train_stages(&stage, path, signals, group)?;
    }
    if group.leads() {
        print_line(format_args!("the {}, {name}, in {}", run.role, folder.path().display()))?;
    }
    let session = Session::new(stage)?.named(name).in_folder(folder.path()).resume(begun.is_some());
    let session = session.stop_when(|| signals.first().is_some()).in_group(group.clone());
    let interrupted = session.with_observer(Terminal::default()).run()?.interrupted;
    match signals.first().filter(|_| interrupted) {
        Some(signal) => Err(CommandError::Interrupted(signal)),
        None => Ok(()),
    }
}

/// How a stage is trained, and what that is called: as its run says if there is one, by the file of the last stage if that has several, by the
/// file of its name beside it, or by the recipe of its name.
fn configuration(run: &NeededRun, folder: &RunFolder, (last, is_staged): (&Path, bool)) -> Result<(Config, String)> {
    let named = folder.path().file_name().unwrap_or_default().display().to_string();
    let beside = last.with_file_name(format!("{named}.yaml"));
    if folder.config().is_file() {
        return Ok((Config::load(&folder.config(), &[])?, folder.config().display().to_string()));
    }
    if is_staged {
        let config = Config::load(last, &[format!("stage={}", run.stage)])?;
        return Ok((config, format!("stage {} of {}", run.stage, last.display())));
    }
    if beside.is_file() {
        return Ok((Config::load(&beside, &[])?, beside.display().to_string()));
    }
    match recipes().into_iter().find(|recipe| recipe.name == named) {
        Some(recipe) => Ok((Config::parse(recipe.text, recipe.name, &[])?, format!("the recipe {named}"))),
        None => Err(SystemError::Input {
            subject: "--with-stages".into(),
            expected: format!("{}, which says how the {} is trained", beside.display(), run.role),
            found: "no such file".into(),
            remedy: format!(
                "write it, or name in `{}` the run of a recipe, such as runs/{}",
                run.key,
                recipes().first().map_or("", |recipe| recipe.name)
            ),
        }
        .into()),
    }
}
