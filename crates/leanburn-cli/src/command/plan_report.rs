//! What a plan says of a step: for the terminal, as JSON, as a page.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use leanburn_common::Bytes;
use leanburn_ops::{StreamKeep, StreamSettings};
use leanburn_plan::{Candidate, OperationEvent, Rates, Target, Timeline, bound};
use leanburn_systems::Config;
use leanburn_systems::planning::ConfigSpace;
use leanburn_train::planning::Planner;
use serde_json::{Value, json};

use super::budget::warning;
use super::ranks::Exchange;
use crate::console::{print_line, seconds_text};
use crate::error::Result;
use crate::report::{Advice, PlanPage, PredictionRow};

/// Segments that the terminal's table names.
const MOST_SEGMENTS: usize = 8;
/// The share of a step's time from which on attention is worth a warning.
const MUCH_ATTENTION: f64 = 0.5;

/// A step as it was traced, compared with a budget.
pub(super) struct PlanReport<'a> {
    pub config: &'a Config,
    pub source: &'a str,
    pub space: &'a ConfigSpace,
    pub candidate: Candidate,
    pub timeline: Timeline,
    /// What the device has to have for it, without a margin.
    pub taken: Bytes,
    pub planner: Planner,
    /// Seconds of a step, by the device's rates.
    pub seconds: f64,
    /// What is exchanged in a step, where it is that of one of several processes.
    pub exchange: Option<Exchange>,
}

impl<'a> PlanReport<'a> {
    /// Traces a step of one process.
    ///
    /// # Errors
    ///
    /// What keeps the configuration from being recorded.
    pub fn of(
        config: &'a Config,
        source: &'a str,
        space: &'a ConfigSpace,
        planner: Planner,
        candidate: Candidate,
    ) -> Result<Self> {
        let timeline = space.record_with(&candidate, candidate.recorded())?.timeline(planner.memory_model());
        let taken = planner.memory_model().taken(&timeline);
        let seconds = planner.rates().seconds(&timeline, candidate.accumulation, candidate.recorded());
        Ok(Self { config, source, space, candidate, timeline, taken, planner, seconds, exchange: None })
    }
}

impl PlanReport<'_> {
    /// Other bytes than those of the step, with names.
    pub fn other_bytes(&self) -> Vec<(String, Bytes)> {
        let gaps = (self.taken - self.timeline.peak(), "gaps in the pool's pages");
        let margin = (bound(self.taken) - self.taken, "margin of the plan");
        let context = (self.planner.context(), "context of the driver");
        let sums = self.exchange.as_ref().map_or(Bytes(0), |exchange| exchange.above_peak(&self.timeline));
        let held = self.space.held(&self.candidate).into_iter().map(|held| (held.name, held.bytes));
        let [device, margin] = [vec![gaps, context, (sums, "sums over ranks")], vec![margin]].map(|rows| {
            let rows = rows.into_iter().filter(|(bytes, _)| *bytes > Bytes(0));
            rows.map(|(bytes, name)| (name.to_string(), bytes)).collect::<Vec<_>>()
        });
        device.into_iter().chain(held).chain(margin).collect()
    }

    /// All that is needed at the peak.
    pub fn need(&self) -> Bytes {
        self.timeline.peak() + self.other_bytes().into_iter().map(|(_, bytes)| bytes).sum::<Bytes>()
    }

    /// Whether it fits; nothing without a budget.
    pub fn fits(&self) -> Option<bool> {
        self.planner.budget().map(|budget| self.need() <= budget)
    }

    fn peak(&self) -> Option<&OperationEvent> {
        self.timeline.events.get(self.timeline.peak_index())
    }

    fn segment_of(&self, event: &OperationEvent) -> &str {
        event.segment.map_or("no segment", |segment| &self.timeline.segments[segment])
    }

    /// The fit check in one line.
    pub fn fit_check(&self) -> String {
        let need = self.need();
        match self.planner.budget() {
            None => format!("needs {need}; give --budget or --gpu to check whether it fits"),
            Some(budget) if need <= budget => {
                let (left, share) = (budget - need, 100.0 * need.as_mib() / budget.as_mib());
                format!("fits: needs {need} of {budget}, {left} to spare ({share:.0} %)")
            }
            Some(budget) => format!("does not fit: needs {need} of {budget}, {} too much", need - budget),
        }
    }

    /// Where the peak stands, in one line.
    fn place(&self) -> String {
        let Some(event) = self.peak() else { return "nothing was recorded".into() };
        let (at, count) = (self.timeline.peak_index() + 1, self.timeline.events.len());
        format!(
            "peak in {}, {} of {} ({at} of {count} operations)",
            event.phase,
            event.operation,
            self.segment_of(event)
        )
    }

    fn rows(&self) -> Vec<(String, Bytes)> {
        let causes = self.timeline.causes_at(self.timeline.peak_index());
        causes.into_iter().map(|(cause, bytes)| (cause.to_string(), bytes)).chain(self.other_bytes()).collect()
    }

    /// How long a step takes, and by whose rates.
    fn step(&self) -> String {
        let is_assumed = self.planner.target() == Target::Cpu && self.planner.rates() == Rates::TWO_CORES;
        let rates = match is_assumed {
            true => "the rates of another processor; `leanburn calibrate` measures this one's",
            false => "the device's rates",
        };
        format!("about {} by {rates}", seconds_text(self.seconds))
    }

    /// What the fit check alone does not say.
    fn warnings(&self) -> Vec<String> {
        let unknown = self.space.unknown_data().map(unknown_data);
        too_large(self.timeline.largest(), &self.planner)
            .into_iter()
            .chain(self.attention())
            .chain(warning(&self.planner))
            .chain(unknown)
            .collect()
    }

    /// Says so where a step is little else than attention.
    fn attention(&self) -> Option<String> {
        let rates = self.planner.rates();
        let seconds = |is_counted: fn(&OperationEvent) -> bool| -> f64 {
            let counted = self.timeline.events.iter().filter(|event| is_counted(event));
            counted.map(|event| rates.seconds_of(event)).sum()
        };
        // One block stands for all where attention is made of blocks.
        let share =
            seconds(|event| event.operation.starts_with("attention") || event.repeats > 1.0) / seconds(|_| true);
        (share > MUCH_ATTENTION).then(|| {
            format!(
                "attention takes {:.0} % of the step's time, which grows with the square of the positions: at the larger levels \
                 `attention_levels` can leave it out",
                100.0 * share
            )
        })
    }

    /// Prints tables, and on request words.
    pub fn print(&self, explain: bool) -> Result<()> {
        let [depth, height, width] = self.space.extent(&self.candidate);
        let Candidate { micro_batch, accumulation, .. } = self.candidate;
        let (precision, device) = (self.config.device.resolved_precision(), self.planner.name());
        print_line(format_args!(
            "{}: {depth}x{height}x{width}, batch {micro_batch} x {accumulation}, {precision}, on {device}",
            self.source
        ))?;
        print_line(format_args!("{}\n{}", self.fit_check(), self.place()))?;
        self.streams().into_iter().try_for_each(print_line)?;
        print_line("")?;
        print_line(self.table("at the peak", &self.rows()))?;
        let segments: Vec<(String, Bytes)> = self.segments();
        if !segments.is_empty() {
            print_line(self.table("of which by segment", &segments))?;
        }
        print_line(format_args!("step  {}", self.step()))?;
        if let Some(exchange) = &self.exchange {
            print_line(exchange.line(accumulation))?;
            print_line(exchange.table())?;
        }
        for warning in self.warnings() {
            print_line(warning)?;
        }
        if explain {
            print_line(format_args!("\n{}", self.explain()))?;
        }
        Ok(())
    }

    /// Which segments run in slabs, if any do.
    fn streams(&self) -> Option<String> {
        let Candidate { stream, stream_settings: StreamSettings { slab_planes, keep, cached_percent }, .. } =
            &self.candidate;
        let whole = match keep {
            StreamKeep::Two => "two volumes of a block stored",
            StreamKeep::One => "one volume of a block stored",
            StreamKeep::None => "no volume stored",
            StreamKeep::Joined => "no volume stored, nor between neighbours",
        };
        let cached = match cached_percent {
            0 => String::new(),
            percent => format!(" and {percent} % of one more"),
        };
        let names = stream.join(", ");
        (!stream.is_empty()).then(|| format!("in slabs of {slab_planes} planes, {whole}{cached}: {names}"))
    }

    fn segments(&self) -> Vec<(String, Bytes)> {
        let mut all = self.timeline.segments_at(self.timeline.peak_index()).into_iter();
        let mut rows: Vec<(String, Bytes)> =
            all.by_ref().take(MOST_SEGMENTS).map(|(name, size)| (name.into(), size)).collect();
        let rest: Bytes = all.map(|(_, bytes)| bytes).sum();
        rows.extend((rest > Bytes(0)).then(|| ("the others".to_string(), rest)));
        rows
    }

    fn table(&self, heading: &str, rows: &[(String, Bytes)]) -> Table {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header([heading, "size", "share"]);
        for (name, bytes) in rows {
            let share = 100.0 * bytes.as_mib() / self.need().max(Bytes(1)).as_mib();
            table.add_row([name.clone(), bytes.to_string(), format!("{share:.1} %")]);
        }
        for column in [1, 2] {
            table.column_mut(column).into_iter().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        }
        table
    }

    fn explain(&self) -> String {
        let mut text = String::new();
        let rows = self.rows();
        let largest = rows.iter().max_by_key(|(_, bytes)| *bytes);
        if let (Some((cause, bytes)), Some(event)) = (largest, self.peak()) {
            let share = 100.0 * bytes.as_mib() / self.need().max(Bytes(1)).as_mib();
            let _ = writeln!(
                text,
                "The step holds the most while {} runs in {}. {share:.0} % of that is {cause}.",
                event.operation,
                self.segment_of(event)
            );
        }
        for advice in self.advice() {
            let _ = writeln!(text, "- {}: {}", advice.class, advice.text);
        }
        text.push_str(
            "`leanburn fit` searches these options and writes the configuration of the fastest one that fits.",
        );
        text
    }

    /// What would lower the peak, lossless changes first.
    pub fn advice(&self) -> Vec<Advice> {
        super::advice::advice(self.space, &self.candidate, &self.planner, self.timeline.peak())
    }

    /// Everything for machines.
    pub fn json(&self, explain: bool) -> Value {
        let sizes = |rows: Vec<(String, Bytes)>| -> Value {
            rows.into_iter().map(|(name, bytes)| json!({ "name": name, "bytes": bytes })).collect()
        };
        let peak = self.peak().map(|event| {
            json!({
                "operation": event.operation,
                "phase": event.phase.to_string(),
                "segment": event.segment.map(|segment| &self.timeline.segments[segment]),
                "index": self.timeline.peak_index(),
                "operations": self.timeline.events.len(),
            })
        });
        let mut all = json!({
            "config": self.source,
            "device": self.planner.key(),
            "extent": self.space.extent(&self.candidate),
            "micro_batch": self.candidate.micro_batch,
            "accumulation": self.candidate.accumulation,
            "recompute": self.candidate.recompute,
            "budget_bytes": self.planner.budget(),
            "needed_bytes": self.need(),
            "step_peak_bytes": self.timeline.peak(),
            "reserved_bytes": self.planner.memory_model().reserved(&self.timeline),
            "fits": self.fits(),
            "peak": peak,
            "causes": sizes(self.rows()),
            "segments": sizes(self.timeline.segments_at(self.timeline.peak_index()).into_iter().map(|(name, bytes)| (name.to_string(), bytes)).collect()),
            "step_seconds": self.seconds,
            "warnings": self.warnings(),
        });
        if !self.candidate.stream.is_empty() {
            all["stream"] = json!(self.candidate.stream);
            all["stream_settings"] = json!(self.candidate.stream_settings);
        }
        if let Some(exchange) = &self.exchange {
            all["exchange"] = exchange.json();
        }
        if explain {
            let advice = |Advice { class, text }: Advice| json!({ "class": class.to_string(), "change": text });
            all["advice"] = self.advice().into_iter().map(advice).collect();
        }
        for name in self.space.knob_names() {
            all[name] = json!(self.candidate.knob(name));
        }
        all
    }

    /// The page, with predictions and measurements where there are any.
    pub fn page(&self, predictions: Vec<PredictionRow>) -> Result<PlanPage> {
        let [depth, height, width] = self.space.extent(&self.candidate);
        let Candidate { micro_batch, accumulation, .. } = self.candidate;
        let summary = [
            ("device", self.planner.name().to_string()),
            ("volume", format!("{depth} x {height} x {width}")),
            ("batch", format!("{micro_batch} x {accumulation}")),
            ("precision", self.config.device.resolved_precision().to_string()),
            ("step", self.step()),
        ];
        let recorded = self.candidate.recorded();
        let drawn = (recorded < accumulation).then(|| {
            format!("{recorded} of the {accumulation} micro-batches are drawn; the others are like the last of these.")
        });
        let mut not_counted = vec!["stacks of threads, libraries, and what the heap leaves unused"];
        if self.planner.target() == Target::Gpu {
            not_counted.push("what autotuned products of matrices and Burn's own convolutions need while they run");
        }
        Ok(PlanPage {
            title: self.source.to_string(),
            summary: summary.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
            timeline: self.timeline.clone(),
            seconds: self.timeline.events.iter().map(|event| self.planner.machine().rates.seconds_of(event)).collect(),
            shapes: Vec::new(),
            other_bytes: self.other_bytes(),
            budget: self.planner.budget(),
            predictions,
            advice: self.advice(),
            warnings: drawn.into_iter().chain(self.warnings()).collect(),
            not_counted: not_counted.into_iter().map(String::from).collect(),
        })
    }
}

/// The warning of a tensor that the device does not allocate.
pub(super) fn too_large(largest: Bytes, planner: &Planner) -> Option<String> {
    let most = planner.largest_allocation().filter(|most| largest > *most)?;
    Some(format!(
        "the largest tensor has {largest}, more than the {most} that one allocation of this card may have in the default pool"
    ))
}

/// The warning of data whose size is not known.
pub(super) fn unknown_data(reason: &str) -> String {
    format!("what the data takes in memory is not counted: {reason}")
}
