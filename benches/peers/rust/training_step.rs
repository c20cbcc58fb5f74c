//! One training step as a user of the library writes it, timed: what all comparisons of training steps share.

use std::time::Instant;

use burn::module::Module;
use burn::tensor::Tensor;
use clap::{Args, ValueEnum};
use leanburn::prelude::*;
use serde_json::{Map, Value, json};

use crate::measure::{Line, Step, Timing, live_bytes, report};
use crate::values::fill;

/// How a model is trained.
#[derive(Args)]
pub struct Training {
    #[command(flatten)]
    timing: Timing,
    /// Of the activations; parameters are float32.
    #[arg(long, value_enum, default_value = "f32")]
    dtype: Dtype,
    /// Run every segment again in backward.
    #[arg(long)]
    recompute: bool,
    /// But for those of this pattern.
    #[arg(long, requires = "recompute")]
    keep: Option<String>,
    #[arg(long)]
    learning_rate: f64,
    /// Updates before the clock runs; the steps before the first and after the last of them are compared.
    #[arg(long, default_value_t = 3)]
    updates: usize,
    /// Leave the optimizer's step out, to see that it is noticed.
    #[arg(long)]
    no_update: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Dtype {
    F32,
    Bf16,
}

/// The loss of a step, and the terms of it in which all programs have to agree too.
pub struct Losses {
    pub total: Tensor<1>,
    pub terms: Vec<(&'static str, Tensor<1>)>,
}

impl From<Tensor<1>> for Losses {
    fn from(total: Tensor<1>) -> Self {
        Self { total, terms: Vec::new() }
    }
}

/// What is trained.
pub struct Subject<M> {
    /// Of the model in messages.
    pub name: &'static str,
    /// Its parameters are filled.
    pub model: M,
    /// How its segments run, as the table says it.
    pub mode: String,
    /// Whether its layers are Burn's own.
    pub burn: bool,
}

impl Training {
    pub fn residency(&self) -> ResidencyPolicy {
        match (self.recompute, &self.keep) {
            (false, _) => ResidencyPolicy::keep(),
            (true, None) => ResidencyPolicy::recompute_all(),
            (true, Some(kept)) => ResidencyPolicy::recompute_all().with_rule(kept, Residency::Keep),
        }
    }

    /// The residency, as the table says it.
    pub fn mode(&self) -> String {
        match (self.recompute, &self.keep) {
            (false, _) => "plain".into(),
            (true, None) => "recomputed".into(),
            (true, Some(kept)) => format!("recomputed, not {kept}"),
        }
    }

    /// Of the activations.
    pub fn precision(&self) -> Precision {
        match self.dtype {
            Dtype::F32 => Precision::F32,
            Dtype::Bf16 => Precision::Bf16,
        }
    }

    /// Steps by Adam.
    pub fn steps<M: Module>(
        &self,
        Subject { name, model, mode, burn }: Subject<M>,
        losses: impl Fn(&M) -> Losses,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let parameters = model.num_params();
        let config = LearnerConfig::new(ScheduleConfig::new(self.learning_rate));
        let mut learner = Learner::new(name, fill(model), config)?;
        let dtype = match self.dtype {
            Dtype::F32 => "f32",
            Dtype::Bf16 => "bf16",
        };
        let mut step = 0;
        report(Line { mode: &mode, dtype, burn, untimed: self.updates + 1 }, &self.timing, || {
            let (begin, live) = (Instant::now(), live_bytes());
            let Losses { total, terms } = losses(learner.module());
            let kept_bytes = live_bytes() - live;
            learner.accumulate(total.clone(), 1.0);
            let prepared = learner.prepare();
            let gradient_norm = prepared.gradients().expect("a loss was accumulated").norm;
            if !self.no_update {
                assert!(prepared.update(step).is_some_and(|report| !report.skipped), "the optimizer has stepped");
            }
            step += 1;
            let seconds = begin.elapsed().as_secs_f64();
            let named = terms.into_iter().chain([("loss", total)]);
            let mut checks: Map<String, Value> =
                named.map(|(name, loss)| (name.into(), loss.into_scalar::<f32>().into())).collect();
            checks.insert("parameters".into(), json!(parameters));
            checks.insert("gradient norm".into(), json!(gradient_norm));
            Step { seconds, kept_bytes, checks: checks.into() }
        });
        Ok(())
    }
}
