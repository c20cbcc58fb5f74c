//! What is planned for: a device, its memory and its speed.

use burn::tensor::Device;
use leanburn_common::Bytes;
use leanburn_ops::{Gpu, Tensors, with_rules_validated};
use leanburn_plan::catalogue::{Device as Card, UnknownDevice};
use leanburn_plan::{
    Class, CubeMemory, FlexMemory, Frontier, Machine, MemoryModel, Plans, Rates, Recording, Space, Target,
};

use super::processor::processor_rates;
use super::step_plan::StepPlan;
use crate::precision::Precision;
use crate::recorded_step::{RecordStepError, RecordedStep, record_at_most};
use crate::trainer::Trainer;
use crate::workload::Workload;

/// Plans training steps for a device, which need not be here.
///
/// # Example
///
/// ```
/// use leanburn_common::Bytes;
/// use leanburn_train::planning::Planner;
///
/// let planner = Planner::card("rtx-4090")?;
/// assert!(planner.budget() > Some(Bytes::gib(23)));
/// let careful = planner.within(Bytes::gib(16)).with_other_bytes(Bytes::mib(200));
/// assert_eq!(careful.budget(), Some(Bytes::gib(16)));
/// # Ok::<(), leanburn_plan::catalogue::UnknownDevice>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Planner {
    key: String,
    name: String,
    target: Target,
    memory: &'static dyn MemoryModel,
    rates: Rates,
    half: Option<Precision>,
    budget: Option<Bytes>,
    context: Bytes,
    other: Bytes,
    largest_allocation: Option<Bytes>,
    /// Why things of the device are assumed, if they are.
    doubt: Option<String>,
    allowed: Class,
}

/// The card whose rates are taken for those of a card that the catalogue does not have.
const TYPICAL: &str = "rtx-4090";

/// Share of a card's memory that one allocation may have: CubeCL's default pool gives no larger page.
const LARGEST_ALLOCATION: f64 = 0.25;

impl Planner {
    /// For this machine's processor, by [its rates](super::processor_rates). There is no budget until one is given.
    pub fn cpu() -> Self {
        Self {
            key: "flex".to_string(),
            name: "the CPU".to_string(),
            target: Target::Cpu,
            memory: &FlexMemory,
            rates: processor_rates(),
            half: Some(Precision::Bf16),
            budget: None,
            context: Bytes(0),
            other: Bytes(0),
            largest_allocation: None,
            doubt: None,
            allowed: Class::Lossless,
        }
    }

    /// For a card of the [catalogue](leanburn_plan::catalogue) by its name, such as `rtx-4090`. Its memory is the budget, its
    /// driver's context counts.
    ///
    /// # Errors
    ///
    /// [`UnknownDevice`] with the names that may have been meant.
    pub fn card(name: &str) -> Result<Self, UnknownDevice> {
        Card::find(name).map(Self::of_card)
    }

    /// For a card of the [catalogue](leanburn_plan::catalogue).
    pub fn of_card(card: &Card) -> Self {
        let memory = card.memory_bytes;
        Self {
            key: card.name.to_string(),
            name: card.full_name.to_string(),
            target: Target::Gpu,
            memory: &CubeMemory,
            rates: Rates::of_card(card),
            half: card.bf16_rate.map(|_| Precision::Bf16).or(card.f16_rate.map(|_| Precision::F16)),
            budget: Some(memory),
            context: card.context_bytes,
            largest_allocation: Some(memory.share(LARGEST_ALLOCATION)),
            ..Self::cpu()
        }
    }

    /// For a device of this machine. A card is asked for its name and memory; what else is known of it comes from the catalogue.
    ///
    /// # Panics
    ///
    /// Panics as the runtime of a GPU does where there is no driver.
    pub fn on(device: &Device) -> Self {
        let halves = [Precision::Bf16, Precision::F16];
        let half = halves.into_iter().find(|half| half.is_supported_by(device));
        let Some(gpu) = Gpu::of(device) else { return Self::cpu().with_half_precision(half) };
        let listed = gpu.memory.and_then(|memory| Card::of_driver(&gpu.name, Bytes(memory))).map(Self::of_card);
        let planner = listed.unwrap_or_else(|| Self::unlisted(&gpu.name, gpu.memory, Some(gpu.largest_allocation)));
        planner.with_half_precision(half)
    }

    /// For a card that the catalogue does not have, with what is known of it in bytes.
    pub fn unlisted(name: &str, memory: Option<u64>, largest_allocation: Option<u64>) -> Self {
        Self {
            key: name.to_string(),
            name: name.to_string(),
            target: Target::Gpu,
            memory: &CubeMemory,
            rates: Card::find(TYPICAL).map_or(Rates::TWO_CORES, Rates::of_card),
            budget: memory.map(Bytes),
            largest_allocation: largest_allocation.map(Bytes),
            doubt: Some(format!("{name} is not in the catalogue")),
            ..Self::cpu()
        }
    }

    /// With this budget, in place of all that the device has.
    pub fn within(mut self, budget: Bytes) -> Self {
        self.budget = Some(budget);
        self
    }

    /// With so many bytes that the process holds in addition to the step: data in memory, batches that wait.
    pub fn with_other_bytes(mut self, other: Bytes) -> Self {
        self.other = other;
        self
    }

    /// With so many more, on top of those that were given before.
    pub fn with_more_bytes(self, more: Bytes) -> Self {
        let other = self.other + more;
        self.with_other_bytes(other)
    }

    /// With changes of this class allowed in a fit; by default lossless ones only.
    pub fn allow(mut self, allowed: Class) -> Self {
        self.allowed = allowed;
        self
    }

    /// With other names: `key` for machines, `name` in words.
    pub fn named(mut self, key: impl Into<String>, name: impl Into<String>) -> Self {
        (self.key, self.name) = (key.into(), name.into());
        self
    }

    /// With a [warning](Self::warning) that begins with `doubt`: why things of the device are assumed.
    pub fn doubted(mut self, doubt: impl Into<String>) -> Self {
        self.doubt = Some(doubt.into());
        self
    }

    /// Where the program's runtime computes in this half precision, `None` for none. A card has what it has units for: where the
    /// runtime computes in bfloat16, the better one that the card computes in stays.
    pub fn with_half_precision(mut self, half: Option<Precision>) -> Self {
        self.half = if half == Some(Precision::Bf16) { self.half } else { half };
        self
    }

    /// With these rates, in place of those known of the device.
    pub fn with_rates(mut self, rates: Rates) -> Self {
        self.rates = rates;
        self
    }

    /// The class of changes that a fit may make.
    pub fn allowed(&self) -> Class {
        self.allowed
    }

    /// The device's name for machines: `flex` for the CPU, that of the catalogue for a card.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The device in words.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a recording must stand for.
    pub fn target(&self) -> Target {
        self.target
    }

    /// How the device allocates.
    pub fn memory_model(&self) -> &'static dyn MemoryModel {
        self.memory
    }

    /// How fast the device is.
    pub fn rates(&self) -> Rates {
        self.rates
    }

    /// The half precision that the device computes in, the better one of two.
    pub fn half_precision(&self) -> Option<Precision> {
        self.half
    }

    /// What there is; `None` where nothing is known.
    pub fn budget(&self) -> Option<Bytes> {
        self.budget
    }

    /// What the driver's context takes of the device.
    pub fn context(&self) -> Bytes {
        self.context
    }

    /// What is counted besides the step: the context of a driver, and what [`with_other_bytes`](Self::with_other_bytes) was
    /// told.
    pub fn other_bytes(&self) -> Bytes {
        self.context + self.other
    }

    /// The largest tensor that the device makes, where that is known.
    pub fn largest_allocation(&self) -> Option<Bytes> {
        self.largest_allocation
    }

    /// What is assumed because it is not known of the device.
    pub fn warning(&self) -> Option<String> {
        let doubt = self.doubt.as_ref()?;
        let size = if self.budget.is_none() { "its memory is not known, " } else { "" };
        let typical = Card::find(TYPICAL).map_or(TYPICAL, |card| card.full_name);
        Some(format!("{doubt}: {size}the driver's context is not counted, times are those of the {typical}"))
    }

    /// What a search of the planner's crate measures plans against.
    pub fn machine(&self) -> Machine<'static> {
        Machine { memory: self.memory, rates: self.rates, other_bytes: self.other_bytes() }
    }

    /// A search for plans of a space of one's own. Plans with a tensor larger than the [largest
    /// allocation](Self::largest_allocation) are left out, as long as there are others.
    pub fn plans<'a, S: Space>(&self, space: &'a S, machine: &'a Machine<'a>) -> Plans<'a, S> {
        Plans::new(space, machine).with_largest_allocation(self.largest_allocation)
    }

    /// The best plans of a space of one's own, with the changes that are allowed, for [budgets of `least` and more](Plans::down_to).
    ///
    /// # Errors
    ///
    /// The first that recording gives.
    pub fn search<S: Space>(&self, space: &S, least: Bytes) -> Result<Frontier, S::Error> {
        self.plans(space, &self.machine()).down_to(least, self.allowed)
    }

    /// What a step of the trainer that `build` makes will need, with micro-batches that `batch` makes, both on the device they are
    /// given. Where a workload has a learner that begins later in a run, build it so that it begins at once.
    ///
    /// # Memory
    ///
    /// A few hundred bytes an operation; no tensor has values.
    ///
    /// # Errors
    ///
    /// What `build` gives; [`RecordStepError::Residency`] if a rule of a policy matches no segment of the step;
    /// [`RecordStepError::Record`] with what to write instead if the step does what [cannot be
    /// recorded](leanburn_plan::Obstacle).
    pub fn plan<W, E>(
        &self,
        build: impl FnOnce(&Device) -> Result<Trainer<W>, E>,
        batch: impl Fn(&Device) -> W::Batch,
    ) -> Result<StepPlan, RecordStepError<E>>
    where
        W: Workload,
        W::Batch: Tensors + Clone,
    {
        let (recorded, errors) = with_rules_validated(|| record_at_most(2, self.target, build, batch));
        let RecordedStep { recording, micro_batches, recorded } = recorded?;
        if !errors.is_empty() {
            return Err(RecordStepError::Residency { errors });
        }
        Ok(self.plan_recorded(&recording, micro_batches, recorded))
    }

    /// What a step of so many micro-batches will need, of which `recorded` are in the recording.
    pub fn plan_recorded(&self, recording: &Recording, micro_batches: u64, recorded: u64) -> StepPlan {
        let timeline = recording.timeline(self.memory);
        let needed = self.memory.needed(&timeline) + self.other_bytes();
        let seconds = self.rates.seconds(&timeline, micro_batches, recorded);
        StepPlan { timeline, needed, seconds, budget: self.budget }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planner_knows_its_device() {
        let cpu = Planner::on(&Device::flex());
        assert_eq!((cpu.key(), cpu.name(), cpu.target(), cpu.budget()), ("flex", "the CPU", Target::Cpu, None));
        assert_eq!((cpu.half_precision(), cpu.other_bytes()), (Some(Precision::Bf16), Bytes(0)));
        let card = Planner::card("t4").unwrap();
        assert_eq!((card.target(), card.half_precision(), card.warning()), (Target::Gpu, Some(Precision::F16), None));
        assert!(card.budget() > Some(Bytes::gib(14)) && card.context() > Bytes(0));
        assert_eq!(
            (card.key(), card.clone().with_more_bytes(Bytes(1)).other_bytes().get()),
            ("t4", card.context().get() + 1)
        );
        assert_eq!(card.largest_allocation(), card.budget().map(|memory| memory.share(0.25)));
        assert!(Planner::card("4091").unwrap_err().to_string().contains("rtx-4090"));
    }

    #[test]
    fn of_an_unlisted_card_is_said_what_is_assumed() {
        let card = Planner::unlisted("Some GPU", None, None);
        assert_eq!((card.target(), card.budget()), (Target::Gpu, None));
        let warning = card.warning().unwrap();
        assert!(warning.starts_with("Some GPU is not in the catalogue: its memory is not known, "), "{warning}");
        let known = card.clone().within(Bytes::gib(8)).doubted("device.name is x").warning().unwrap();
        assert!(known.starts_with("device.name is x: the driver's context is not counted, "), "{known}");
        assert_eq!(card.rates(), Planner::card("rtx-4090").unwrap().rates());
    }

    #[test]
    fn half_precision_is_one_that_card_and_runtime_compute_in() {
        let halves = |planner: Planner| {
            let by_runtime = |half| planner.clone().with_half_precision(half).half_precision();
            [Some(Precision::Bf16), Some(Precision::F16), None].map(by_runtime)
        };
        let (bf16, f16) = (Some(Precision::Bf16), Some(Precision::F16));
        assert_eq!(halves(Planner::card("t4").unwrap()), [f16, f16, None]);
        assert_eq!(halves(Planner::card("rtx-4090").unwrap()), [bf16, f16, None]);
        assert_eq!(halves(Planner::cpu()), [bf16, f16, None]);
    }
}
