//! The leanburn command: train, reconstruct, and account for memory.
