//! A training run from beginning to end: evaluation, checkpoints, resume, and stepping down when memory runs out.
//!
//! [`Session`] says what to run and where, [`Observer`] hears how it goes, [`Outcome`] is what it has come to. Everything that
//! a run leaves behind lies in its [`RunFolder`](crate::RunFolder).

mod account;
mod attempt;
mod best;
mod machine_check;
mod observer;
mod planned;
mod start;
mod step_down;

pub use account::{MemoryAccount, MemoryCause};
pub use best::Best;
pub use observer::{Beginning, Observed, Observer, Resumed, Snapshot};
pub use planned::Planned;
pub use start::{OnOutOfMemory, Outcome, Session};
pub use step_down::StepDown;
