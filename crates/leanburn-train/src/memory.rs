//! Live and peak bytes of a run.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::tensor::Device;
use leanburn_common::Bytes;
use leanburn_ops::probe;
use serde::{Deserialize, Serialize};

use crate::out_of_memory::unwind;

pub use leanburn_ops::CountingAllocator;

/// What is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Held now.
    pub live: Bytes,
    /// The most held since the last [`MemoryMonitor::start`].
    pub peak: Bytes,
    /// What the allocator adds to what was asked for; nothing on the CPU.
    #[serde(default)]
    pub padding: Bytes,
    /// Taken from the device, padding and free pages included; on the CPU the same as `live`.
    pub reserved: Bytes,
}

/// The most that each part of a step held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhasePeaks {
    /// From batches to losses.
    pub forward: Bytes,
    /// From losses to gradients.
    pub backward: Bytes,
    /// From gradients to new weights.
    pub update: Bytes,
}

/// Reads the memory of a device: the counted heap on the CPU, the allocator's pool on a GPU.
#[derive(Debug)]
pub struct MemoryMonitor {
    device: Device,
    /// The largest of the readings of a pool, and of the laps of the heap.
    peak: Mutex<Bytes>,
    /// The largest reading of a pool since the last lap.
    lap: Arc<Mutex<Bytes>>,
    /// Whether a pool is read after each operation.
    samples_operations: bool,
}

impl MemoryMonitor {
    /// A monitor of `device`.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), peak: Mutex::default(), lap: Arc::default(), samples_operations: false }
    }

    /// Reads the pool of a GPU after each operation, for a peak that is seen: each reading takes time, and the device
    /// may have to wait for it.
    pub fn sample_operations(&mut self) {
        self.samples_operations = true;
    }

    /// Runs a part of a step: on a GPU sampled where that was asked for, on the CPU up to the operation after which more than `limit` has
    /// been held. What happens then is as if the device had no more memory.
    pub(crate) fn during<T>(&self, limit: Option<Bytes>, part: impl FnOnce() -> T) -> T {
        match (self.pool(), limit) {
            (None, Some(limit)) => {
                let check = move || {
                    let held = Bytes(CountingAllocator.peak_usage() as u64);
                    if held > limit {
                        unwind(exceeded(held, limit));
                    }
                };
                return probe::sampled(Rc::new(check), part);
            }
            (Some(_), _) if self.samples_operations => {}
            _ => return part(),
        }
        let (device, lap) = (self.device.clone(), self.lap.clone());
        let sample = move || {
            let live = Bytes(device.memory_pool_usage().map_or(0, |pool| pool.bytes_in_use));
            let mut lap = lock(&lap);
            *lap = (*lap).max(live);
        };
        probe::sampled(Rc::new(sample), part)
    }

    /// Starts a new peak from what is live now.
    pub fn start(&self) {
        *lock(&self.peak) = self.pool().map_or(Bytes(0), |pool| pool.live);
        CountingAllocator.reset_peak_usage();
    }

    /// The most held since the start or the last lap; 0 where nothing counts.
    pub fn lap(&self) -> Bytes {
        let lap = match self.pool() {
            Some(pool) => pool.live.max(std::mem::take(&mut *lock(&self.lap))),
            None => Bytes(CountingAllocator.peak_usage() as u64),
        };
        let mut peak = lock(&self.peak);
        *peak = (*peak).max(lap);
        CountingAllocator.reset_peak_usage();
        lap
    }

    /// What is in use; `None` on a CPU whose program has not installed the [`CountingAllocator`].
    ///
    /// A pool keeps no peak of its own: on a GPU the peak is the largest of the readings, so read it where it is
    /// largest (the trainer reads between forward and backward), or [`sample_operations`](Self::sample_operations).
    pub fn read(&self) -> Option<MemoryUse> {
        if let Some(pool) = self.pool() {
            let mut peak = lock(&self.peak);
            *peak = (*peak).max(pool.live);
            return Some(MemoryUse { peak: *peak, ..pool });
        }
        let live = Bytes(CountingAllocator.current_usage() as u64);
        let peak = (*lock(&self.peak)).max(Bytes(CountingAllocator.peak_usage() as u64));
        (live > Bytes(0)).then_some(MemoryUse { live, peak, padding: Bytes(0), reserved: live })
    }

    /// What is held of the device, if that is more than `limit`: on a GPU what its pool has reserved, when what it can give
    /// back is given back; on the CPU `lap`, the most that was held since the last lap.
    pub fn excess(&self, limit: Bytes, lap: Bytes) -> Option<Bytes> {
        let held = match self.pool() {
            Some(pool) if pool.reserved > limit => {
                self.device.memory_cleanup();
                self.pool()?.reserved
            }
            Some(pool) => pool.reserved,
            None => lap,
        };
        (held > limit).then_some(held)
    }

    fn pool(&self) -> Option<MemoryUse> {
        let pool = self.device.memory_pool_usage()?;
        let [live, padding, reserved] = [pool.bytes_in_use, pool.bytes_padding, pool.bytes_reserved].map(Bytes);
        Some(MemoryUse { live, peak: Bytes(0), padding, reserved })
    }
}

/// What was held and may be held, in words.
pub(crate) fn exceeded(held: Bytes, limit: Bytes) -> String {
    format!("it held {held}, and may hold {limit}")
}

fn lock(value: &Mutex<Bytes>) -> MutexGuard<'_, Bytes> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
