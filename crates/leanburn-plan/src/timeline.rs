//! What lives when: the memory of a step from its first operation to its last.

use std::fmt;

use leanburn_common::Bytes;

/// What a block of memory is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Trained weights and running statistics.
    Weights,
    /// Gradients of weights.
    Gradients,
    /// States of optimizers.
    Optimizer,
    /// Averages of weights.
    Average,
    /// Weights of a network that is not trained.
    Frozen,
    /// Micro-batches.
    Batch,
    /// Saved activations: made in forward, used in backward.
    SavedActivations,
    /// Temporaries: made and freed within one part of the step, gradients of activations among them.
    Temporaries,
    /// Needed by operations while they run, and scratch memory that threads keep for the next one.
    Workspace,
    /// Graph metadata: the graph that autodiff holds, and handles of tensors.
    GraphMetadata,
}

impl Cause {
    /// All causes, in the order of tables and charts.
    pub const ALL: [Self; 10] = [
        Self::Weights,
        Self::Gradients,
        Self::Optimizer,
        Self::Average,
        Self::Frozen,
        Self::Batch,
        Self::SavedActivations,
        Self::Temporaries,
        Self::Workspace,
        Self::GraphMetadata,
    ];
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Weights => "weights",
            Self::Gradients => "gradients",
            Self::Optimizer => "optimizer states",
            Self::Average => "average of weights",
            Self::Frozen => "frozen weights",
            Self::Batch => "batch",
            Self::SavedActivations => "saved activations",
            Self::Temporaries => "temporaries",
            Self::Workspace => "workspace",
            Self::GraphMetadata => "graph metadata",
        })
    }
}

/// A part of the training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// From the batch to the loss.
    Forward,
    /// From the loss to the gradients, second runs of segments included.
    Backward,
    /// From the gradients to new weights.
    Update,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Update => "update",
        })
    }
}

/// An operation event: one operation of the step and the memory around it.
#[derive(Clone, Debug)]
pub struct OperationEvent {
    /// Name of the operation, such as `conv3d` or `matmul`.
    pub operation: String,
    /// Part of the step.
    pub phase: Phase,
    /// Segment that it belongs to, if any: an index into [`Timeline::segments`].
    pub segment: Option<usize>,
    /// Floating-point operations.
    pub flops: u64,
    /// How often it runs: 1, or more where one stands for several.
    pub repeats: f64,
    /// Whether its largest tensor is in half precision.
    pub is_half: bool,
    /// Read and written.
    pub bytes_moved: Bytes,
    /// Held while it runs: what was there, its outputs, its workspace.
    pub during: Bytes,
    /// Held after it, when what was used for the last time is gone.
    pub after: Bytes,
    /// Part of `during` that is workspace.
    pub workspace: Bytes,
    /// Part of `during` that is graph metadata.
    pub graph_metadata: Bytes,
}

/// A piece of memory that tensors share.
#[derive(Clone, Debug)]
pub struct Block {
    /// Size as allocated.
    pub bytes: Bytes,
    /// What it is there for.
    pub cause: Cause,
    /// Segment that made it: an index into [`Timeline::segments`].
    pub segment: Option<usize>,
    /// Index of the operation event that made it; 0 also for what was there before.
    pub born: usize,
    /// Index of the last operation event that sees it.
    pub last: usize,
}

/// The memory of a step from its first operation to its last.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The operations in order.
    pub events: Vec<OperationEvent>,
    /// The blocks in the order in which they were made.
    pub blocks: Vec<Block>,
    /// Names of the segments, in the order in which they first ran.
    pub segments: Vec<String>,
    /// For each segment the one around it, if any.
    pub parents: Vec<Option<usize>>,
    /// For each segment whether it could be [streamed](leanburn_ops::Residency::Stream).
    pub streamable: Vec<bool>,
}

impl Timeline {
    /// Index of the operation event that holds the most, the first of several; 0 for an empty timeline.
    pub fn peak_index(&self) -> usize {
        let order = |&(a, x): &(usize, &OperationEvent), &(b, y): &(usize, &OperationEvent)| {
            x.during.cmp(&y.during).then(b.cmp(&a))
        };
        self.events.iter().enumerate().max_by(order).map_or(0, |(index, _)| index)
    }

    /// The most that is held at once.
    pub fn peak(&self) -> Bytes {
        self.events.get(self.peak_index()).map_or(Bytes(0), |event| event.during)
    }

    /// The largest block.
    pub fn largest(&self) -> Bytes {
        self.blocks.iter().map(|block| block.bytes).max().unwrap_or_default()
    }

    /// The blocks that are there at an operation event.
    pub fn blocks_at(&self, index: usize) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| (block.born..=block.last).contains(&index))
    }

    /// Bytes by cause at an operation event, workspace and graph metadata included, in the order of [`Cause::ALL`], without
    /// those that are nothing.
    pub fn causes_at(&self, index: usize) -> Vec<(Cause, Bytes)> {
        let other = |cause| match (self.events.get(index), cause) {
            (Some(event), Cause::Workspace) => event.workspace,
            (Some(event), Cause::GraphMetadata) => event.graph_metadata,
            _ => Bytes(0),
        };
        let sum = |cause| {
            let blocks = self.blocks_at(index).filter(|block| block.cause == cause).map(|block| block.bytes);
            blocks.sum::<Bytes>() + other(cause)
        };
        Cause::ALL.map(|cause| (cause, sum(cause))).into_iter().filter(|(_, bytes)| *bytes > Bytes(0)).collect()
    }

    /// The most that blocks of one cause hold together at any operation event.
    pub fn most(&self, cause: Cause) -> Bytes {
        let mut made = vec![Bytes(0); self.events.len()];
        let mut gone = made.clone();
        for block in self.blocks.iter().filter(|block| block.cause == cause) {
            if let (Some(made), Some(gone)) = (made.get_mut(block.born), gone.get_mut(block.last)) {
                *made += block.bytes;
                *gone += block.bytes;
            }
        }
        let (mut held, mut most) = (Bytes(0), Bytes(0));
        for (made, gone) in made.into_iter().zip(gone) {
            held += made;
            most = most.max(held);
            held = held - gone;
        }
        most
    }

    /// The outermost segment around a segment.
    pub fn outermost(&self, segment: usize) -> usize {
        self.parents[segment].map_or(segment, |parent| self.outermost(parent))
    }

    /// Bytes by segment at an operation event, largest first; blocks that belong to no segment are left out.
    pub fn segments_at(&self, index: usize) -> Vec<(&str, Bytes)> {
        let mut sums = vec![Bytes(0); self.segments.len()];
        for block in self.blocks_at(index) {
            if let Some(segment) = block.segment {
                sums[segment] += block.bytes;
            }
        }
        let mut named: Vec<_> =
            self.segments.iter().map(String::as_str).zip(sums).filter(|(_, sum)| *sum > Bytes(0)).collect();
        named.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
        named
    }
}

/// The most that a step planned to hold `peak` may hold: what fit checks compare with a budget.
///
/// 3 % and 256 KiB more. Plans are checked against measured peaks (`tests/planned_peak.rs` of `leanburn-train`); the constant covers
/// the error of the planned graph metadata, which shows in steps of a few MiB only.
pub fn bound(peak: Bytes) -> Bytes {
    Bytes(peak.get() + 3 * peak.get() / 100) + Bytes::kib(256)
}
