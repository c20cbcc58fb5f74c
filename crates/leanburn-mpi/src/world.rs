//! The communicator of all processes.

use std::fmt;

use leanburn_train::Ranks;
use mpi::Threading;
use mpi::datatype::PartitionMut;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};

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

impl World {
    /// Initializes MPI, which this thread alone calls.
    pub fn join() -> Self {
        let (universe, _) = mpi::initialize_with_threading(Threading::Funneled).expect("MPI is initialized once");
        let world = universe.world();
        let here = world.split_shared(world.rank());
        let on_this_machine = (here.rank() as usize, here.size() as usize);
        share_processors(on_this_machine.1);
        Self { world, on_this_machine, _universe: universe }
    }

    /// Each rank adds a part of the values, of all ranks in their order, and gives it to all: what is sent is what a ring sends.
    fn sum_window(&self, values: &mut [f32]) {
        let size = self.size();
        let part = values.len().div_ceil(size);
        let mut all = values.to_vec();
        all.resize(part * size, 0.0);
        let mut parts = vec![0.0_f32; part * size];
        self.world.all_to_all_into(&all[..], &mut parts[..]);
        let (sum, others) = parts.split_at_mut(part);
        for other in others.chunks_exact(part) {
            sum.iter_mut().zip(other).for_each(|(sum, value)| *sum += value);
        }
        self.world.all_gather_into(&*sum, &mut all[..]);
        values.copy_from_slice(&all[..values.len()]);
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

    fn sum(&self, values: &mut [f32]) {
        const WINDOW: usize = 1 << 22; // 16 MiB, and twice that beside it
        values.chunks_mut(WINDOW).for_each(|window| self.sum_window(window));
    }

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let size = self.size();
        let here = i32::try_from(bytes.len()).expect("less than 2 GiB a rank");
        let mut counts = vec![0_i32; size];
        self.world.all_gather_into(&here, &mut counts[..]);
        if counts.iter().all(|&count| count == 0) {
            return vec![Vec::new(); size]; // Open MPI takes no empty buffers from all
        }
        let starts: Vec<i32> = counts.iter().scan(0, |end, count| Some(std::mem::replace(end, *end + count))).collect();
        let mut all = vec![0_u8; counts.iter().map(|&count| count as usize).sum()];
        let mut partition = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
        self.world.all_gather_varcount_into(bytes, &mut partition);
        let of_rank = |(start, count): (&i32, &i32)| all[*start as usize..(*start + *count) as usize].to_vec();
        starts.iter().zip(&counts).map(of_rank).collect()
    }
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
