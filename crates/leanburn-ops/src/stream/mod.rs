//! Exact training in slabs: a segment whose volumes are never there whole, or only those that are asked for.
//!
//! Between two norms everything is local: a slab of a volume is made from a slab of the one before and a few planes at its ends. A norm is
//! a barrier: forward needs its statistics before the first normalised voxel, backward needs two sums of the whole volume before the first
//! gradient. So a segment runs in passes along the depth, each of which ends at barriers:
//!
//! ```text
//! forward    x ─ up ─► U ─ norm ┊ conv ─► H ─ norm ┊ conv ─► Y ─ norm ┊ conv ─► out       ┊ statistics known from here on
//!            pass 1: U          pass 2: U, H       pass 3: H, Y       pass 4: Y, out
//! backward   pass 1: U, H, Y again in one march, as the statistics are known
//!            pass 2: sums of Y's norm, gradient of the last weight     pass 3: gradient of Y, in place of Y
//!            pass 4: sums of H's norm, gradient of the second weight   pass 5: gradient of H, in place of H
//!            pass 6: sums of U's norm, gradient of the first weight    pass 7: gradient of U in slabs, and of x
//! ```
//!
//! - `stages.rs`, `stage.rs`: what a segment computes; `settings.rs`: planes of a slab, volumes that are stored; `statistics.rs`: who is told
//!   those of a batch.
//! - `planes.rs`: which planes a stage needs for which; `chain.rs`: what each value and gradient is made from.
//! - `passes.rs`: the passes; `march.rs`: how one of them goes along the depth; `slabs.rs`: the pieces that are there.
//! - `slab.rs`: what is computed of a slab; `operation.rs`: the whole as an operation.
//!
//! Prior art: [StreamingCNN](https://arxiv.org/abs/1911.04432) trains in tiles without norms;
//! [LBANN](https://arxiv.org/abs/2007.12856) splits a volume over machines, and its norms in sums and a second stage, as here over time.

mod chain;
mod march;
mod operation;
mod passes;
mod planes;
mod settings;
mod slab;
mod slabs;
mod stage;
mod stages;
mod statistics;
mod unstreamable;

pub use operation::stream;
pub use settings::{StreamKeep, StreamSettings};
pub use stages::{StageEntry, Stages, Volume, Volumes};
pub use unstreamable::Unstreamable;
