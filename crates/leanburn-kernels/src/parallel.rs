//! When work is worth more than one thread.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

/// Multiplications, or values read, that are not worth waking a thread.
const SMALL: usize = 1 << 18;

/// Runs `run` on a thread of rayon's pool, if the pool has several.
///
/// What an operation shares among threads begins there at once; a thread outside of the pool wakes one, hands the work over and waits. Where
/// operations take a tenth of a millisecond that is an eighth of a training step. Nothing else changes: the results are the same, and the pool has as many threads as before
/// (`RAYON_NUM_THREADS`, or the processors).
///
/// It is for programs: a thread that waits for an operation may run a part of another thread's meanwhile. In a pool of one thread it would
/// keep that thread from the threads that read data, so `run` stays where it is.
///
/// # Example
///
/// ```
/// let threads = leanburn_kernels::on_pool(rayon::current_num_threads);
/// assert!(threads > 0);
/// ```
pub fn on_pool<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    const STACK: usize = 8 << 20; // as a main thread has
    let _ = rayon::ThreadPoolBuilder::new().stack_size(STACK).build_global(); // what is there stays as it is
    match rayon::current_num_threads() {
        1 => run(),
        _ => rayon::scope(|_| run()),
    }
}

/// Runs every task, `work` in all: on the threads of the pool, or here where that is quicker.
pub(crate) fn for_each<T: Send>(tasks: Vec<T>, work: usize, run: impl Fn(T) + Sync + Send) {
    match threads(tasks.len(), work) < 2 {
        true => tasks.into_iter().for_each(run),
        false => tasks.into_par_iter().for_each(run),
    }
}

/// Runs tasks by their numbers, `work` in all, each on the thread that is free next, with what that thread makes for its first one.
pub(crate) fn for_each_with<T>(
    tasks: usize,
    work: usize,
    scratch: impl Fn() -> T + Sync,
    run: impl Fn(&mut T, usize) + Sync,
) {
    let next = AtomicUsize::new(0);
    for_each((0..busy(tasks)).collect(), work, |_| {
        let mut held = None;
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                break;
            }
            run(held.get_or_insert_with(&scratch), task);
        }
    });
}

/// Threads that [`for_each`] keeps busy at most with so many tasks, `work` in all.
pub(crate) fn threads(tasks: usize, work: usize) -> usize {
    if work < SMALL { tasks.min(1) } else { busy(tasks) }
}

/// Threads of the pool that so many tasks keep busy at most.
pub(crate) fn busy(tasks: usize) -> usize {
    tasks.min(rayon::current_num_threads())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_thread_of_the_pool_where_there_are_several() {
        let is_of_the_pool = on_pool(|| rayon::current_thread_index().is_some());
        assert_eq!(is_of_the_pool, rayon::current_num_threads() > 1);
    }
}
