//! `leanburn calc`.

use std::path::{Path, PathBuf};

use clap::Args;
use leanburn_common::Bytes;
use leanburn_plan::calc::{Calc as Rule, CalcError, SAFE_PERCENT};
use leanburn_systems::Config;
use leanburn_systems::guide_config::{Figure, Figures, GuideConfig, GuideError};
use leanburn_systems::planning::{ConfigSpace, planner_of};

use super::calc_report::{CalcReport, PlannedStep};
use super::plan_report::PlanReport;
use crate::console::print_line;
use crate::error::{CommandError, Result};

/// The card where a configuration is given without one, in GB.
const USUAL_CARD: f64 = 24.0;

/// What is expected of every number but the card's memory.
const WHOLE: &str = "a whole number from 1 to 4294967295";

const REMEDY: &str = "give --batch, --height, --width, --hidden_dim, --num_layers and --gpu_memory, or --config FILE and \
    flags for what the file does not say";

/// `leanburn calc`
#[derive(Debug, Args)]
pub struct Calc {
    /// Configuration to take the numbers from; a flag goes before what it says.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Samples in a batch.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    batch: Option<String>,
    /// Steps of a sequence, or the depth of a volume [default: 1].
    #[arg(long = "seq_len", alias = "seq-len", value_name = "N", allow_negative_numbers = true)]
    seq_len: Option<String>,
    /// Height in pixels.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    height: Option<String>,
    /// Width in pixels.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    width: Option<String>,
    /// Channels of every layer.
    #[arg(long = "hidden_dim", alias = "hidden-dim", value_name = "N", allow_negative_numbers = true)]
    hidden_dim: Option<String>,
    /// Layers.
    #[arg(long = "num_layers", alias = "num-layers", value_name = "N", allow_negative_numbers = true)]
    num_layers: Option<String>,
    /// Memory of the card in GB, each counted as a GiB [default with --config: 24].
    #[arg(long = "gpu_memory", alias = "gpu-memory", value_name = "GB", allow_negative_numbers = true)]
    gpu_memory: Option<String>,
    /// Share of the card that is safe to fill, in percent; careful people take 60.
    #[arg(long, value_name = "PERCENT", default_value_t = SAFE_PERCENT)]
    threshold: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Calc {
    pub(super) fn run(self) -> Result<()> {
        let mut errors = Vec::new();
        let guide = self.config.as_deref().and_then(|path| {
            let named = |error: GuideError| errors.push((path.display().to_string(), error.to_string()));
            GuideConfig::load(path).map_err(named).ok()
        });
        let rule = self.rule(guide.as_ref().map(|guide| &guide.figures), &mut errors);
        let estimate = match rule.estimate() {
            Ok(estimate) if errors.is_empty() => estimate,
            answer => {
                errors.extend(answer.err().into_iter().flatten().map(describe));
                return Err(CommandError::Arguments { errors, remedy: REMEDY });
            }
        };
        let budget = Bytes(estimate.gpu_bytes);
        let planned = self.config.as_deref().zip(guide.as_ref()).and_then(|(path, guide)| planned(path, guide, budget));
        let report = CalcReport::new(&rule, &estimate, self.config.as_deref().zip(guide.as_ref()), planned);
        if self.json {
            print_line(report.to_json())?
        } else {
            print_line(&report)?
        }
        if estimate.is_safe { Ok(()) } else { Err(CommandError::OverBudget) }
    }

    /// The numbers; what is missing or wrong is an error, and 1.
    fn rule(&self, figures: Option<&Figures>, errors: &mut Vec<(String, String)>) -> Rule {
        let mut number = |name, flag: &Option<String>, figure: Option<&Figure>, default| {
            let flag = flag.as_deref().map(whole);
            resolve(flag, figure, default).unwrap_or_else(|error| {
                errors.push((format!("--{name}"), error));
                1
            })
        };
        // a file that cannot be read might have said what no flag says
        let default = (self.config.is_some() && figures.is_none()).then_some(1);
        let one = figures.is_none().then_some(1);
        Rule {
            batch: number("batch", &self.batch, figures.map(|figures| &figures.batch), default),
            seq_len: number("seq_len", &self.seq_len, figures.map(|figures| &figures.seq_len), one),
            height: number("height", &self.height, figures.map(|figures| &figures.height), default),
            width: number("width", &self.width, figures.map(|figures| &figures.width), default),
            hidden_dim: number("hidden_dim", &self.hidden_dim, figures.map(|figures| &figures.hidden_dim), default),
            num_layers: number("num_layers", &self.num_layers, figures.map(|figures| &figures.num_layers), default),
            gpu_memory: self.card().unwrap_or_else(|error| {
                errors.push(("--gpu_memory".into(), error));
                1.0
            }),
            threshold: self.threshold,
        }
    }

    /// The card's memory in GB.
    fn card(&self) -> std::result::Result<f64, String> {
        match &self.gpu_memory {
            Some(text) => text
                .parse()
                .map_err(|_| format!("expected a number of GB, such as 24, found `{}`", text.escape_debug())),
            None if self.config.is_some() => Ok(USUAL_CARD),
            None => Err("expected the memory of the card in GB, such as 24, found no such flag".into()),
        }
    }
}

/// What `leanburn plan` says of the file on a device with so much memory; nothing where it cannot build its model, where the file is not one
/// of ours, which that command says better, or where the data would have to be read.
fn planned(path: &Path, guide: &GuideConfig, budget: Bytes) -> Option<PlannedStep> {
    if !guide.not_modelled.is_empty() {
        return None;
    }
    let source = path.display().to_string();
    let mut config = Config::load(path, &[]).ok()?;
    config.resolve_device();
    config.extent()?;
    let planner = planner_of(&config.device.name, None, Some(budget)).ok()?;
    let space = ConfigSpace::new(&config, &source, &planner, || config.data_size(&source)).ok()?;
    let report = PlanReport::of(&config, &source, &space, planner, space.configured()).ok()?;
    Some(PlannedStep { needed: report.need(), fit_check: report.fit_check() })
}

/// What a flag says, or else the configuration, or else the default.
fn resolve(
    flag: Option<std::result::Result<u32, String>>,
    figure: Option<&Figure>,
    default: Option<u32>,
) -> std::result::Result<u32, String> {
    match (flag, figure) {
        (Some(flag), _) => flag,
        (None, Some(Figure::Given { value, .. } | Figure::Assumed { value, .. })) => Ok(*value),
        (None, Some(Figure::Wrong { key, found })) => {
            Err(format!("expected {WHOLE} under {key} in the configuration, found {found}"))
        }
        (None, Some(Figure::Missing)) => default.ok_or_else(|| {
            format!("expected {WHOLE}, found neither this flag nor a key of the configuration that says it")
        }),
        (None, None) => default.ok_or_else(|| format!("expected {WHOLE}, found no such flag")),
    }
}

fn whole(text: &str) -> std::result::Result<u32, String> {
    let value = text.parse().ok().filter(|value| *value > 0);
    value.ok_or_else(|| format!("expected {WHOLE}, found `{}`", text.escape_debug()))
}

fn describe(error: CalcError) -> (String, String) {
    let subject = error.field().map_or("all numbers together".into(), |field| format!("--{field}"));
    (subject, error.to_string())
}
