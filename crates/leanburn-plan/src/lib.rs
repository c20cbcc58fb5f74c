//! Trace of a training step without a device: what it will need.
