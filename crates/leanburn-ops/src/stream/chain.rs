//! Stages with the sizes of their volumes: what each value and each gradient is made from.

use std::ops::Range;

use burn::tensor::{DType, Tensor};

use super::planes::Reach;
use super::settings::StreamKeep;
use super::stage::Stage;
use super::stages::Stages;
use crate::operations::check::{assert_dtype, assert_not_empty, assert_volume};
use crate::share::Share;

/// Something that is made in slabs: a volume, or the gradient of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Node {
    Value(usize),
    Gradient(usize),
}

impl Node {
    /// The volume that it is, or that it is the gradient of.
    pub(super) fn volume(self) -> usize {
        let (Self::Value(volume) | Self::Gradient(volume)) = self;
        volume
    }
}

/// The volumes that are stored whole in backward.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StoredVolumes {
    /// From the first pass on, each until its gradient takes its place.
    pub(super) give_way: Vec<usize>,
    /// The middles of residual blocks, what a result is made from: each from the first pass of its block to the last.
    pub(super) middles: Vec<usize>,
}

/// What is read: planes of a node.
pub(super) type Need = (Node, Range<usize>);

/// Stages with the dimensions of their volumes.
#[derive(Debug)]
pub(super) struct Chain {
    inputs: usize,
    stages: Vec<Stage>,
    reaches: Vec<Reach>,
    /// Of the whole inputs, and of what each stage makes.
    dims: Vec<[usize; 5]>,
    share: Share,
}

impl Chain {
    /// The chain of these stages behind inputs of which these are a share.
    ///
    /// # Panics
    ///
    /// Panics if shapes and dtypes do not go together, a stage cannot be cut along the depth, or the planes of a volume cannot be shared out
    /// evenly.
    pub(super) fn new(given: &[Tensor<5>], stages: Stages, share: Share) -> Self {
        const OPERATION: &str = "stream";
        let Stages { inputs, stages } =
            stages.streamable().unwrap_or_else(|obstacle| panic!("{OPERATION}: {obstacle}: recompute it instead"));
        assert!(!stages.is_empty(), "{OPERATION}: expected at least one stage, found none");
        assert_eq!(given.len(), inputs, "{OPERATION}: as many volumes go in as the stages have inputs");
        let dtype = given[0].dtype();
        let whole = given.iter().map(|x| {
            assert_not_empty(OPERATION, "input", x);
            assert_dtype(OPERATION, "input", x, dtype);
            let [batch_size, channels, depth, height, width] = x.dims();
            [batch_size, channels, depth * share.size(), height, width]
        });
        let mut chain = Self { inputs, stages: Vec::new(), reaches: Vec::new(), dims: whole.collect(), share };
        for stage in stages {
            let stage = stage.with_function_of_slope(dtype);
            let input = chain.dims[stage.of];
            let output = stage.output_dims(input, dtype);
            if let Some(plus) = stage.plus {
                assert_eq!(
                    chain.dims[plus], output,
                    "{OPERATION}: the residual has the dimensions of what it is added to"
                );
            }
            assert!(
                output[2].is_multiple_of(share.size()),
                "{OPERATION}: {} planes are to be shared out evenly among {} processes: use another number of processes",
                output[2],
                share.size()
            );
            chain.reaches.push(stage.reach(input[2], output[2]));
            chain.dims.push(output);
            chain.stages.push(stage);
        }
        chain
    }

    pub(super) fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Numbers of the volumes that go in.
    pub(super) fn inputs(&self) -> Range<usize> {
        0..self.inputs
    }

    /// The volume that a stage makes.
    pub(super) fn made_by(&self, stage: usize) -> usize {
        self.inputs + stage
    }

    /// The stage that makes a volume; `None` for an input.
    pub(super) fn maker(&self, volume: usize) -> Option<usize> {
        volume.checked_sub(self.inputs)
    }

    /// This process's.
    pub(super) fn share(&self) -> Share {
        self.share
    }

    /// The planes of a node that a process has.
    pub(super) fn planes_of(&self, node: Node, share: Share) -> Range<usize> {
        share.planes(self.depth(node.volume()))
    }

    /// All nodes in an order in which each stands before what it is made from: gradients are made from values and from gradients of later
    /// volumes, values from those of earlier ones.
    pub(super) fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        let last = self.last();
        (0..=last).map(Node::Gradient).chain((0..=last).rev().map(Node::Value))
    }

    /// The stage of this number.
    pub(super) fn stage(&self, stage: usize) -> &Stage {
        &self.stages[stage]
    }

    pub(super) fn reach(&self, stage: usize) -> &Reach {
        &self.reaches[stage]
    }

    /// Number of the last volume.
    pub(super) fn last(&self) -> usize {
        self.made_by(self.stages.len() - 1)
    }

    pub(super) fn dims(&self, volume: usize) -> [usize; 5] {
        self.dims[volume]
    }

    pub(super) fn depth(&self, volume: usize) -> usize {
        self.dims[volume][2]
    }

    /// Planes of the deepest volume that a process has.
    pub(super) fn deepest(&self) -> usize {
        (0..=self.last()).map(|volume| self.depth(volume)).max().unwrap_or(1) / self.share.size()
    }

    /// Positions of a channel.
    pub(super) fn positions(&self, volume: usize) -> usize {
        self.dims[volume][2..].iter().product()
    }

    /// Panics unless a tensor is a gradient of this process's share of the last volume.
    pub(super) fn check_gradient(&self, gradient: &Tensor<5>, dtype: DType) {
        let mut dims = self.dims(self.last());
        dims[2] /= self.share.size();
        assert_volume("stream", "gradient", gradient, dims);
        assert_dtype("stream", "gradient", gradient, dtype);
    }

    /// Stages with this volume as their input.
    pub(super) fn readers(&self, volume: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.stages.len()).filter(move |stage| self.stages[*stage].of == volume)
    }

    /// Stages that add this volume.
    pub(super) fn adders(&self, volume: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.stages.len()).filter(move |stage| self.stages[*stage].plus == Some(volume))
    }

    /// Stages with a norm of this volume.
    pub(super) fn norms(&self, volume: usize) -> impl Iterator<Item = usize> + '_ {
        self.readers(volume).filter(|stage| self.stages[*stage].has_norm())
    }

    /// The volumes that are stored whole while the segment runs backward.
    pub(super) fn stored(&self, keep: StreamKeep) -> StoredVolumes {
        let normed = match keep {
            StreamKeep::Two | StreamKeep::One => self.worth_storing(),
            StreamKeep::None | StreamKeep::Joined => Vec::new(),
        };
        let is_result = |volume: &&usize| self.stages[**volume - self.inputs].plus.is_some();
        let results: Vec<usize> = normed.iter().filter(is_result).copied().collect();
        let (Some(last), StreamKeep::One) = (results.last(), keep) else {
            return StoredVolumes { give_way: normed, middles: Vec::new() };
        };
        let of_result = |result: &usize| self.stages[result - self.inputs].of;
        let is_middle = |middle: &usize| normed.contains(middle) && !results.contains(middle);
        // What the last result takes is room for a middle, of one block after the other.
        let fits = |middle: &usize| results.iter().all(|result| self.elements(*middle) <= self.elements(*result));
        let middles =
            results.iter().map(of_result).filter(|middle| is_middle(middle) && fits(middle)).collect::<Vec<_>>();
        let has_middle = middles.contains(&of_result(last));
        let give_way = results.iter().filter(|result| !has_middle || *result != last).copied().collect();
        StoredVolumes { give_way, middles: if has_middle { middles } else { Vec::new() } }
    }

    /// The volumes that a norm reads, but for those that are one convolution away from the inputs.
    pub(super) fn worth_storing(&self) -> Vec<usize> {
        let mut convolutions = vec![0; self.dims.len()];
        for (made, stage) in (self.inputs..).zip(&self.stages) {
            let of_input = convolutions[stage.of] + usize::from(stage.has_weight());
            convolutions[made] = of_input.max(stage.plus.map_or(0, |plus| convolutions[plus]));
        }
        let is_worth = |volume: &usize| convolutions[*volume] > 1 && self.norms(*volume).next().is_some();
        (self.inputs..self.last()).filter(is_worth).collect()
    }

    /// Multiplications that make a node from what it [needs](Self::needs).
    pub(super) fn work(&self, node: Node) -> u64 {
        match node {
            Node::Value(volume) => self.maker(volume).map_or(0, |stage| self.work_of(stage)),
            Node::Gradient(volume) => self.readers(volume).map(|stage| self.work_of(stage)).sum(),
        }
    }

    /// Multiplications of a stage, forward; and of the gradient of its input.
    pub(super) fn work_of(&self, stage: usize) -> u64 {
        self.stages[stage].work(self.dims[self.stages[stage].of], self.dims[self.made_by(stage)])
    }

    /// Elements of a volume.
    pub(super) fn elements(&self, volume: usize) -> usize {
        self.dims[volume].iter().product()
    }

    /// Whether a volume is made to be added to another and for nothing else.
    pub(super) fn is_shortcut(&self, volume: usize) -> bool {
        self.readers(volume).next().is_none() && self.adders(volume).next().is_some()
    }

    /// Where a slab of a node that is asked for up to `end` ends: where no plane is computed twice.
    pub(super) fn aligned(&self, node: Node, end: usize) -> usize {
        match node {
            Node::Value(volume) => self.maker(volume).map_or(end, |stage| self.reaches[stage].aligned(end)),
            Node::Gradient(_) => end,
        }
    }

    /// Where a slab of a node begins, at or before `start`, so that no plane is computed twice.
    pub(super) fn aligned_start(&self, node: Node, start: usize) -> usize {
        (1..=start).rev().find(|plane| self.aligned(node, *plane) == *plane).unwrap_or(0)
    }

    /// What planes of a node, which are not none, are made from.
    ///
    /// A value: the input of its stage, and what is added. A gradient: for each stage that reads the volume the gradient of what that
    /// makes, and with a norm or an activation the volume itself; for each stage that adds it the gradient of what that makes.
    pub(super) fn needs(&self, node: Node, planes: &Range<usize>) -> Vec<Need> {
        match node {
            Node::Value(volume) => {
                let Some(stage) = self.maker(volume) else { return Vec::new() };
                let Stage { of, plus, .. } = self.stages[stage];
                let input = (Node::Value(of), self.reaches[stage].inputs(planes));
                let added = plus.map(|plus| (Node::Value(plus), planes.clone()));
                [input].into_iter().chain(added).collect()
            }
            Node::Gradient(volume) => {
                let mut needs = Vec::new();
                for stage in self.readers(volume) {
                    needs.push((Node::Gradient(self.made_by(stage)), self.reaches[stage].outputs(planes)));
                    if self.stages[stage].changes_input() {
                        needs.push((Node::Value(volume), planes.clone()));
                    }
                }
                let of_sums = self.adders(volume).map(|stage| (Node::Gradient(self.made_by(stage)), planes.clone()));
                needs.extend(of_sums);
                needs
            }
        }
    }
}
