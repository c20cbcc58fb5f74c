//! What several processes hold and exchange, by their plan.

use clap::Args;
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use leanburn_common::Bytes;
use leanburn_ops::EXCHANGE_PLANES;
use leanburn_plan::{Cause, Phase, Timeline};
use leanburn_systems::planning::ConfigSpace;
use serde_json::{Value, json};

use crate::console::seconds_text;
use crate::error::{CommandError, Result};

/// How many processes train together, and what is between them.
#[derive(Debug, Clone, Args)]
pub(super) struct RanksArguments {
    /// Plan for one of so many processes that train together (`mpirun -n N leanburn train`).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    ranks: Option<u64>,
    /// What a process sends in a second while all do, such as 1.25GB (10 Gbit/s Ethernet, the default) or 25GB.
    #[arg(long, value_name = "BYTES", default_value = "1.25GB", requires = "ranks")]
    interconnect: Bytes,
}

impl RanksArguments {
    /// Space of the part of a step that one of the processes takes, in micro-batches as configured.
    ///
    /// # Errors
    ///
    /// [`CommandError::Arguments`] if micro-batches cannot be dealt out.
    pub fn share_of(&self, space: ConfigSpace) -> Result<ConfigSpace> {
        let found =
            |count| format!("is {}, and a step has {count} micro-batches, of all processes together", self.count());
        let remedy = "set gradient_accumulation_steps to a multiple of the processes";
        self.dealt_out(&space, space.configured().accumulation, found, remedy)?;
        Ok(space.of_ranks(self.count()))
    }

    /// The same in micro-batches of any size.
    ///
    /// # Errors
    ///
    /// [`CommandError::Arguments`] if the items of a step cannot be dealt out.
    pub fn share_of_items(&self, space: ConfigSpace) -> Result<ConfigSpace> {
        let found = |count| format!("is {}, and a step has {count} items, of all processes together", self.count());
        let remedy = "give --effective-batch a multiple of the processes";
        self.dealt_out(&space, space.effective_batch() as u64, found, remedy)?;
        Ok(space.of_ranks(self.count()))
    }

    /// Whether a number of processes was given.
    pub fn are_given(&self) -> bool {
        self.ranks.is_some()
    }

    /// Whether processes are to exchange anything.
    pub fn are_several(&self) -> bool {
        self.count() > 1
    }

    fn count(&self) -> u64 {
        self.ranks.unwrap_or(1)
    }

    fn dealt_out(
        &self,
        space: &ConfigSpace,
        count: u64,
        found: impl Fn(u64) -> String,
        remedy: &'static str,
    ) -> Result<()> {
        let reject = |found, remedy| Err(CommandError::Arguments { errors: vec![("--ranks".into(), found)], remedy });
        let of_a_volume = if self.are_several() { space.volume_ranks() } else { 1 };
        if !self.count().is_multiple_of(of_a_volume) {
            let found = format!("is {}, and each volume is held by {of_a_volume} processes", self.count());
            return reject(found, "give a multiple of volume_ranks");
        }
        match count.is_multiple_of(self.count() / of_a_volume) {
            true => Ok(()),
            false => reject(found(count), remedy),
        }
    }

    /// What is exchanged in a step of this timeline, of so many seconds; none without `--ranks`. Where the processes split the optimizer's
    /// states, that is of gradients and then of weights, else twice of gradients.
    pub fn exchange(&self, timeline: &Timeline, seconds: f64, shards: bool) -> Option<Exchange> {
        let gradients = timeline.most(Cause::Gradients);
        let bytes_per_second = self.interconnect.get() as f64;
        let exchanges = timeline.events.iter().filter(|event| event.operation == EXCHANGE_PLANES);
        let both_ways: f64 = exchanges.map(|event| event.repeats * event.bytes_moved.get() as f64).sum();
        let (planes, shards) = (Bytes((both_ways / 2.0) as u64), |ranks| shards && ranks > 1);
        self.ranks.map(|ranks| Exchange { ranks, gradients, planes, seconds, bytes_per_second, shards: shards(ranks) })
    }
}

/// The sums of a step's gradients over several processes: each sends every other one a part, adds what it gets, and sends the sums.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    ranks: u64,
    gradients: Bytes,
    /// Sent to the processes that hold the same volumes.
    planes: Bytes,
    /// Of a step without it.
    seconds: f64,
    bytes_per_second: f64,
    /// Whether each process updates a part of the weights.
    shards: bool,
}

/// What is summed at once, and what a message takes beside its bytes.
const WINDOW: Bytes = Bytes(4 * leanburn_train::EXCHANGE_WINDOW as u64);
const MESSAGE_SECONDS: f64 = 20e-6;

impl Exchange {
    /// Buffers of a process while gradients are summed: small gradients together, what is sent, what is received. Where it updates a part
    /// of the weights, while they are gathered: the weights once more, what is sent, what is received.
    fn buffers(&self) -> Bytes {
        let window = self.gradients.min(WINDOW);
        match (self.ranks, self.shards) {
            (1, _) => Bytes(0),
            (_, false) => window + window + window.min(Bytes(8 << 20)),
            (_, true) => window + window + self.gradients,
        }
    }

    /// What the buffers add to the peak of a step.
    pub fn above_peak(&self, timeline: &Timeline) -> Bytes {
        let update = timeline.events.iter().find(|event| event.phase == Phase::Update);
        let held = update.map_or(Bytes(0), |event| event.during);
        (held + self.buffers()).saturating_sub(timeline.peak())
    }

    /// What a process sends in a step.
    fn sent(&self, ranks: u64) -> Bytes {
        Bytes(2 * self.gradients.get() * (ranks - 1) / ranks)
    }

    fn exchange_seconds(&self, ranks: u64) -> f64 {
        let windows = self.gradients.get().div_ceil(WINDOW.get());
        let messages = 2 * windows * (ranks - 1);
        (self.sent(ranks) + self.planes).get() as f64 / self.bytes_per_second + messages as f64 * MESSAGE_SECONDS
    }

    /// One line for this many processes.
    pub fn line(&self, accumulation: u64) -> String {
        let Self { ranks, gradients, .. } = self;
        let (sent, seconds) = (self.sent(*ranks), seconds_text(self.exchange_seconds(*ranks)));
        let planes = match self.planes {
            Bytes(0) => String::new(),
            planes => format!(" and {planes} of planes"),
        };
        let states = if self.shards { format!(" and 1 / {ranks} of the optimizer's states") } else { String::new() };
        format!(
            "of {ranks} ranks, each with {accumulation} of a step's micro-batches{states}: a step sends {sent} from each rank (2 x {} / {ranks} of \
             {gradients} of gradients){planes}, about {seconds}",
            ranks - 1
        )
    }

    /// Steps of more and more processes, each with as many micro-batches as here.
    pub fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header(["simulated: ranks", "step", "exchange", "work against one"]);
        for ranks in (0..=10).map(|power| 1 << power) {
            let exchange = self.exchange_seconds(ranks);
            let speedup = ranks as f64 * self.seconds / (self.seconds + exchange);
            table.add_row([
                ranks.to_string(),
                seconds_text(self.seconds + exchange),
                seconds_text(exchange),
                format!("{speedup:.1} x"),
            ]);
        }
        for column in 0..4 {
            table.column_mut(column).into_iter().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        }
        table
    }

    /// Everything for machines.
    pub fn json(&self) -> Value {
        json!({
            "ranks": self.ranks,
            "gradient_bytes": self.gradients,
            "sent_bytes": self.sent(self.ranks),
            "plane_bytes": self.planes,
            "exchange_seconds": self.exchange_seconds(self.ranks),
            "buffer_bytes": self.buffers(),
            "shards_optimizer": self.shards,
        })
    }
}

#[cfg(test)]
mod tests {
    use leanburn_plan::{Candidate, Space};
    use leanburn_systems::Config;
    use leanburn_train::planning::Planner;

    use super::*;

    fn exchange(ranks: u64) -> Exchange {
        Exchange {
            ranks,
            gradients: Bytes::mib(40),
            planes: Bytes(0),
            seconds: 2.0,
            bytes_per_second: 1e9,
            shards: false,
        }
    }

    #[test]
    fn a_rank_sends_what_a_ring_sends() {
        assert_eq!(exchange(1).sent(1), Bytes(0));
        assert_eq!(exchange(4).sent(4), Bytes::mib(60));
        assert_eq!(exchange(4).sent(1024), Bytes(2 * (40 << 20) * 1023 / 1024));
        let messages = 2.0 * 3.0 * 3.0 * MESSAGE_SECONDS; // three windows, three other ranks
        assert!((exchange(4).exchange_seconds(4) - (60.0 * 1048576.0 / 1e9 + messages)).abs() < 1e-9);
        assert_eq!((exchange(1).buffers(), exchange(4).buffers()), (Bytes(0), Bytes::mib(40)));
        assert_eq!(Exchange { shards: true, ..exchange(4) }.buffers(), Bytes::mib(72), "and the weights once more");
    }

    #[test]
    fn micro_batches_are_dealt_out_or_rejected() {
        let arguments = |ranks| RanksArguments { ranks: Some(ranks), interconnect: Bytes(1) };
        let space = || {
            let text = "autoencoder: {num_channels: [8], norm_num_groups: 8, training: {batch_size: 2, gradient_accumulation_steps: 8}}\n\
                        data: {phantom: {count: 2, shape: 16}, patch_size: 16}\ndevice: {name: flex}\n";
            let config = Config::parse(text, "test", &[]).unwrap();
            ConfigSpace::new(&config, "test", &Planner::cpu(), || config.data_size("test")).unwrap()
        };
        assert_eq!(arguments(4).share_of(space()).unwrap().configured().accumulation, 2);
        let error = arguments(3).share_of(space()).unwrap_err();
        assert!(error.to_string().contains("--ranks") && error.to_string().contains("8 micro-batches"), "{error}");
        let by_items = arguments(16).share_of_items(space()).unwrap();
        assert_eq!(by_items.splits(), [(1, 1)]);
        assert_eq!(by_items.config(&Candidate::new(1, 1)).training().gradient_accumulation_steps, 16);
        let error = arguments(3).share_of_items(space()).unwrap_err();
        assert!(error.to_string().contains("16 items"), "{error}");
    }
}
