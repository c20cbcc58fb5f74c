//! `leanburn fit`.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use leanburn_common::Bytes;
use leanburn_ops::StreamSettings;
use leanburn_plan::{Candidate, Class, Frontier, Knob, Plan, Plans, Recording, Space, Variant};
use leanburn_systems::planning::ConfigSpace;
use leanburn_systems::{Config, SystemError};
use leanburn_train::planning::Planner;
use serde_json::json;

use super::budget::{BudgetArguments, required, warning};
use super::load::{inputs, read};
use super::output::{Force, Output};
use super::plan_report::{too_large, unknown_data};
use super::ranks::{Exchange, RanksArguments};
use super::utilisation::Utilisation;
use crate::console::{print_line, print_stderr, seconds_text};
use crate::error::{CommandError, Result, both};
use crate::progress::Progress;

/// What may be changed to make a training fit.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Allow {
    /// Micro-batches and recomputation: the same mathematics.
    Lossless,
    /// Half precision too.
    Numerics,
    /// The model and its task too.
    Model,
}

/// `leanburn fit`
#[derive(Debug, Args)]
pub struct Fit {
    /// Configuration in YAML.
    config: PathBuf,
    /// Set a key of the configuration: --set autoencoder.training.batch_size=1
    #[arg(long = "set", value_name = "a.b=c")]
    set: Vec<String>,
    #[command(flatten)]
    budget: BudgetArguments,
    #[command(flatten)]
    ranks: RanksArguments,
    /// What may be changed.
    #[arg(long, value_enum, default_value_t = Allow::Lossless)]
    allow: Allow,
    /// Items of a step, in place of batch_size x gradient_accumulation_steps; the learning rate follows by the linear
    /// scaling rule.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    effective_batch: Option<u16>,
    /// Find the largest batch whose step needs such a share of the memory, such as 0.6..0.8, and change nothing else but the learning rate,
    /// which follows by the linear scaling rule.
    #[arg(long, value_name = "LEAST..MOST", conflicts_with_all = ["effective_batch", "allow", "ranks"])]
    utilisation: Option<Utilisation>,
    /// Write the configuration of the plan into this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
    /// Search plans for smaller budgets too, which takes longer, and print them.
    #[arg(long, requires = "json", conflicts_with = "utilisation")]
    frontier: bool,
}

/// The space of a configuration; a person sees how far the search is.
#[derive(Debug)]
struct Watched<'a> {
    space: &'a ConfigSpace,
    progress: RefCell<Progress>,
    is_quiet: bool,
}

impl Space for Watched<'_> {
    type Error = SystemError;

    fn variants(&self) -> Vec<Variant> {
        self.space.variants()
    }

    fn splits(&self) -> Vec<(usize, u64)> {
        self.space.splits()
    }

    fn record(&self, candidate: &Candidate) -> std::result::Result<Recording, SystemError> {
        if !self.is_quiet {
            let Candidate { micro_batch, accumulation, .. } = candidate;
            self.progress.borrow_mut().step(|| format!("batch {micro_batch} x {accumulation}"));
        }
        self.space.record(candidate)
    }

    fn knobs(&self, candidate: &Candidate) -> Vec<Knob> {
        self.space.knobs(candidate)
    }

    fn other_bytes(&self, candidate: &Candidate) -> Bytes {
        self.space.other_bytes(candidate)
    }
}

impl Fit {
    pub(super) fn run(self) -> Result<()> {
        let source = self.config.display().to_string();
        let (mut config, available) = both(read(&self.config, &self.set), self.budget.resolve())?;
        let device = config.device.name.clone(); // what is written may be trained on another machine
        config.resolve_device();
        let output = |path| Output::new(path, &inputs(&self.config, &config), self.force);
        let output = self.out.as_deref().map(output).transpose()?;
        if config.training().volume_ranks > 1 {
            let found = format!("has volumes that {} processes hold together", config.training().volume_ranks);
            return Err(CommandError::Arguments {
                errors: vec![(source, found)],
                remedy: "remove volume_ranks: a fit is of processes with volumes of their own; `plan --ranks` plans others",
            });
        }
        let planner = available.planner(&config.device.name)?;
        let bytes = required(&planner)?;
        if let Some(utilisation) = self.utilisation {
            return self.fill(utilisation, config, &planner, output.map(|output| (output, device)));
        }
        let rate = self.effective_batch.map(|batch| set_effective_batch(&mut config, batch.into()));
        let space = ConfigSpace::new(&config, &source, &planner, || config.data_size(&source))?;
        let space = self.ranks.share_of_items(space)?;
        let machine = planner.machine();
        let began = Instant::now();
        let allowed = match self.allow {
            Allow::Lossless => Class::Lossless,
            Allow::Numerics => Class::Numerics,
            Allow::Model => Class::Model,
        };
        let watched = Watched {
            space: &space,
            progress: RefCell::new(Progress::counting("steps recorded:")),
            is_quiet: self.json,
        };
        let mut search = planner.plans(&watched, &machine);
        let plans = search.down_to(self.least(bytes), allowed)?;
        watched.progress.borrow().finish();
        let took = began.elapsed();
        let Some((plan, needed, exchange)) = self.fastest(&space, &planner, &plans, bytes)? else {
            self.reject(&space, &planner, &mut search, bytes, allowed)?;
            return Err(CommandError::OverBudget);
        };
        if let Some(output) = output {
            let mut fitted = space.config(&plan.candidate);
            fitted.device.name = device;
            output.write(&format!("# {source}, fitted into {}\n{}", bytes, fitted.to_yaml()))?;
        }
        if self.json {
            return print_line(json!({ "config": source, "device": planner.key(), "budget_bytes": bytes, "plan": plan,
                    "exchange": exchange.as_ref().map(Exchange::json),
                    "held": space.held(&plan.candidate).into_iter().map(|held| json!({ "name": held.name, "bytes": held.bytes })).collect::<Vec<_>>(),
                    "frontier": plans.plans }));
        }
        self.print(&space, plan, needed, &plans, bytes)?;
        if let Some(exchange) = exchange {
            print_line(exchange.line(plan.candidate.accumulation))?;
        }
        let unknown = space.unknown_data().map(unknown_data);
        let too_large = too_large(plan.largest, &planner);
        too_large.into_iter().chain(warning(&planner)).chain(unknown).try_for_each(print_line)?;
        if let Some((before, after)) = rate {
            print_line(format_args!(
                "learning rate {before} becomes {after} by the linear scaling rule (base_batch_size)"
            ))?;
        }
        print_stderr(format_args!("searched in {:.1} s", took.as_secs_f64()));
        Ok(())
    }

    /// The smallest budget that plans are looked for: with the buffers of several processes, whether a plan fits is known once it is
    /// found.
    fn least(&self, bytes: Bytes) -> Bytes {
        if self.frontier || self.ranks.are_several() { Bytes(0) } else { bytes }
    }

    /// What a plan needs with the buffers of the sums over several processes, and what these exchange.
    fn needed(&self, space: &ConfigSpace, planner: &Planner, plan: &Plan) -> Result<(Bytes, Option<Exchange>)> {
        if !self.ranks.are_several() {
            return Ok((plan.peak, None));
        }
        let timeline = space.record(&plan.candidate)?.timeline(planner.memory_model());
        let exchange = self.ranks.exchange(&timeline, plan.seconds, space.shards_optimizer(&plan.candidate));
        let buffers = exchange.as_ref().map_or(Bytes(0), |exchange| exchange.above_peak(&timeline));
        Ok((plan.peak + buffers, exchange))
    }

    /// The fastest plan that fits, what it needs, and what is exchanged.
    fn fastest<'p>(
        &self,
        space: &ConfigSpace,
        planner: &Planner,
        plans: &'p Frontier,
        bytes: Bytes,
    ) -> Result<Option<(&'p Plan, Bytes, Option<Exchange>)>> {
        for plan in plans.plans.iter().rev().filter(|plan| plan.peak <= bytes) {
            let (needed, exchange) = self.needed(space, planner, plan)?;
            if needed <= bytes {
                return Ok(Some((plan, needed, exchange)));
            }
        }
        Ok(None)
    }

    /// The plan that needs the least, and how much.
    fn smallest<'p>(
        &self,
        space: &ConfigSpace,
        planner: &Planner,
        plans: &'p Frontier,
    ) -> Result<Option<(&'p Plan, Bytes)>> {
        let mut smallest: Option<(&Plan, Bytes)> = None;
        for plan in &plans.plans {
            if smallest.is_some_and(|(_, least)| least <= plan.peak) {
                break; // plans are in the order of their peaks
            }
            let (needed, _) = self.needed(space, planner, plan)?;
            if smallest.is_none_or(|(_, least)| needed < least) {
                smallest = Some((plan, needed));
            }
        }
        Ok(smallest)
    }

    /// Fills a share of the memory with the largest batch.
    fn fill(
        &self,
        utilisation: Utilisation,
        mut config: Config,
        planner: &Planner,
        output: Option<(Output, String)>,
    ) -> Result<()> {
        let (source, bytes) = (self.config.display().to_string(), required(planner)?);
        let space = ConfigSpace::new(&config, &source, planner, || config.data_size(&source))?;
        let Some(filled) = utilisation.largest_batch(&space, planner, bytes)? else {
            if self.json {
                print_line(json!({ "budget_bytes": bytes, "batch_size": null }))?;
            } else {
                print_line(format_args!(
                    "does not fit: a batch of one item needs more than {:.0} % of {bytes}; `leanburn fit` without --utilisation finds \
                     what saves memory",
                    100.0 * utilisation.most
                ))?;
            }
            return Err(CommandError::OverBudget);
        };
        let (before, after) = set_effective_batch(&mut config, filled.batch_size);
        let share = 100.0 * filled.needed.get() as f64 / bytes.get() as f64;
        if let Some((output, device)) = output {
            config.device.name = device;
            output.write(&format!("# {source}, fitted to {share:.0} % of {bytes}\n{}", config.to_yaml()))?;
        }
        if self.json {
            return print_line(
                json!({ "config": source, "device": planner.key(), "budget_bytes": bytes, "needed_bytes": filled.needed,
                    "batch_size": filled.batch_size, "learning_rate": after }),
            );
        }
        print_line(format_args!("a batch of {} needs {}, {share:.0} % of {bytes}", filled.batch_size, filled.needed))?;
        if !utilisation.is_reached(filled, bytes) {
            let [least, most] = [utilisation.least, utilisation.most].map(|share| 100.0 * share);
            print_line(format_args!("less than {least:.0} %: one item more needs more than {most:.0} %"))?;
        }
        print_line(format_args!(
            "learning rate {before} becomes {after} by the linear scaling rule (base_batch_size)"
        ))?;
        warning(planner).into_iter().chain(space.unknown_data().map(unknown_data)).try_for_each(print_line)
    }

    fn print(&self, space: &ConfigSpace, plan: &Plan, needed: Bytes, plans: &Frontier, bytes: Bytes) -> Result<()> {
        print_line(format_args!(
            "fits: {} of {}, about {} a step ({})",
            needed,
            bytes,
            seconds_text(plan.seconds),
            plan.class
        ))?;
        for (name, value) in changes(space, plan) {
            print_line(format_args!("  {name} = {value}"))?;
        }
        let held = space.held(&plan.candidate);
        if !held.is_empty() {
            let held: Vec<String> = held.into_iter().map(|held| format!("{} {}", held.bytes, held.name)).collect();
            print_line(format_args!("of which {}", held.join(", ")))?;
        }
        let slower = |fastest: &Plan| 100.0 * (plan.seconds / fastest.seconds - 1.0);
        if let Some(fastest) = plans.plans.last().filter(|fastest| fastest.peak > bytes && slower(fastest) >= 1.0) {
            let share = slower(fastest);
            print_line(format_args!(
                "{share:.0} % slower than with {}, where nothing is gained by more",
                fastest.peak
            ))?;
        }
        match &self.out {
            Some(path) => print_line(format_args!("written to {}", path.display())),
            None => print_line("`--out FILE` writes its configuration"),
        }
    }

    /// Says what the smallest budget is, and what would lower it.
    fn reject(
        &self,
        space: &ConfigSpace,
        planner: &Planner,
        search: &mut Plans<'_, Watched<'_>>,
        bytes: Bytes,
        allowed: Class,
    ) -> Result<()> {
        let least = self.least(bytes);
        let plans = search.down_to(least, allowed)?;
        let smallest = self.smallest(space, planner, &plans)?.map_or(Bytes(0), |(_, needed)| needed);
        let mut lower = Vec::new();
        for class in [Class::Numerics, Class::Model].into_iter().filter(|class| *class > allowed) {
            let plans = search.down_to(least, class)?;
            if let Some((plan, needed)) =
                self.smallest(space, planner, &plans)?.filter(|(_, needed)| *needed < smallest)
            {
                lower.push((class, needed, changes(space, plan)));
                if needed <= bytes {
                    break; // with more changes it fits too
                }
            }
        }
        if self.json {
            let lower: Vec<_> =
                lower.iter().map(|(class, peak, _)| json!({ "allow": class, "smallest_bytes": peak })).collect();
            return print_line(
                json!({ "budget_bytes": bytes, "plan": null, "smallest_bytes": smallest, "lower": lower }),
            );
        }
        print_line(format_args!(
            "does not fit: {bytes} is less than the {} of the smallest plan with {allowed} changes",
            smallest.rounded_up()
        ))?;
        for (class, peak, changes) in lower {
            let changes: Vec<String> = changes.into_iter().map(|(name, value)| format!("{name} = {value}")).collect();
            let what = if peak <= bytes { "fits with" } else { "goes down to" };
            print_line(format_args!("  --allow {class} {what} {}: {}", peak.rounded_up(), changes.join(", ")))?;
        }
        Ok(())
    }
}

/// Changes the items of a step, and has the learning rate follow: the rate before and after
/// ([Goyal et al.](https://arxiv.org/abs/1706.02677)).
fn set_effective_batch(config: &mut Config, batch: usize) -> (f64, f64) {
    let training = config.training_mut();
    let before = training.batch_size * training.gradient_accumulation_steps;
    let base = *training.base_batch_size.get_or_insert(before);
    (training.batch_size, training.gradient_accumulation_steps) = (batch, 1);
    let rate = |batch: usize| training.learning_rate * batch as f64 / base as f64;
    (rate(before), rate(batch))
}

/// The keys that a plan sets.
fn changes(space: &ConfigSpace, plan: &Plan) -> Vec<(String, String)> {
    let candidate = &plan.candidate;
    let variant = &space.variants()[candidate.variant];
    let change = variant.change.split_once(" = ").map(|(name, value)| (name.to_string(), value.to_string()));
    let change = change.or_else(|| (!variant.change.is_empty()).then(|| ("model".into(), variant.change.clone())));
    let mut changes: Vec<(String, String)> = change.into_iter().collect();
    let key = |name: &str| format!("{}.training.{name}", space.system());
    changes.push((key("batch_size"), candidate.micro_batch.to_string()));
    let accumulation = space.config(candidate).training().gradient_accumulation_steps; // of all processes together
    changes.push((key("gradient_accumulation_steps"), accumulation.to_string()));
    if space.config(&space.configured()).training().recompute.is_all() {
        changes.push((key("use_gradient_checkpointing"), "false".into())); // it would win over `recompute`
    }
    changes.push((key("recompute"), format!("[{}]", candidate.recompute.join(", "))));
    let configured = space.configured();
    if !(candidate.stream.is_empty() && configured.stream.is_empty()) {
        changes.push((key("stream"), format!("[{}]", candidate.stream.join(", "))));
    }
    if !candidate.stream.is_empty() {
        let StreamSettings { slab_planes, keep, cached_percent } = candidate.stream_settings;
        changes.push((key("slab_planes"), slab_planes.to_string()));
        changes.push((key("stream_keep"), keep.to_string()));
        changes.push((key("cached_percent"), cached_percent.to_string()));
    }
    let shards = key("shard_optimizer");
    let is_changed = space.shards_optimizer(candidate) && !space.shards_optimizer(&configured);
    if is_changed && changes.iter().all(|(name, _)| *name != shards) {
        changes.push((shards, "true".into())); // beside a change that is not lossless
    }
    for name in space.knob_names().iter().filter(|name| candidate.knob(name) != configured.knob(name)) {
        changes.push((key(name), candidate.knob(name).map_or("null".into(), |value| value.to_string())));
    }
    changes
}
