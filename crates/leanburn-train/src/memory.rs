//! Live and peak bytes of a run.

use std::sync::Mutex;

use burn::tensor::Device;
use peak_alloc::PeakAlloc;
use serde::{Deserialize, Serialize};

/// An allocator that counts the heap, for [`MemoryMonitor`] on the CPU. A program opts in:
///
/// ```
/// #[global_allocator]
/// static HEAP: leanburn_train::CountingAllocator = leanburn_train::CountingAllocator;
/// ```
pub use peak_alloc::PeakAlloc as CountingAllocator;

/// What is in use, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Held now.
    pub live: u64,
    /// The most held since the last [`MemoryMonitor::start`].
    pub peak: u64,
    /// Taken from the device, padding and free pages included; on the CPU the same as `live`.
    pub reserved: u64,
}

/// The most that each part of a step held, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhasePeaks {
    /// From batches to losses.
    pub forward: u64,
    /// From losses to gradients.
    pub backward: u64,
    /// From gradients to new weights.
    pub update: u64,
}

/// Reads the memory of a device: the counted heap on the CPU, the allocator's pool on a GPU.
#[derive(Debug)]
pub struct MemoryMonitor {
    device: Device,
    /// The largest of the readings of a pool, and of the laps of the heap.
    peak: Mutex<u64>,
}

impl MemoryMonitor {
    /// A monitor of `device`.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), peak: Mutex::new(0) }
    }

    /// Starts a new peak from what is live now.
    pub fn start(&self) {
        *self.lock_peak() = self.pool().map_or(0, |pool| pool.live);
        PeakAlloc.reset_peak_usage();
    }

    /// The most held since the start or the last lap; 0 where nothing counts.
    pub fn lap(&self) -> u64 {
        let lap = match self.pool() {
            Some(pool) => pool.live,
            None => PeakAlloc.peak_usage() as u64,
        };
        let mut peak = self.lock_peak();
        *peak = (*peak).max(lap);
        PeakAlloc.reset_peak_usage();
        lap
    }

    /// What is in use; `None` on a CPU whose program has not installed the [`CountingAllocator`].
    ///
    /// A pool keeps no peak of its own: on a GPU the peak is the largest of the readings, so read it where it is
    /// largest (the trainer reads between forward and backward).
    pub fn read(&self) -> Option<MemoryUse> {
        if let Some(pool) = self.pool() {
            let mut peak = self.lock_peak();
            *peak = (*peak).max(pool.live);
            return Some(MemoryUse { peak: *peak, ..pool });
        }
        let live = PeakAlloc.current_usage() as u64;
        let peak = (*self.lock_peak()).max(PeakAlloc.peak_usage() as u64);
        (live > 0).then_some(MemoryUse { live, peak, reserved: live })
    }

    fn pool(&self) -> Option<MemoryUse> {
        let pool = self.device.memory_pool_usage()?;
        Some(MemoryUse { live: pool.bytes_in_use, peak: 0, reserved: pool.bytes_reserved })
    }

    fn lock_peak(&self) -> std::sync::MutexGuard<'_, u64> {
        self.peak.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
