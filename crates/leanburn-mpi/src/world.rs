//! The communicator of all processes.

use std::fmt;

use leanburn_train::Ranks;
use mpi::Threading;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::request::WaitGuard;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Root, Source};

use crate::JoinError;

/// All processes that the launcher has started.
pub(crate) struct World {
    world: SimpleCommunicator,
    on_this_machine: (usize, usize),
    /// Ends MPI when it is dropped: last.
    _universe: Universe,
}

impl fmt::Debug for World {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("World").field("rank", &self.rank()).field("size", &self.size()).finish_non_exhaustive()
    }
}

/// Ends all processes where this one unwinds from a panic: they would wait for it, and MPI for them.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            abort(101); // as Rust ends a program that panics
        }
    }
}

impl World {
    /// Initializes MPI, which this thread alone calls. `ranks`: as many processes as the launcher says.
    pub fn join(ranks: usize) -> Result<Self, JoinError> {
        let (universe, _) = mpi::initialize_with_threading(Threading::Funneled).expect("MPI is initialized once");
        let world = universe.world();
        let joined = world.size() as usize;
        if joined < ranks {
            return Err(JoinError::OtherLauncher { ranks, joined, library: library() });
        }
        let here = world.split_shared(world.rank());
        let on_this_machine = (here.rank() as usize, here.size() as usize);
        share_processors(on_this_machine.1);
        Ok(Self { world, on_this_machine, _universe: universe })
    }

    /// Of what each rank has, on all ranks.
    fn layout_of_all(&self, bytes: &[u8]) -> Layout {
        let mut counts = vec![0_u64; self.size()];
        self.world.all_gather_into(&(bytes.len() as u64), &mut counts[..]);
        Layout::of(&counts.into_iter().map(|count| count as usize).collect::<Vec<_>>())
    }
}

impl Ranks for World {
    fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    fn size(&self) -> usize {
        self.world.size() as usize
    }

    fn on_this_machine(&self) -> (usize, usize) {
        self.on_this_machine
    }

    fn reduce_scatter(&self, values: &[f32], counts: &[usize]) -> Vec<f32> {
        let part = counts[self.rank()];
        let (sent, received) = (Layout::of(counts), Layout::of(&vec![part; counts.len()]));
        let mut parts = vec![0.0_f32; received.total];
        if !counts.iter().all(|&count| count == 0) {
            let from = Partition::new(values, &sent.counts[..], &sent.starts[..]);
            let mut to = PartitionMut::new(&mut parts[..], &received.counts[..], &received.starts[..]);
            self.world.all_to_all_varcount_into(&from, &mut to);
        }
        let (sum, others) = parts.split_at_mut(part);
        for other in others.chunks_exact(part.max(1)) {
            sum.iter_mut().zip(other).for_each(|(sum, value)| *sum += value);
        }
        parts.truncate(part);
        parts
    }

    fn all_gather(&self, part: &[f32], counts: &[usize]) -> Vec<f32> {
        let layout = Layout::of(counts);
        let mut all = vec![0.0_f32; layout.total];
        if layout.total > 0 {
            let mut to = PartitionMut::new(&mut all[..], &layout.counts[..], &layout.starts[..]);
            self.world.all_gather_varcount_into(part, &mut to);
        }
        all
    }

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let layout = self.layout_of_all(bytes);
        let mut all = vec![0_u8; layout.total];
        if layout.total > 0 {
            let mut to = PartitionMut::new(&mut all[..], &layout.counts[..], &layout.starts[..]);
            self.world.all_gather_varcount_into(bytes, &mut to);
        }
        layout.parts(&all)
    }

    fn exchange(&self, with: [Option<usize>; 2], given: [&[u8]; 2]) -> [Vec<u8>; 2] {
        let with = with.map(|rank| rank.map(|rank| self.world.process_at_rank(rank as i32)));
        mpi::request::scope(|scope| {
            // nobody waits for a message to be taken before giving its own
            let sent = with.iter().zip(given).filter_map(|(process, bytes)| {
                process.as_ref().map(|process| WaitGuard::from(process.immediate_send(scope, bytes)))
            });
            let _sent: Vec<_> = sent.collect();
            with.each_ref().map(|process| process.as_ref().map_or(Vec::new(), |process| process.receive_vec().0))
        })
    }

    fn gather_to_leader(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let (layout, leader) = (self.layout_of_all(bytes), self.world.process_at_rank(0));
        if self.rank() > 0 {
            if layout.total > 0 {
                leader.gather_varcount_into(bytes);
            }
            return Vec::new();
        }
        let mut all = vec![0_u8; layout.total];
        if layout.total > 0 {
            let mut to = PartitionMut::new(&mut all[..], &layout.counts[..], &layout.starts[..]);
            leader.gather_varcount_into_root(bytes, &mut to);
        }
        layout.parts(&all)
    }
}

/// Parts of a buffer, one after another, as MPI takes them. Where all are empty nothing is exchanged: Open MPI takes no empty buffers from
/// all.
struct Layout {
    counts: Vec<i32>,
    starts: Vec<i32>,
    total: usize,
}

impl Layout {
    fn of(counts: &[usize]) -> Self {
        let total = counts.iter().sum();
        i32::try_from(total).expect("less than 2 GiB at once");
        let starts = counts.iter().scan(0, |end, &count| Some(std::mem::replace(end, *end + count as i32))).collect();
        Self { counts: counts.iter().map(|&count| count as i32).collect(), starts, total }
    }

    fn parts(&self, all: &[u8]) -> Vec<Vec<u8>> {
        let part = |(start, count): (&i32, &i32)| all[*start as usize..(*start + *count) as usize].to_vec();
        self.starts.iter().zip(&self.counts).map(part).collect()
    }
}

/// What this MPI calls itself, such as "Open MPI v4.1.4".
fn library() -> String {
    let text = mpi::environment::library_version().unwrap_or_default();
    let name = text.lines().next().unwrap_or_default().split(',').next().unwrap_or_default();
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Ends all processes.
pub(crate) fn abort(code: i32) -> ! {
    SimpleCommunicator::world().abort(code)
}

/// Gives rayon this rank's share of the processors that it may use. A launcher that binds ranks to processors has shared them already.
fn share_processors(ranks: usize) {
    if std::env::var_os("RAYON_NUM_THREADS").is_none() {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (processors / ranks).max(1);
        // where the pool runs already, it is as it is
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    }
}
