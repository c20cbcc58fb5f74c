//! Batches made ahead by worker threads.

use crate::datasets::Batch;
use crate::datasets::{Dataset, Reader};
use crate::error::DataError;
use crate::scenes::{SceneBatch, SceneDataset};
use crate::sequences::SequenceDataset;
use crate::sequences::WindowBatch;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Indices of samples.
type Indices<'a> = &'a mut dyn Iterator<Item = u64>;

/// Makes the batch of an index with what its thread reads volumes by, or gives up when it is stopped.
type MakeBatch<B> = dyn Fn(u64, &AtomicBool, &mut Reader) -> Result<B, DataError> + Send + Sync;

/// Which batches, in order: the first, and the distance to the next. A number alone is that batch and all after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOrder {
    /// Index of the first batch.
    pub first: u64,
    /// From a batch to the next: as many as there are processes, of which each takes its own.
    pub stride: u64,
}

impl From<u64> for BatchOrder {
    fn from(first: u64) -> Self {
        Self { first, stride: 1 }
    }
}

/// The training batches of a data set, without end, made ahead by worker threads.
///
/// Batch `i` holds samples `i * batch_size` and on, regardless of the number of workers. Workers take
/// the batches in turn; each waits while its own finished ones are not fetched. An error or a
/// worker's panic arrives as the item of its batch, and the next item is the next batch.
///
/// # Memory
/// As many batches as [`batches_ahead`] says, and what [reading](crate::DataMemory) and augmenting take in each worker.
pub struct Loader<B = Batch> {
    make: Arc<MakeBatch<B>>,
    batch_size: usize,
    next: u64,
    stride: u64,
    /// One for each worker, in the order of their batches; empty without workers.
    finished: Vec<Receiver<Result<B, DataError>>>,
    turn: usize,
    workers: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl<B> fmt::Debug for Loader<B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut view = formatter.debug_struct("Loader");
        view.field("batch_size", &self.batch_size).field("next", &self.next);
        view.field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}

impl Loader {
    /// Batches of `batch_size` samples in this order, with the workers and the
    /// prefetch of the dataset's configuration.
    ///
    /// If the system cannot start the threads, the caller's makes the batches.
    pub fn new(dataset: Arc<Dataset>, batch_size: usize, order: impl Into<BatchOrder>) -> Self {
        let (workers, prefetch) = (dataset.config().num_workers, dataset.config().prefetch);
        let gather = move |indices: Indices<'_>, reader: &mut Reader| dataset.train_batch(batch_size, indices, reader);
        Self::start(gather, batch_size, order.into(), workers, prefetch)
    }
}

impl Loader<WindowBatch> {
    /// As [`Loader::new`], for the windows of a sequence.
    pub fn windows(dataset: Arc<SequenceDataset>, batch_size: usize, order: impl Into<BatchOrder>) -> Self {
        let (workers, prefetch) = (dataset.config().num_workers, dataset.config().prefetch);
        let gather = move |indices: Indices<'_>, _: &mut Reader| dataset.train_batch(batch_size, indices);
        Self::start(gather, batch_size, order.into(), workers, prefetch)
    }
}

impl Loader<SceneBatch> {
    /// As [`Loader::new`], for road scenes.
    pub fn scenes(dataset: Arc<SceneDataset>, batch_size: usize, order: impl Into<BatchOrder>) -> Self {
        let (workers, prefetch) = (dataset.config().num_workers, dataset.config().prefetch);
        let make = move |index| dataset.train_scene(index);
        let gather = move |indices: Indices<'_>, _: &mut Reader| SceneBatch::gather(batch_size, indices.map(&make));
        Self::start(gather, batch_size, order.into(), workers, prefetch)
    }
}

impl<B: Send + 'static> Loader<B> {
    /// `gather` makes a batch of the samples of these indices.
    fn start(
        gather: impl Fn(Indices<'_>, &mut Reader) -> Result<B, DataError> + Send + Sync + 'static,
        batch_size: usize,
        BatchOrder { first, stride }: BatchOrder,
        workers: usize,
        prefetch: usize,
    ) -> Self {
        let make: Arc<MakeBatch<B>> = Arc::new(move |batch, stop, reader| {
            let sample = batch.saturating_mul(batch_size as u64);
            let indices = (0..batch_size as u64).map(|index| sample.saturating_add(index));
            gather(&mut indices.take_while(|_| !stop.load(Ordering::Relaxed)), reader)
        });
        let mut loader = Self {
            make,
            batch_size,
            next: first,
            stride,
            finished: Vec::new(),
            turn: 0,
            workers: Vec::new(),
            stop: Arc::default(),
        };
        for index in 0..workers {
            let (sender, receiver) = sync_channel(batches_ahead(workers, prefetch) / workers - 1);
            let worker = Worker {
                make: loader.make.clone(),
                first: first.saturating_add(stride.saturating_mul(index as u64)),
                step: stride.saturating_mul(workers as u64),
                finished: sender,
                stop: loader.stop.clone(),
            };
            match thread::Builder::new().name("leanburn-data".into()).spawn(move || worker.run()) {
                Ok(handle) => loader.workers.push(handle),
                Err(_) => {
                    loader.end_workers();
                    loader.stop = Arc::default();
                    break;
                }
            }
            loader.finished.push(receiver);
        }
        loader
    }
}

/// Batches that are made before they are asked for: `prefetch`, rounded up to a multiple of the workers, each of which makes one.
pub fn batches_ahead(num_workers: usize, prefetch: usize) -> usize {
    if num_workers == 0 { 0 } else { prefetch.max(1).next_multiple_of(num_workers) }
}

impl<B> Loader<B> {
    fn end_workers(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.finished.clear(); // a worker that waits to hand over a batch is let go
        for worker in self.workers.drain(..) {
            let _ = worker.join(); // its panics were caught
        }
    }

    /// Index of the batch that comes next.
    pub fn next_batch(&self) -> u64 {
        self.next
    }
}

impl<B> Iterator for Loader<B> {
    type Item = Result<B, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.next;
        self.next = batch.saturating_add(self.stride);
        if self.finished.is_empty() {
            // nothing of a volume stays in the caller's thread
            return Some(make_batch(&*self.make, batch, &self.stop, &mut Reader::default()));
        }
        let received = self.finished[self.turn].recv();
        self.turn = (self.turn + 1) % self.finished.len();
        Some(received.unwrap_or_else(|_| Err(DataError::WorkerPanicked { batch, message: "its thread ended".into() })))
    }
}

impl<B> Drop for Loader<B> {
    fn drop(&mut self) {
        self.end_workers();
    }
}

struct Worker<B> {
    make: Arc<MakeBatch<B>>,
    first: u64,
    step: u64,
    finished: SyncSender<Result<B, DataError>>,
    stop: Arc<AtomicBool>,
}

impl<B> Worker<B> {
    fn run(self) {
        let (mut batch, mut reader) = (self.first, Reader::default());
        while !self.stop.load(Ordering::Relaxed) {
            let made = make_batch(&*self.make, batch, &self.stop, &mut reader);
            if self.finished.send(made).is_err() {
                return;
            }
            batch = batch.saturating_add(self.step);
        }
    }
}

fn make_batch<B>(make: &MakeBatch<B>, batch: u64, stop: &AtomicBool, reader: &mut Reader) -> Result<B, DataError> {
    catch_unwind(AssertUnwindSafe(|| make(batch, stop, reader)))
        .unwrap_or_else(|panic| Err(DataError::WorkerPanicked { batch, message: message(&*panic) }))
}

/// The text of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datasets::DataConfig;
    use crate::datasets::Sample;
    use crate::sequences::AdvectionConfig;
    use crate::sequences::SequenceConfig;
    use crate::synthetic::PhantomConfig;
    use crate::volumes::Intensity;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    fn batches(num_workers: usize, prefetch: usize, start: impl Into<BatchOrder>, count: usize) -> Vec<Batch> {
        let config = DataConfig {
            phantom: Some(PhantomConfig { count: 5, shape: [10, 11, 12], noise: 0.1 }),
            patch_size: Some([8, 8, 8]),
            flip: [true; 3],
            intensity_jitter: 0.1,
            cache_rate: 0.4,
            num_workers,
            prefetch,
            ..DataConfig::default()
        };
        let dataset = Arc::new(Dataset::open(&config, 9).unwrap());
        Loader::new(dataset, 3, start).take(count).map(Result::unwrap).collect()
    }

    #[test]
    fn processes_that_take_turns_take_the_same_batches() {
        let all = batches(0, 0, 0, 7);
        for workers in [0, 3] {
            let every_second = batches(workers, 2, BatchOrder { first: 1, stride: 2 }, 3);
            assert_eq!(every_second, [all[1].clone(), all[3].clone(), all[5].clone()]);
        }
    }

    #[test]
    fn the_stream_is_the_same_for_any_workers_prefetch_and_start() {
        let expected = batches(0, 0, 0, 10);
        assert_eq!(expected[0].shape, [3, 1, 8, 8, 8]);
        assert!(expected.windows(2).all(|pair| pair[0] != pair[1]));
        for (workers, prefetch) in [(1, 0), (1, 4), (2, 2), (3, 7), (7, 2)] {
            assert_eq!(batches(workers, prefetch, 0, 10), expected, "{workers} {prefetch}");
            assert_eq!(batches(workers, prefetch, 4, 6), expected[4..], "{workers} {prefetch}");
        }
    }

    #[test]
    fn windows_come_in_the_same_order_for_any_workers() {
        let batches = |num_workers: usize, start: u64| -> Vec<WindowBatch> {
            let advection = Some(AdvectionConfig { steps: 30, shape: [4, 6], ..AdvectionConfig::default() });
            let config = SequenceConfig { advection, input_days: 3, num_workers, ..SequenceConfig::default() };
            let dataset = Arc::new(SequenceDataset::open(&config, 9).unwrap());
            Loader::windows(dataset, 2, start).take(6).map(Result::unwrap).collect()
        };
        let expected = batches(0, 0);
        assert_eq!((expected[0].input_shape, expected[0].target_shape), ([2, 3, 4, 4, 6], [2, 1, 4, 4, 6]));
        assert!(expected.windows(2).all(|pair| pair[0] != pair[1]));
        for workers in [1, 2, 5] {
            assert_eq!(batches(workers, 0), expected, "{workers}");
            assert_eq!(batches(workers, 2)[..4], expected[2..], "{workers}");
        }
    }

    fn numbered(index: u64) -> Sample {
        let (data, shape) = (vec![index as f32], [1, 1, 1, 1]);
        Sample {
            data,
            shape,
            labels: None,
            name: String::new(),
            class: None,
            start: [0; 3],
            intensity: Intensity::default(),
        }
    }

    /// Batches of one sample.
    fn singly(
        make: impl Fn(u64) -> Result<Sample, DataError> + Send + Sync + 'static,
    ) -> impl Fn(Indices<'_>, &mut Reader) -> Result<Batch, DataError> + Send + Sync + 'static {
        move |indices, _| Batch::stack(&indices.map(&make).collect::<Result<Vec<_>, _>>()?)
    }

    #[test]
    fn as_many_batches_are_made_ahead_as_is_said() {
        let all = [(0, 3), (1, 0), (1, 4), (2, 2), (2, 3), (3, 7)]
            .map(|(workers, prefetch)| batches_ahead(workers, prefetch));
        assert_eq!(all, [0, 1, 4, 2, 4, 9]);
    }

    #[test]
    fn errors_and_panics_are_items_and_the_rest_goes_on() {
        for workers in [0, 1, 3] {
            let make = |index: u64| match index {
                2 => Err(DataError::NotFound { path: "gone.nii".into() }),
                4 => panic!("sample {index} is cursed"),
                _ => Ok(numbered(index)),
            };
            let loader = Loader::start(singly(make), 1, 0.into(), workers, 2);
            let items: Vec<_> = loader.take(7).collect();
            assert!(items[2].as_ref().unwrap_err().is_not_found());
            let panic = items[4].as_ref().unwrap_err().to_string();
            assert!(panic.contains("batch 4") && panic.contains("cursed"), "{panic}");
            for index in [0, 1, 3, 5, 6] {
                assert_eq!(items[index].as_ref().unwrap().data, [index as f32]);
            }
        }
    }

    #[test]
    fn prefetch_is_bounded_and_dropping_stops_the_threads() {
        let made = Arc::new(AtomicU64::new(0));
        let counter = made.clone();
        let alive = Arc::new(());
        let held = Arc::downgrade(&alive);
        let make = move |index| {
            let _alive = &alive;
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(numbered(index))
        };
        let mut loader = Loader::start(singly(make), 1, 0.into(), 2, 4);
        assert_eq!(loader.next().unwrap().unwrap().data, [0.0]);
        assert_eq!(loader.next_batch(), 1);
        thread::sleep(Duration::from_millis(200));
        let ahead = made.load(Ordering::SeqCst);
        assert!((3..=5).contains(&ahead), "{ahead} batches were made");
        drop(loader);
        assert!(held.upgrade().is_none(), "a worker is still alive");
    }

    #[test]
    fn an_empty_batch_is_an_error() {
        let gather = |indices: Indices<'_>, _: &mut Reader| Batch::stack(&indices.map(numbered).collect::<Vec<_>>());
        let mut loader = Loader::start(gather, 0, 0.into(), 1, 1);
        assert!(loader.next().unwrap().is_err());
    }
}
