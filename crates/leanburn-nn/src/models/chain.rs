//! Encoders and decoders as chains of named blocks.

use burn::module::Module;
use burn::tensor::Tensor;
use leanburn_ops::ResidencyPolicy;

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

/// The segments of one level.
#[derive(Clone, Debug)]
struct Level {
    name: String,
    /// Names of its blocks.
    blocks: Vec<String>,
}

impl<B: Module + Sync + 'static> Chain<B> {
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

    /// Runs the blocks, each level and each block in it kept or recomputed as the policy says.
    pub(super) fn forward(
        &self,
        x: Tensor<5>,
        residency: &ResidencyPolicy,
        forward: fn(&B, Tensor<5>) -> Tensor<5>,
    ) -> Tensor<5> {
        let mut blocks = self.blocks.as_slice();
        self.levels.iter().fold(x, |x, level| {
            let (inside, behind) = blocks.split_at(level.blocks.len());
            blocks = behind;
            let (names, nested) = (level.blocks.clone(), residency.inside(&level.name));
            residency.run(&level.name, &inside.to_vec(), x, move |blocks, x| {
                let named = names.iter().zip(blocks);
                named.fold(x, |x, (name, block)| nested.run(name, block, x, forward))
            })
        })
    }

    /// Names of the segments in order of execution, each level before its blocks.
    pub fn segments(&self) -> Vec<String> {
        self.levels.iter().flat_map(|level| [&level.name].into_iter().chain(&level.blocks)).cloned().collect()
    }
}
