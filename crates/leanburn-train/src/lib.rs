//! Precision, accumulation, checkpoints, monitoring and trainers.
