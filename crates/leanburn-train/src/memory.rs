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

/// Reads the memory of a device: the counted heap on the CPU, the allocator's pool on a GPU.
#[derive(Debug)]
pub struct MemoryMonitor {
    device: Device,
    pool_peak: Mutex<u64>,
}

impl MemoryMonitor {
    /// A monitor of `device`.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), pool_peak: Mutex::new(0) }
    }

    /// Starts a new peak from what is live now.
    pub fn start(&self) {
        match self.pool() {
            Some(pool) => *self.lock_peak() = pool.live,
            None => PeakAlloc.reset_peak_usage(),
        }
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
        (live > 0).then(|| MemoryUse { live, peak: PeakAlloc.peak_usage() as u64, reserved: live })
    }

    fn pool(&self) -> Option<MemoryUse> {
        let pool = self.device.memory_pool_usage()?;
        Some(MemoryUse { live: pool.bytes_in_use, peak: 0, reserved: pool.bytes_reserved })
    }

    fn lock_peak(&self) -> std::sync::MutexGuard<'_, u64> {
        self.pool_peak.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
