//! Encoders and decoders as chains of named blocks.

use burn::module::Module;
use burn::tensor::Tensor;
use leanburn_ops::{
    Residency, ResidencyPolicy, Unstreamable, gather_planes, own_planes, with_overlapped_writes, with_whole_volumes,
};

use crate::blocks::{InStages, stages_of};

/// Blocks that run one after the other.
///
/// Each block is a named segment, and so is each level: the blocks between two places where the volume is small. A
/// recomputed level keeps the small volume it starts from.
#[derive(Module, Debug)]
pub struct Chain<B> {
    blocks: Vec<B>,
    #[module(skip)]
    levels: Vec<Level>,
}

/// Which planes of a volume a process has, where several hold it together.
#[derive(Clone, Copy)]
enum Planes {
    Own,
    All,
}

/// The segments of one level.
#[derive(Clone, Debug)]
struct Level {
    name: String,
    /// Names of its blocks.
    blocks: Vec<String>,
}

impl<B: Module + InStages + Sync + 'static> Chain<B> {
    /// A chain of no blocks.
    pub(super) fn new() -> Self {
        Self { blocks: Vec::new(), levels: Vec::new() }
    }

    /// What is appended from now on belongs to the level of this name.
    pub(super) fn begin(&mut self, level: String) {
        self.levels.push(Level { name: level, blocks: Vec::new() });
    }

    /// Appends a block to the last level.
    pub(super) fn push(&mut self, name: String, block: B) {
        self.levels.last_mut().expect("a chain begins with a level").blocks.push(name);
        self.blocks.push(block);
    }

    /// Runs the blocks of an encoder, each level and each block in it kept, recomputed or streamed as the policy says.
    ///
    /// Of [several processes](leanburn_ops::with_volume_ranks) each gives its share of the planes, and gets the whole result: the levels that
    /// are streamed are shared, all others are computed by each process.
    pub(super) fn encode(
        &self,
        x: Tensor<5>,
        residency: &ResidencyPolicy,
        forward: fn(&B, Tensor<5>) -> Tensor<5>,
    ) -> Tensor<5> {
        match with_overlapped_writes(|| self.forward(x, Planes::Own, residency, forward)) {
            (x, Planes::All) => x,
            (x, Planes::Own) => gather_planes(x),
        }
    }

    /// The same of a decoder: each process gives the whole input, and gets its share of the result.
    pub(super) fn decode(
        &self,
        x: Tensor<5>,
        residency: &ResidencyPolicy,
        forward: fn(&B, Tensor<5>) -> Tensor<5>,
    ) -> Tensor<5> {
        match with_overlapped_writes(|| self.forward(x, Planes::All, residency, forward)) {
            (x, Planes::All) => own_planes(x),
            (x, Planes::Own) => x,
        }
    }

    fn forward(
        &self,
        x: Tensor<5>,
        planes: Planes,
        residency: &ResidencyPolicy,
        forward: fn(&B, Tensor<5>) -> Tensor<5>,
    ) -> (Tensor<5>, Planes) {
        let (mut x, mut planes) = (x, planes);
        let (mut levels, mut blocks) = (self.levels.as_slice(), self.blocks.as_slice());
        while let Some(level) = levels.first() {
            let (together, later) = levels.split_at(residency.joined(levels.iter().map(|level| level.name.as_str())));
            let (inside, behind) = blocks.split_at(together.iter().map(|level| level.blocks.len()).sum());
            (levels, blocks) = (later, behind);
            let is_streamed = matches!(residency.of(&level.name), Residency::Stream(_));
            (x, planes) = match (planes, is_streamed) {
                (Planes::Own, false) => (gather_planes(x), Planes::All),
                (Planes::All, true) => (own_planes(x), Planes::Own),
                as_it_is => (x, as_it_is.0),
            };
            let inside = inside.to_vec();
            x = if let [level] = together {
                let (names, nested) = (level.blocks.clone(), residency.inside(&level.name));
                let run_blocks = move |blocks: &Vec<B>, x: Tensor<5>| {
                    let named = names.iter().zip(blocks);
                    let run = |x, (name, block): (&String, &B)| {
                        nested.run_stages(name, block, x, forward, |block| stages_of([block]))
                    };
                    with_whole_volumes(|| named.fold(x, run))
                };
                residency.run_stages(&level.name, &inside, x, run_blocks, |blocks| stages_of(blocks))
            } else {
                let names: Vec<&str> = together.iter().map(|level| level.name.as_str()).collect();
                residency.run_joined(&names, &inside, x, |blocks| stages_of(blocks))
            };
        }
        (x, planes)
    }

    /// What stands against streaming each segment, if anything does.
    pub(super) fn unstreamable(&self) -> Vec<(String, Option<Unstreamable>)> {
        let mut blocks = self.blocks.as_slice();
        let of_level = |level: &Level| {
            let (inside, behind) = blocks.split_at(level.blocks.len());
            blocks = behind;
            let of_blocks =
                level.blocks.iter().zip(inside).map(|(name, block)| (name.clone(), stages_of([block]).err()));
            [(level.name.clone(), stages_of(inside).err())].into_iter().chain(of_blocks).collect::<Vec<_>>()
        };
        self.levels.iter().flat_map(of_level).collect()
    }

    /// Names of the segments in order of execution, each level before its blocks.
    pub fn segments(&self) -> Vec<String> {
        self.levels.iter().flat_map(|level| [&level.name].into_iter().chain(&level.blocks)).cloned().collect()
    }
}
