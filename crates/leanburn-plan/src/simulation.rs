//! From a recording to its timeline: who holds what, and when it is let go.
//!
//! A tensor lives from the operation that makes it to the last one that mentions it; its memory as long as any tensor
//! sees it. What is there when the step begins (weights, states of optimizers) is there when it ends.

use std::collections::{HashMap, HashSet};

use burn::backend::ir::{OperationIr, TensorId, TensorIr, TensorStatus};
use leanburn_common::Bytes;
use leanburn_ops::recording::{Marker, TensorRole};

use crate::graphs::Graphs;
use crate::memory_model::{Kept, MemoryModel, Operand, Place};
use crate::operation::{bytes_of, flops_of, is_half, name_of};
use crate::timeline::{Block, Cause, OperationEvent, Phase, Timeline};

/// Runs through the operations and keeps account.
pub(crate) fn simulate(operations: &[OperationIr], memory: &dyn MemoryModel) -> Timeline {
    let mut account = Account::new(operations, memory);
    for (index, operation) in operations.iter().enumerate() {
        account.take(index, operation);
    }
    account.finish()
}

/// A tensor that is alive.
#[derive(Clone, Copy)]
struct Holder {
    /// Index of its block.
    block: usize,
    is_contiguous: bool,
}

/// A block while the account is kept.
struct Held {
    block: Block,
    /// Tensors that see it.
    tensors: usize,
    /// Whether it was there when the step began.
    is_lasting: bool,
    /// The phase in which it was made, unless it was there before.
    made_in: Option<Phase>,
}

struct Account<'a> {
    memory: &'a dyn MemoryModel,
    last_mention: HashMap<TensorId, usize>,
    tensors: HashMap<TensorId, Holder>,
    held: Vec<Held>,
    live: Bytes,
    events: Vec<OperationEvent>,
    segments: Vec<String>,
    parents: Vec<Option<usize>>,
    /// Names of the segments that could be streamed.
    streamable: HashSet<String>,
    /// Segments around the operation, innermost last.
    within: Vec<usize>,
    graphs: Graphs,
    /// Blocks that do not last from step to step.
    temporaries: u64,
    /// How often what is around the operation runs.
    repeats: Vec<f64>,
    /// What threads keep of the operations so far.
    kept: Kept,
}

impl<'a> Account<'a> {
    fn new(operations: &[OperationIr], memory: &'a dyn MemoryModel) -> Self {
        let mut last_mention = HashMap::new();
        for (index, operation) in operations.iter().enumerate() {
            last_mention.extend(operation.inputs().chain(operation.outputs()).map(|tensor| (tensor.id, index)));
        }
        Self {
            memory,
            last_mention,
            tensors: HashMap::new(),
            held: Vec::new(),
            live: Bytes(0),
            events: Vec::new(),
            segments: Vec::new(),
            parents: Vec::new(),
            streamable: HashSet::new(),
            within: Vec::new(),
            graphs: Graphs::new(memory.graph_metadata()),
            temporaries: 0,
            repeats: Vec::new(),
            kept: Kept::default(),
        }
    }

    fn take(&mut self, index: usize, operation: &OperationIr) {
        for tensor in operation.inputs() {
            self.meet(tensor);
        }
        let marker = match operation {
            OperationIr::Custom(custom) => Marker::of(custom),
            _ => None,
        };
        match marker {
            None | Some(Marker::Kernel { .. }) => self.run(index, operation, marker),
            Some(marker) => self.mark(operation, marker),
        }
        let mentioned: Vec<TensorId> = operation.inputs().chain(operation.outputs()).map(|tensor| tensor.id).collect();
        for id in mentioned {
            if self.last_mention[&id] == index {
                self.let_go(id);
            }
        }
        let held = self.live + self.overhead();
        if let Some(event) = self.events.last_mut() {
            event.after = held;
        }
    }

    fn phase(&self) -> Phase {
        self.graphs.phase()
    }

    /// What is not values of tensors.
    fn overhead(&self) -> Bytes {
        Bytes(self.memory.graph_metadata().tensor * self.temporaries + self.graphs.bytes())
    }

    /// A tensor that no operation has made (a constant, a loaded weight) is there from its first mention on.
    fn meet(&mut self, tensor: &TensorIr) {
        if !self.tensors.contains_key(&tensor.id) {
            let block = self.allocate(bytes_of(tensor), None);
            self.tensors.insert(tensor.id, Holder { block, is_contiguous: true });
            self.held[block].tensors += 1;
        }
    }

    fn mark(&mut self, operation: &OperationIr, marker: Marker<'_>) {
        match marker {
            Marker::SegmentBegins(name) => {
                let known = self.segments.iter().position(|segment| segment == name);
                let segment = known.unwrap_or_else(|| {
                    self.segments.push(name.to_string());
                    self.parents.push(self.within.last().copied());
                    self.segments.len() - 1
                });
                self.within.push(segment);
            }
            Marker::SegmentEnds => drop(self.within.pop()),
            Marker::Streamable(name) => {
                self.streamable.insert(name.to_string());
            }
            Marker::PassBegins(pass) => self.graphs.begin(pass, operation.inputs().count() as u64),
            Marker::PassEnds => self.graphs.end(),
            Marker::OperationBegins => self.graphs.begin_operation(operation),
            Marker::OperationConsumed => self.graphs.consume_operation(),
            Marker::OperationEnds => self.graphs.end_operation(),
            Marker::RepeatBegins { whole, part } => self.repeats.push(whole as f64 / part.max(1) as f64),
            Marker::RepeatEnds => drop(self.repeats.pop()),
            Marker::StepBegins => self.begin_step(),
            Marker::Tag(role) => {
                if role == TensorRole::Weights {
                    self.graphs.meet_weights(operation.inputs().map(|tensor| tensor.id));
                }
                for tensor in operation.inputs() {
                    let block = self.tensors[&tensor.id].block;
                    self.held[block].block.cause = cause_of(role);
                }
            }
            _ => {}
        }
    }

    /// Forgets what was before, except what is still there.
    fn begin_step(&mut self) {
        self.events.clear();
        self.graphs.begin_step();
        let mut places = HashMap::new();
        let held = std::mem::take(&mut self.held);
        for (place, mut held) in held.into_iter().enumerate().filter(|(_, held)| held.tensors > 0) {
            places.insert(place, self.held.len());
            if !held.is_lasting {
                held.block.bytes += Bytes(self.memory.graph_metadata().lasting);
            }
            (held.is_lasting, held.made_in, held.block.born) = (true, None, 0);
            if matches!(held.block.cause, Cause::Temporaries | Cause::SavedActivations | Cause::Gradients) {
                held.block.cause = Cause::Optimizer; // weights and averages have said what they are
            }
            self.held.push(held);
        }
        self.temporaries = 0;
        self.live = self.held.iter().map(|held| held.block.bytes).sum(); // what a step before has let go of is gone
        for holder in self.tensors.values_mut() {
            holder.block = places[&holder.block];
        }
    }

    fn run(&mut self, index: usize, operation: &OperationIr, marker: Option<Marker<'_>>) {
        let operands: Vec<Operand<'_>> = operation.inputs().map(|tensor| self.operand(index, tensor)).collect();
        let effect = match &marker {
            Some(Marker::Kernel { workspace, over, .. }) => {
                self.memory.kernel(operation, &operands, Bytes(*workspace), *over)
            }
            _ => self.memory.effect(operation, &operands),
        };
        self.kept = self.kept.and(effect.kept);
        let segment = self.within.last().copied().or_else(|| self.segment_before());
        for (tensor, (place, is_contiguous)) in operation.outputs().zip(&effect.outputs) {
            let block = match place {
                Place::New => self.allocate(bytes_of(tensor), segment),
                Place::Input(input) => self.tensors[&operands[*input].tensor.id].block,
            };
            self.held[block].tensors += 1;
            self.tensors.insert(tensor.id, Holder { block, is_contiguous: *is_contiguous });
        }
        self.graphs.run(operation);
        let held = self.live + self.overhead();
        let moved = operation.inputs().chain(operation.outputs()).map(bytes_of).sum();
        self.events.push(OperationEvent {
            operation: name_of(operation),
            phase: self.phase(),
            segment,
            flops: flops_of(operation),
            repeats: self.repeats.iter().product(),
            is_half: is_half(operation),
            bytes_moved: moved,
            during: held + effect.workspace,
            after: held,
            workspace: effect.workspace,
            graph_metadata: self.overhead(),
        });
    }

    fn operand<'t>(&self, index: usize, tensor: &'t TensorIr) -> Operand<'t> {
        let holder = self.tensors[&tensor.id];
        let is_last = tensor.status == TensorStatus::ReadWrite && self.last_mention[&tensor.id] == index;
        let is_unique = is_last && self.held[holder.block].tensors == 1;
        Operand { tensor, is_contiguous: holder.is_contiguous, is_unique }
    }

    /// What Burn's own operations do in backward belongs to the segment of the operation before.
    fn segment_before(&self) -> Option<usize> {
        self.events.last().filter(|event| event.phase == Phase::Backward && self.phase() == Phase::Backward)?.segment
    }

    fn allocate(&mut self, bytes: Bytes, segment: Option<usize>) -> usize {
        let bytes = self.memory.allocated(bytes);
        self.live += bytes;
        let now = self.events.len();
        let block = Block { bytes, cause: Cause::Temporaries, segment, born: now, last: now };
        self.temporaries += 1;
        self.held.push(Held { block, tensors: 0, is_lasting: false, made_in: Some(self.phase()) });
        self.held.len() - 1
    }

    fn let_go(&mut self, id: TensorId) {
        let Some(holder) = self.tensors.remove(&id) else { return };
        let phase = self.phase();
        let held = &mut self.held[holder.block];
        held.tensors -= 1;
        if held.tensors > 0 || held.is_lasting {
            return;
        }
        held.block.last = self.events.len().saturating_sub(1).max(held.block.born);
        if held.made_in == Some(Phase::Forward) && phase != Phase::Forward && held.block.cause == Cause::Temporaries {
            held.block.cause = Cause::SavedActivations;
        }
        self.live = self.live - held.block.bytes;
        self.temporaries -= 1;
    }

    /// The timeline of all steps but the first: what threads keep of a step before is there from the beginning.
    fn finish(mut self) -> Timeline {
        let end = self.events.len().saturating_sub(1);
        let blocks = self.held.into_iter().map(|held| match held.is_lasting || held.tensors > 0 {
            true => Block { last: end, ..held.block },
            false => held.block,
        });
        let bytes = self.kept.total();
        let kept = Block { bytes, cause: Cause::Workspace, segment: None, born: 0, last: end };
        for event in &mut self.events {
            (event.during, event.after) = (event.during + bytes, event.after + bytes);
        }
        let blocks = blocks.chain((bytes > Bytes(0)).then_some(kept)).collect();
        let streamable = self.segments.iter().map(|name| self.streamable.contains(name)).collect();
        Timeline { blocks, events: self.events, segments: self.segments, parents: self.parents, streamable }
    }
}

fn cause_of(role: TensorRole) -> Cause {
    match role {
        TensorRole::Weights => Cause::Weights,
        TensorRole::Gradients => Cause::Gradients,
        TensorRole::Average => Cause::Average,
        TensorRole::Frozen => Cause::Frozen,
        TensorRole::Batch => Cause::Batch,
        _ => Cause::Optimizer,
    }
}
