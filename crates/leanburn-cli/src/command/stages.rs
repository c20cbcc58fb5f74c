//! What a run needs other runs for, trained before it: the autoencoder of its latents, a teacher.

use std::path::Path;

use leanburn_systems::{Config, NeededRun, OnOutOfMemory, RunFolder, Session, SystemError, recipes};
use leanburn_train::Group;

use super::load::print_codebook_note;
use super::observer::Terminal;
use super::signals::Signals;
use crate::console::print_line;
use crate::error::Result;

/// How the stages before the last one are trained.
pub(super) struct Stages<'a> {
    /// The file of the last stage.
    pub path: &'a Path,
    /// Keys that are set for the last stage, each `section.key=value`.
    pub set: &'a [String],
    pub on_out_of_memory: OnOutOfMemory,
    pub signals: &'a Signals,
    pub group: &'a Group,
}

/// Sections that all stages of one file have, and whose keys are therefore set for each of them.
const OF_ALL_STAGES: [&str; 3] = ["data", "device", "seed"];

impl Stages<'_> {
    /// Trains what a configuration needs and is not there, each from the beginning, or to its end where its run has stopped before.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`] if there are no stages, or nothing says how one is trained; those of its run.
    pub fn train(&self, config: &Config) -> Result<()> {
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
        needed.iter().try_for_each(|run| self.train_stage(run, config))
    }

    fn train_stage(&self, run: &NeededRun, config: &Config) -> Result<()> {
        let Self { signals, group, .. } = *self;
        let folder = RunFolder::new(run.weights.parent().unwrap_or(Path::new(".")));
        let is_staged = !config.notes.is_empty();
        let (mut stage, name) = self.configuration(run, &folder, is_staged)?;
        let begun = folder.checkpoints(1).latest();
        let is_finished = |step: u64| step >= stage.training().max_steps;
        let is_there = run.weights.is_file() && begun.as_ref().is_none_or(|(step, _)| is_finished(*step));
        // the leading rank may still be writing the stage before: it decides for all when it is here
        if group.from_leader(&[u8::from(is_there)]) == [1] {
            return Ok(());
        }
        stage.device.name.clone_from(&config.device.name);
        if !stage.needed_runs().is_empty() {
            self.train(&stage)?;
        }
        if group.leads() {
            print_line(format_args!("the {}, {name}, in {}", run.role, folder.path().display()))?;
        }
        print_codebook_note(&stage, group);
        // a run without a checkpoint that has begun goes on from its beginning
        let is_begun = begun.is_some() || folder.config().is_file();
        let session = Session::new(stage)?.named(name).in_folder(folder.path()).resume(is_begun);
        let session = session.on_out_of_memory(self.on_out_of_memory);
        let session = session.stop_when(|| signals.first().is_some()).in_group(group.clone());
        signals.outcome(session.with_observer(Terminal::default()).run()?.interrupted, group)
    }

    /// How a stage is trained, and what that is called: as its run says if there is one, by the file of the last stage if that has several,
    /// by the file of its name beside it, or by the recipe of its name.
    fn configuration(&self, run: &NeededRun, folder: &RunFolder, is_staged: bool) -> Result<(Config, String)> {
        let named = folder.path().file_name().unwrap_or_default().display().to_string();
        let beside = self.path.with_file_name(format!("{named}.yaml"));
        if folder.config().is_file() {
            return Ok((Config::load(&folder.config(), &[])?, folder.config().display().to_string()));
        }
        if is_staged {
            let is_of_all = |set: &&String| OF_ALL_STAGES.contains(&set.split(['.', '=']).next().unwrap_or("").trim());
            let mut set: Vec<String> = self.set.iter().filter(is_of_all).cloned().collect();
            set.push(format!("stage={}", run.stage));
            return Ok((Config::load(self.path, &set)?, format!("stage {} of {}", run.stage, self.path.display())));
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
}
