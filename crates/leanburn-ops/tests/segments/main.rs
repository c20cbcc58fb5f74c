//! Segments kept, recomputed, streamed, shared and recorded. One program, which is linked once.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/junction.rs"]
mod junction;
#[path = "../common/level.rs"]
mod level;
mod operation_records;
#[path = "../common/ranks.rs"]
mod ranks;
mod recompute;
mod recorded;
mod shared_volume;
mod stream;
mod stream_work;
