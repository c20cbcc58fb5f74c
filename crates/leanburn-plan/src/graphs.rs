//! Graph metadata of autodiff: that of a step's graph, and that of the graphs of tensors outside of it.
//!
//! Read off Burn's autodiff 0.22. An operation with a gradient becomes a step of the graph of what went into it. A graph has
//! tables by step, whose room doubles when they are full; backward makes more of them. A weight has a graph of its own from the
//! time it is made until an operation takes it into another. An operation without a gradient has a graph of its own too.
//! Unused graphs are freed when a backward ends, together with the graph that it went through.

use std::collections::HashSet;

use burn::backend::ir::{OperationIr, TensorId};
use leanburn_ops::recording::Pass;

use crate::Phase;

/// Graph metadata: bytes of autodiff's graph and of handles of tensors, without the values of tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphMetadata {
    /// A tensor that lasts from step to step, with its place in a module or in a table.
    pub lasting: u64,
    /// Any other piece of memory that tensors share.
    pub tensor: u64,
    /// The graph of a weight that no graph has taken in.
    pub leaf: u64,
    /// The graph of an operation without a gradient.
    pub orphan: u64,
    /// A step of a graph.
    pub step: u64,
    /// What a step of an operation of ours keeps for each of its inputs.
    pub input: u64,
    /// A place in the tables of a graph.
    pub place: u64,
    /// A place in the tables that backward makes.
    pub backward_place: u64,
    /// A recomputed segment until its second run is over.
    pub segment: u64,
    /// One of its tensors, until then.
    pub segment_tensor: u64,
    /// One of its tensors while it runs.
    pub running_tensor: u64,
}

/// A graph that is being made, or that backward goes through.
#[derive(Default)]
struct Graph {
    steps: u64,
    /// Places in the tables that backward has made.
    backward_places: u64,
    /// Weights of a second run that are in it.
    leaves: HashSet<TensorId>,
    /// Inputs of each operation of ours that backward has not gone through, and their sum.
    inputs: Vec<u64>,
    sum_of_inputs: u64,
    /// Tensors of each segment that has not run again.
    segments: Vec<u64>,
}

impl Graph {
    fn bytes(&self, metadata: &GraphMetadata) -> u64 {
        let tensors: u64 = self.segments.iter().sum();
        metadata.step * self.steps
            + metadata.input * self.sum_of_inputs
            + metadata.place * places(self.steps)
            + metadata.backward_place * self.backward_places
            + metadata.segment * self.segments.len() as u64
            + metadata.segment_tensor * tensors
    }
}

/// All graphs at a point of a step.
pub(crate) struct Graphs {
    graph_metadata: GraphMetadata,
    /// Passes around it, innermost last.
    passes: Vec<Pass>,
    /// Whether an operation of ours runs.
    in_operation: bool,
    weights: HashSet<TensorId>,
    /// Tensors that a gradient flows through.
    tracked: HashSet<TensorId>,
    /// Tensors that autodiff does not know: gradients, new weights.
    plain: HashSet<TensorId>,
    /// Weights with a graph of their own.
    alone: HashSet<TensorId>,
    orphans: u64,
    /// The graph of the step, and within backward those of second runs, innermost last.
    graphs: Vec<Graph>,
    /// Tensors of each segment that runs.
    running: Vec<u64>,
}

impl Graphs {
    pub(crate) fn new(graph_metadata: GraphMetadata) -> Self {
        Self {
            graph_metadata,
            passes: Vec::new(),
            in_operation: false,
            weights: HashSet::new(),
            tracked: HashSet::new(),
            plain: HashSet::new(),
            alone: HashSet::new(),
            orphans: 0,
            graphs: vec![Graph::default()],
            running: Vec::new(),
        }
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        let graphs: u64 = self.graphs.iter().map(|graph| graph.bytes(&self.graph_metadata)).sum();
        let running: u64 = self.running.iter().sum();
        graphs
            + self.graph_metadata.leaf * self.alone.len() as u64
            + self.graph_metadata.orphan * self.orphans
            + self.graph_metadata.running_tensor * running
    }

    pub(crate) fn phase(&self) -> Phase {
        let is_in = |pass| self.passes.contains(&pass);
        match (is_in(Pass::Update), is_in(Pass::Backward)) {
            (true, _) => Phase::Update,
            (false, true) => Phase::Backward,
            (false, false) => Phase::Forward,
        }
    }

    /// A step begins. The optimizer of the one before has made its weights anew: the graphs of the old ones are unused.
    pub(crate) fn begin_step(&mut self) {
        self.orphans += self.alone.len() as u64;
        self.alone.clear();
        self.weights.clear();
        self.tracked.clear();
    }

    /// The weights of the step.
    pub(crate) fn meet_weights(&mut self, weights: impl Iterator<Item = TensorId>) {
        for weight in weights {
            self.plain.remove(&weight);
            for set in [&mut self.weights, &mut self.tracked, &mut self.alone] {
                set.insert(weight);
            }
        }
    }

    /// A pass begins; the first run of a segment with its tensors.
    pub(crate) fn begin(&mut self, pass: Pass, tensors: u64) {
        match pass {
            Pass::FirstRun => {
                if self.is_recording() {
                    self.innermost().segments.push(tensors);
                }
                self.running.push(tensors);
            }
            Pass::SecondRun => {
                let tensors = self.innermost().segments.last().copied().unwrap_or(0);
                self.running.push(tensors);
                self.graphs.push(Graph::default());
            }
            Pass::Backward => {
                let graph = self.innermost();
                graph.backward_places = places(graph.steps);
            }
            _ => {}
        }
        self.passes.push(pass);
    }

    /// The innermost pass ends.
    pub(crate) fn end(&mut self) {
        match self.passes.pop() {
            Some(Pass::FirstRun) => {
                self.running.pop();
                if self.is_recording() {
                    self.innermost().steps += STEPS_OF_A_SEGMENT;
                }
            }
            Some(Pass::SecondRun) => {
                self.running.pop();
                self.graphs.pop();
                self.innermost().segments.pop();
            }
            Some(Pass::Backward) => {
                *self.innermost() = Graph::default();
                self.orphans = 0;
            }
            _ => {}
        }
    }

    /// An operation of ours begins; its inputs are those of the marker.
    pub(crate) fn begin_operation(&mut self, marker: &OperationIr) {
        if !self.is_plain() && self.step(marker) {
            let inputs = marker.inputs().count() as u64;
            let graph = self.innermost();
            graph.inputs.push(inputs);
            graph.sum_of_inputs += inputs;
        }
        self.in_operation = true;
    }

    /// The operation ends.
    pub(crate) fn end_operation(&mut self) {
        self.in_operation = false;
    }

    /// Backward has gone through an operation of ours: the last one, give or take its neighbours.
    pub(crate) fn consume_operation(&mut self) {
        let graph = self.innermost();
        graph.sum_of_inputs -= graph.inputs.pop().unwrap_or(0);
    }

    /// One of Burn's operations, or a call of a kernel.
    pub(crate) fn run(&mut self, operation: &OperationIr) {
        if self.is_plain() {
            return; // its results may be constants under autodiff
        }
        let inputs = || operation.inputs().map(|tensor| tensor.id);
        let outputs = operation.outputs().map(|tensor| tensor.id);
        let is_under_autodiff = !matches!(self.passes.last(), Some(Pass::Backward | Pass::Update));
        if !is_under_autodiff || inputs().any(|id| self.plain.contains(&id)) {
            self.plain.extend(outputs);
            return;
        }
        if !operation.outputs().any(|tensor| tensor.dtype.is_float()) || inputs().next().is_none() {
            return;
        }
        if !self.in_operation {
            self.step(operation);
        }
        if inputs().any(|id| self.tracked.contains(&id)) {
            self.tracked.extend(outputs);
        }
    }

    /// Whether what runs is not under autodiff, though it may share tensors with what is.
    fn is_plain(&self) -> bool {
        self.passes.last() == Some(&Pass::Plain)
    }

    /// Whether what runs under autodiff becomes steps of a graph.
    fn is_recording(&self) -> bool {
        matches!(self.passes.last(), None | Some(Pass::SecondRun))
    }

    /// Whether the operation becomes a step of the graph that is being made; if not, it has one of its own.
    fn step(&mut self, operation: &OperationIr) -> bool {
        let tracked: Vec<TensorId> =
            operation.inputs().map(|tensor| tensor.id).filter(|id| self.tracked.contains(id)).collect();
        if tracked.is_empty() || !self.is_recording() {
            self.orphans += 1;
            return false;
        }
        let is_second_run = self.graphs.len() > 1;
        let graph = self.graphs.last_mut().expect("the graph of the step is there");
        let leaves = match is_second_run {
            // It has made leaves of its own.
            true => tracked.iter().filter(|id| self.weights.contains(id) && graph.leaves.insert(**id)).count(),
            false => tracked.iter().filter(|id| self.alone.remove(id)).count(),
        };
        graph.steps += 1 + leaves as u64;
        true
    }

    fn innermost(&mut self) -> &mut Graph {
        self.graphs.last_mut().expect("the graph of the step is there")
    }
}

/// A root, a gate, the hub, an output.
const STEPS_OF_A_SEGMENT: u64 = 4;

/// Places of a hash table with so many entries: a power of two, at most seven eighths of them taken.
fn places(entries: u64) -> u64 {
    match entries {
        0 => 0,
        1..4 => 4,
        4..8 => 8,
        _ => (entries * 8).div_ceil(7).next_power_of_two(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_double_when_they_are_full() {
        let found: Vec<u64> = [0, 3, 4, 7, 8, 14, 15, 448, 449].map(places).into();
        assert_eq!(found, [0, 4, 8, 8, 16, 16, 32, 512, 1024]);
    }
}
