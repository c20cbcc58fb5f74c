//! How a model slides over a volume: arguments shared by `reconstruct`, `encode`, `decode` and `segment`.

use clap::Args;
use leanburn_common::Bytes;
use leanburn_data::SlidingWindow;
use leanburn_systems::{Codec, CodecTask, SystemError};

use crate::error::Result;
use crate::progress::Progress;

/// Size and overlap of patches.
#[derive(Debug, Args)]
pub(super) struct WindowArguments {
    /// Go through the volume in overlapping patches of so many of its voxels: --patch 64,64,64. Without, `segment` takes patches
    /// of the size that the model was trained on, the others the whole volume at once.
    #[arg(long, value_delimiter = ',')]
    patch: Option<Vec<usize>>,
    /// How much neighbouring patches overlap, as a share of their size.
    #[arg(long, default_value_t = 0.25, requires = "patch")]
    overlap: f64,
}

impl WindowArguments {
    /// The patches that were asked for, if any were.
    pub fn window(&self) -> Result<Option<SlidingWindow>> {
        let Some(patch) = &self.patch else {
            return Ok(None);
        };
        let reject = |expected: &str| SystemError::Input {
            subject: "--patch".into(),
            expected: expected.into(),
            found: format!("{patch:?} with --overlap {}", self.overlap),
            remedy: "for instance --patch 64,64,64 --overlap 0.25".into(),
        };
        let size = match patch[..] {
            [side] => [side; 3],
            [depth, height, width] => [depth, height, width],
            _ => return Err(reject("one size for all axes, or one for each").into()),
        };
        match SlidingWindow::new(size, self.overlap) {
            Some(window) => Ok(Some(window)),
            None => Err(reject("sizes of at least 1 and an overlap of at least 0 and below 1").into()),
        }
    }
}

/// How much memory a volume may take that goes through whole.
#[derive(Debug, Args)]
pub(super) struct BudgetArgument {
    /// Memory that a volume may take with what is computed of it, such as 2GiB: where it needs more, what can be is done in slabs, without
    /// seams.
    #[arg(long, value_name = "BYTES", conflicts_with = "patch")]
    budget: Option<Bytes>,
}

impl BudgetArgument {
    /// The codec for a volume, or a latent, of this extent.
    pub fn apply(&self, codec: &Codec, task: CodecTask, extent: [usize; 3]) -> Result<Option<Codec>> {
        Ok(self.budget.map(|budget| codec.within(budget, task, extent)).transpose()?)
    }
}

/// Lets `work` call what it is given after each patch, with how many there are, and shows how far it is.
pub(super) fn with_progress<T>(work: impl FnOnce(&mut dyn FnMut(usize)) -> T) -> T {
    let mut progress: Option<Progress> = None;
    let result = work(&mut |patches| {
        progress.get_or_insert_with(|| Progress::new("patches", patches as u64, 0)).step(String::new);
    });
    progress.iter().for_each(Progress::finish);
    result
}
