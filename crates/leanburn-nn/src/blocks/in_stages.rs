//! Blocks that can be described in stages, so that they can be streamed.

use leanburn_ops::{Stages, Unstreamable, Volume};

/// A block that says what it computes in the stages of [`stream`](leanburn_ops::stream).
pub trait InStages {
    /// Appends what the block makes of the volume `x`; gives the volume that it makes.
    ///
    /// # Errors
    ///
    /// [`Unstreamable`] if it is more than norms of a volume, activations, convolutions (transposed too), enlargements and sums.
    fn append_to(&self, stages: &mut Stages, x: Volume) -> Result<Volume, Unstreamable>;
}

/// The stages of blocks that run one after the other.
///
/// # Errors
///
/// [`Unstreamable`] of the first block that is.
pub fn stages_of<'a, B: InStages + 'a>(blocks: impl IntoIterator<Item = &'a B>) -> Result<Stages, Unstreamable> {
    let mut stages = Stages::new();
    let input = stages.input();
    blocks.into_iter().try_fold(input, |x, block| block.append_to(&mut stages, x))?;
    Ok(stages)
}
