//! `leanburn plan`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use leanburn_systems::Config;
use leanburn_systems::planning::ConfigSpace;

use super::budget::BudgetArguments;
use super::load::{inputs, load};
use super::output::{Force, Output};
use super::plan_report::PlanReport;
use super::ranks::RanksArguments;
use crate::console::{print_line, print_stderr};
use crate::error::{CommandError, Result, both};
use crate::report::perfetto_trace;

/// `leanburn plan`
#[derive(Debug, Args)]
pub struct Plan {
    /// Configuration in YAML.
    config: Option<PathBuf>,
    /// Set a key of the configuration: --set autoencoder.training.batch_size=1
    #[arg(long = "set", value_name = "a.b=c")]
    set: Vec<String>,
    #[command(flatten)]
    budget: BudgetArguments,
    #[command(flatten)]
    ranks: RanksArguments,
    /// Print a table of a system's sizes side by side: each forecaster, or each radar autoencoder; without CONFIG
    /// both, with data of the guides' sizes.
    #[arg(long)]
    compare: bool,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
    /// Describe where the memory goes and what would lower it.
    #[arg(long)]
    explain: bool,
    /// Write a page with the timeline: one HTML file that needs no network.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Write the timeline for Perfetto (ui.perfetto.dev).
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

impl Plan {
    pub(super) fn run(self) -> Result<()> {
        let is_of_all_cards = self.budget.gpu.as_deref() == Some("all");
        self.check(is_of_all_cards)?;
        if is_of_all_cards {
            return super::cards::print(self.config.as_deref(), &self.set);
        }
        if self.compare {
            return self.compare();
        }
        let path = self.config.as_deref().ok_or_else(no_configuration)?;
        let source = path.display().to_string();
        let (config, available) = both(load(path, &self.set), self.budget.resolve())?;
        let (page, trace) = self.outputs(path, &config)?;
        let planner = available.planner(&config.device.name)?;
        let space = ConfigSpace::new(&config, &source, &planner, || config.data_size(&source))?;
        let space = self.ranks.share_of(space)?;
        let candidate = space.configured();
        let began = Instant::now();
        let mut report = PlanReport::of(&config, &source, &space, planner, candidate)?;
        let took = began.elapsed();
        let shards = report.space.shards_optimizer(&report.candidate);
        report.exchange = self.ranks.exchange(&report.timeline, report.seconds, shards);

        if let Some(page) = page {
            page.write(&report.page(Vec::new())?.render()?)?;
        }
        if let Some(trace) = trace {
            trace.write(&trace_of(&report))?;
        }
        if self.json {
            print_line(report.json(self.explain))?;
        } else {
            report.print(self.explain)?;
            print_stderr(format_args!("traced in {:.0} ms", 1e3 * took.as_secs_f64()));
        }
        match report.fits() {
            Some(false) => Err(CommandError::OverBudget),
            _ => Ok(()),
        }
    }
}

impl Plan {
    /// Rejects arguments that a table would ignore.
    fn check(&self, is_of_all_cards: bool) -> Result<()> {
        let table = match (is_of_all_cards, self.compare) {
            (true, _) => "--gpu all",
            (_, true) => "--compare",
            _ => return Ok(()),
        };
        let ignored = [
            ("--compare", is_of_all_cards && self.compare),
            ("--budget", is_of_all_cards && self.budget.budget.is_some()),
            ("--fraction", is_of_all_cards && self.budget.fraction.is_some()),
            ("--json", is_of_all_cards && self.json),
            ("--ranks", self.ranks.are_given()),
            ("--explain", self.explain),
            ("--page", self.page.is_some()),
            ("--trace", self.trace.is_some()),
            ("--set", !is_of_all_cards && self.config.is_none() && !self.set.is_empty()),
        ];
        let ignored = ignored.into_iter().filter(|(_, is_ignored)| *is_ignored);
        let errors: Vec<_> = ignored
            .map(|(argument, _)| (argument.to_string(), format!("has no meaning for the table of {table}")))
            .collect();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(CommandError::Arguments { errors, remedy: "leave it out, or plan a single configuration" }),
        }
    }

    /// The files of `--page` and `--trace`.
    fn outputs(&self, path: &Path, config: &Config) -> Result<(Option<Output>, Option<Output>)> {
        let output = |file: &Option<PathBuf>| {
            file.as_ref().map(|file| Output::new(file, &inputs(path, config), self.force)).transpose()
        };
        let outputs = both(output(&self.page), output(&self.trace))?;
        match &outputs {
            (Some(page), Some(trace)) if page.is_same_file(trace) => {
                let errors = vec![("--trace".to_string(), "names the file of --page".to_string())];
                Err(CommandError::Arguments { errors, remedy: "give each a file of its own" })
            }
            _ => Ok(outputs),
        }
    }

    fn compare(&self) -> Result<()> {
        let Some(path) = &self.config else {
            return super::compare::print(None, &self.budget.resolve()?.planner("flex")?, self.json);
        };
        let (config, available) = both(load(path, &self.set), self.budget.resolve())?;
        let planner = available.planner(&config.device.name)?;
        super::compare::print(Some((&config, &path.display().to_string())), &planner, self.json)
    }
}

fn trace_of(report: &PlanReport<'_>) -> String {
    let (timeline, rates) = (&report.timeline, report.planner.rates());
    let durations: Vec<f64> = timeline.events.iter().map(|event| rates.seconds_of(event)).collect();
    perfetto_trace(timeline, Some(&durations))
}

fn no_configuration() -> CommandError {
    let errors = vec![("CONFIG".to_string(), "is missing; only `--gpu all` and `--compare` go without".to_string())];
    CommandError::Arguments { errors, remedy: "`leanburn recipes` lists configurations to start from" }
}
