//! The graphs of autodiff, counted as the planner goes through them.

use burn::backend::ir::OperationIr;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use leanburn_common::Bytes;
use leanburn_ops::recording::{TensorRole, mark_step, tag_module};
use leanburn_ops::{Residency, ResidencyPolicy, backward};
use leanburn_plan::{Effect, FlexMemory, GraphMetadata, MemoryModel, Operand, Phase, Recording, Target, record};

/// Nothing but graph metadata.
#[derive(Debug)]
struct Only(GraphMetadata);

impl MemoryModel for Only {
    fn effect(&self, operation: &OperationIr, operands: &[Operand<'_>]) -> Effect {
        FlexMemory.effect(operation, operands)
    }

    fn allocated(&self, _bytes: Bytes) -> Bytes {
        Bytes(0)
    }

    fn graph_metadata(&self) -> GraphMetadata {
        self.0
    }
}

const LAYERS: u64 = 12;
/// Each layer has a weight and a bias.
const WEIGHTS: u64 = 2 * LAYERS;
/// And a product, a bias that is shaped and added, and tanh.
const OPERATIONS: u64 = 4 * LAYERS;

fn step(device: &Device, residency: Residency, micro_batches: usize) {
    let policy = ResidencyPolicy { default: residency, ..ResidencyPolicy::default() };
    let layers: Vec<Linear> = (0..LAYERS).map(|_| LinearConfig::new(4, 4).init(device)).collect();
    for _ in 0..2 {
        mark_step(device);
        tag_module(TensorRole::Weights, &layers);
        for _ in 0..micro_batches {
            let x = Tensor::<2>::zeros([3, 4], device);
            let y = layers.iter().fold(x, |x, layer| {
                policy.run("layer", layer, x, |layer: &Linear, x: Tensor<2>| layer.forward(x).tanh())
            });
            let _ = backward(y.sum());
        }
    }
}

fn recorded(residency: Residency, micro_batches: usize) -> Recording {
    record(Target::Cpu, |device| step(device, residency, micro_batches)).unwrap().0
}

/// Graph metadata after each operation of the second step, with its phase.
fn counted(recording: &Recording, graph_metadata: GraphMetadata) -> Vec<(Phase, u64)> {
    let events = recording.timeline(&Only(graph_metadata)).events;
    events.iter().map(|event| (event.phase, event.graph_metadata.get())).collect()
}

/// Of those, the ones of the last forward pass.
fn of_forward(counts: &[(Phase, u64)]) -> &[(Phase, u64)] {
    counts.chunk_by(|a, b| a.0 == b.0).rfind(|stretch| stretch[0].0 == Phase::Forward).expect("a forward pass")
}

#[test]
fn weights_are_alone_until_a_graph_takes_them_in() {
    let leaf = GraphMetadata { leaf: 1, ..GraphMetadata::default() };
    let kept = counted(&recorded(Residency::Keep, 1), leaf);
    let forward = of_forward(&kept);
    assert!(forward[0].1 >= WEIGHTS - 2 && forward.is_sorted_by(|a, b| a.1 >= b.1), "{forward:?}");
    assert_eq!((forward[forward.len() - 1].1, kept[kept.len() - 1].1), (0, 0));
    let again = counted(&recorded(Residency::Keep, 2), leaf);
    assert!(of_forward(&again).iter().all(|(_, count)| *count == 0), "the first backward has gone through them");
    let recomputed = counted(&recorded(Residency::Recompute, 1), leaf);
    assert!(recomputed.iter().all(|(_, count)| *count == WEIGHTS), "no graph takes them in: {recomputed:?}");
}

#[test]
fn first_runs_leave_graphs_until_a_backward_ends() {
    let orphan = GraphMetadata { orphan: 1, ..GraphMetadata::default() };
    assert!(counted(&recorded(Residency::Keep, 2), orphan).iter().all(|(_, count)| *count == 0));
    let counts = counted(&recorded(Residency::Recompute, 1), orphan);
    // And the graphs of the weights of the step before.
    let most = of_forward(&counts).iter().map(|(_, count)| *count).max();
    assert_eq!(most, Some(OPERATIONS + WEIGHTS));
    assert!(counts[counts.len() - 1].1 < 4, "{counts:?}");
}

#[test]
fn steps_go_with_their_backward() {
    let count = |residency, graph_metadata| counted(&recorded(residency, 2), graph_metadata);
    let steps = GraphMetadata { step: 1, ..GraphMetadata::default() };
    let kept = count(Residency::Keep, steps);
    let most = of_forward(&kept).iter().map(|(_, count)| *count).max();
    assert_eq!(most, Some(OPERATIONS + 1), "and the sum");
    let recomputed = count(Residency::Recompute, steps);
    let most = of_forward(&recomputed).iter().map(|(_, count)| *count).max();
    assert_eq!(most, Some(4 * LAYERS + 1), "each segment is four steps");
    let running = count(Residency::Recompute, GraphMetadata { running_tensor: 1, ..GraphMetadata::default() });
    assert_eq!(
        running.iter().map(|(_, count)| *count).max(),
        Some(3),
        "one segment at a time: its input, weight, bias"
    );
    let segments = count(Residency::Recompute, GraphMetadata { segment: 1, ..GraphMetadata::default() });
    assert_eq!(of_forward(&segments).iter().map(|(_, count)| *count).max(), Some(LAYERS));
    assert_eq!(segments[segments.len() - 1].1, 1, "all have run again but the one whose last operation it is");
}
