//! Shape of a layer norm, and how it is cut into tasks.

use std::ops::Range;

use crate::shape_error::{ShapeError, ShapeProblem};
use crate::size::check_volume;

/// Values of a tile: with its normalised values they fit the second cache.
const TILE: usize = 1 << 14;

/// Tasks of a volume, if there are so many tiles. A number of its own, so that no result depends on that of the threads.
const TASKS: usize = 64;

/// Shape of a layer norm: `[batch_size, channels, positions]`. Every value of this type was validated: no extent is zero, and
/// the volume can be addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    pub(super) batch_size: usize,
    pub(super) channels: usize,
    pub(super) positions: usize,
}

impl LayerShape {
    /// A volume of so many positions.
    ///
    /// # Errors
    ///
    /// Where an extent is zero, or the volume takes more than 128 TiB.
    pub fn new([batch_size, channels, positions]: [usize; 3]) -> Result<Self, ShapeError> {
        let extents = [("batch", batch_size), ("channels", channels), ("positions", positions)];
        if let Some((name, _)) = extents.into_iter().find(|(_, extent)| *extent == 0) {
            return Err(ShapeProblem::Zero { name }.into());
        }
        check_volume("the input", &[batch_size, channels, positions])?;
        Ok(Self { batch_size, channels, positions })
    }

    /// Number of elements of the volume.
    pub fn volume_len(&self) -> usize {
        self.batch_size * self.channels * self.positions
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Positions of a tile.
    pub(super) fn tile(&self) -> usize {
        (TILE / self.channels).clamp(16, 512).min(self.positions)
    }

    /// Tasks of an item of the batch.
    fn tasks_of_item(&self) -> usize {
        (TASKS / self.batch_size).clamp(1, self.positions.div_ceil(self.tile()))
    }

    pub(super) fn tasks(&self) -> usize {
        self.batch_size * self.tasks_of_item()
    }

    /// The item of a task, and its positions.
    pub(super) fn part(&self, task: usize) -> (usize, Range<usize>) {
        let (tasks, tiles) = (self.tasks_of_item(), self.positions.div_ceil(self.tile()));
        let first = |part: usize| (part * (tiles / tasks) + part.min(tiles % tasks)) * self.tile();
        let part = task % tasks;
        (task / tasks, first(part)..first(part + 1).min(self.positions))
    }
}
