//! What `leanburn calc` prints.

use std::fmt;
use std::path::Path;

use leanburn_common::Bytes;
use leanburn_plan::calc::{Advice, Calc, Estimate, NOT_COUNTED, Outcome};
use leanburn_systems::LossScale;
use leanburn_systems::guide_config::{Figure, GuideConfig};
use serde::{Serialize, Serializer};

/// What `leanburn plan` does.
const PLAN: &str = " traces the real training step and says what it needs";

/// The answer to a question, as text ([`fmt::Display`]) or as JSON.
#[derive(Debug, Serialize)]
pub(super) struct CalcReport<'a> {
    #[serde(flatten)]
    calc: &'a Calc,
    #[serde(flatten)]
    estimate: &'a Estimate,
    configuration: Option<Source<'a>>,
    not_counted: [&'static str; NOT_COUNTED.len()],
    /// What the real training step needs, where that can be planned.
    planned: Option<PlannedStep>,
    /// What would say what is really needed.
    instead: String,
}

/// What `leanburn plan` says of the file.
#[derive(Debug, Serialize)]
pub(super) struct PlannedStep {
    /// All that is needed at the peak, weights, gradients and optimizer included.
    #[serde(rename = "needed_bytes")]
    pub needed: Bytes,
    /// Whether it fits on the card, in words.
    pub fit_check: String,
}

/// The file that the numbers are from.
#[derive(Debug, Serialize)]
struct Source<'a> {
    path: String,
    kind: String,
    /// Where each number is from.
    #[serde(serialize_with = "as_map")]
    figures: [(&'static str, String); 6],
    half_precision: bool,
    loss_scale: Option<LossScale>,
    not_modelled: &'a [String],
}

impl<'a> CalcReport<'a> {
    pub(super) fn new(
        calc: &'a Calc,
        estimate: &'a Estimate,
        guide: Option<(&Path, &'a GuideConfig)>,
        planned: Option<PlannedStep>,
    ) -> Self {
        let instead =
            guide.map_or_else(|| format!("`leanburn plan CONFIG`{PLAN}"), |(path, guide)| instead(path, guide));
        let configuration = guide.map(|(path, guide)| Source::new(calc, path, guide));
        Self { calc, estimate, configuration, not_counted: NOT_COUNTED, planned, instead }
    }

    /// The report as one JSON object.
    pub(super) fn to_json(&self) -> String {
        // plain structs with keys of text have nothing to fail at
        serde_json::to_string_pretty(self).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"))
    }
}

impl<'a> Source<'a> {
    fn new(calc: &Calc, path: &Path, guide: &'a GuideConfig) -> Self {
        let figures = &guide.figures;
        let figures = [
            ("batch", origin(&figures.batch, calc.batch)),
            ("seq_len", origin(&figures.seq_len, calc.seq_len)),
            ("height", origin(&figures.height, calc.height)),
            ("width", origin(&figures.width, calc.width)),
            ("hidden_dim", origin(&figures.hidden_dim, calc.hidden_dim)),
            ("num_layers", origin(&figures.num_layers, calc.num_layers)),
        ];
        Self {
            path: path.display().to_string(),
            kind: guide.kind.describe(),
            figures,
            half_precision: guide.half_precision,
            loss_scale: guide.loss_scale,
            not_modelled: &guide.not_modelled,
        }
    }
}

/// Where a number is from: the file, its program's default, or a flag.
fn origin(figure: &Figure, value: u32) -> String {
    match figure {
        Figure::Given { value: given, source } if *given == value => source.clone(),
        Figure::Assumed { value: assumed, reason } if *assumed == value => format!("assumed: {reason}"),
        Figure::Given { .. } | Figure::Assumed { .. } | Figure::Wrong { .. } | Figure::Missing => "the flag".into(),
    }
}

/// What would say what is really needed.
fn instead(path: &Path, guide: &GuideConfig) -> String {
    match &guide.not_modelled[..] {
        [] => format!("`leanburn plan {}`{PLAN}", path.display()),
        names => {
            format!("`leanburn plan` would trace the real training step, but cannot build {} yet", names.join(", "))
        }
    }
}

fn as_map<S: Serializer>(pairs: &[(&'static str, String); 6], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, text)| (name, text)))
}

impl fmt::Display for CalcReport<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calc, estimate, .. } = self;
        if let Some(source) = &self.configuration {
            writeln!(out, "{source}")?;
        }
        let Calc { batch, seq_len, height, width, hidden_dim, num_layers, gpu_memory, threshold } = calc;
        let layers = if *num_layers == 1 { "layer" } else { "layers" };
        writeln!(
            out,
            "one layer: batch {batch} x seq_len {seq_len} x height {height} x width {width} x hidden_dim {hidden_dim} x 4 bytes = {}",
            Gib(estimate.layer_bytes)
        )?;
        writeln!(out, "{num_layers} {layers}: {}", Gib(estimate.total_bytes))?;
        let (card, safe) = (Gib(estimate.gpu_bytes), Gib(estimate.available_bytes));
        writeln!(out, "card: {gpu_memory} GB, counted as {card}; safe below {threshold} % = {safe}")?;
        match &estimate.advice {
            None => writeln!(out, "safe: {} is below {safe}", Gib(estimate.total_bytes))?,
            Some(advice) => {
                writeln!(out, "over: {} is not below {safe}. Any of these, in this order:", Gib(estimate.total_bytes))?;
                self.write_advice(out, advice)?;
            }
        }
        writeln!(out, "\nThis is a rule of thumb: one f32 volume a layer, each at full resolution. It leaves out:")?;
        for part in self.not_counted {
            writeln!(out, "  - {part}")?;
        }
        write!(out, "{}", self.instead)?;
        match &self.planned {
            None => out.write_str("."),
            Some(PlannedStep { needed, fit_check }) => {
                let times = needed.get() as f64 / estimate.total_bytes as f64;
                write!(out, ":\n  {fit_check}; that is {times:.2} times the rule's {}", Gib(estimate.total_bytes))
            }
        }
    }
}

impl CalcReport<'_> {
    fn write_advice(&self, out: &mut fmt::Formatter<'_>, advice: &Advice) -> fmt::Result {
        let Calc { batch, height, width, .. } = self.calc;
        let Advice { batch: smaller, resolution, accumulation, mixed_precision } = advice;
        match smaller.batch {
            _ if *batch == 1 => writeln!(out, "  1. batch: it is 1 already")?,
            smaller_batch => writeln!(out, "  1. batch: {smaller_batch} instead of {batch}{}", Left(smaller.outcome))?,
        }
        let (low, narrow) = (resolution.height, resolution.width);
        writeln!(out, "  2. resolution: {low} x {narrow} instead of {height} x {width}{}", Left(resolution.outcome))?;
        match (accumulation.steps, accumulation.micro_batch) {
            (1, _) => writeln!(out, "  3. accumulation: the batch cannot be divided further")?,
            (steps, micro_batch) => {
                let exactly = if batch % steps == 0 { "" } else { "at most " };
                let outcome = Left(accumulation.outcome);
                writeln!(
                    out,
                    "  3. accumulation: {steps} steps of {exactly}{micro_batch} keep the batch of {batch}{outcome}"
                )?;
            }
        }
        let already = self.configuration.as_ref().is_some_and(|source| source.half_precision);
        let already = if already { " (the configuration has it on)" } else { "" };
        writeln!(out, "  4. mixed precision{already}: 2 bytes a value halve it{}", Left(*mixed_precision))
    }
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.path, self.kind)?;
        self.figures.iter().try_for_each(|(name, origin)| write!(out, "\n  {name}: {origin}"))?;
        match self.loss_scale {
            Some(LossScale::Dynamic) => write!(out, "\n  half precision: f16, dynamic loss scale"),
            Some(LossScale::Static(scale)) => write!(out, "\n  half precision: f16, loss scale {scale}"),
            None if self.half_precision => write!(out, "\n  half precision: on"),
            None => Ok(()),
        }
    }
}

/// What an advice comes to, and whether that suffices.
struct Left(Outcome);

impl fmt::Display for Left {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not_enough = if self.0.is_safe { "" } else { ", not enough alone" };
        write!(out, " ({}{not_enough})", Gib(self.0.total_bytes))
    }
}

/// Bytes in GiB, as guides print them.
struct Gib(u64);

impl fmt::Display for Gib {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gibibytes = self.0 as f64 / f64::from(1 << 30);
        match gibibytes {
            0.0..0.001 => out.write_str("under 0.001 GiB"),
            0.0..1.0 => write!(out, "{gibibytes:.3} GiB"),
            _ => write!(out, "{gibibytes:.2} GiB"),
        }
    }
}
