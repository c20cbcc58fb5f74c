//! When work is worth more than one thread.

use rayon::prelude::*;

/// Multiplications, or values read, that are not worth waking a thread.
const SMALL: usize = 1 << 18;

/// Runs every task, `work` in all: on the threads of the pool, or here where that is quicker.
pub(crate) fn for_each<T: Send>(tasks: Vec<T>, work: usize, run: impl Fn(T) + Sync + Send) {
    match threads(tasks.len(), work) < 2 {
        true => tasks.into_iter().for_each(run),
        false => tasks.into_par_iter().for_each(run),
    }
}

/// Threads that [`for_each`] keeps busy at most with so many tasks, `work` in all.
pub(crate) fn threads(tasks: usize, work: usize) -> usize {
    if work < SMALL { tasks.min(1) } else { busy(tasks) }
}

/// Threads of the pool that so many tasks keep busy at most.
pub(crate) fn busy(tasks: usize) -> usize {
    tasks.min(rayon::current_num_threads())
}
