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

/// How threads share tasks out before they help each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shares {
    /// Each begins with a range of its own, the same one whenever there are as many tasks: what it wrote the time before, or in another
    /// operation on the same volume, is still in its cache.
    Ranges,
    /// In turn, where some tasks are smaller than others.
    Turns,
}

/// Runs tasks by their numbers, `work` in all, with what each thread makes for its first one. Whoever is done with its share takes what is
/// left of the others'.
pub(crate) fn for_each_with<T>(
    tasks: usize,
    shares: Shares,
    work: usize,
    scratch: impl Fn() -> T + Sync,
    run: impl Fn(&mut T, usize) + Sync,
) {
    let threads = busy(tasks);
    // The first task of a share, from one to the next, and the end.
    let share = |thread: usize| match shares {
        Shares::Ranges => [tasks * thread / threads, 1, tasks * (thread + 1) / threads],
        Shares::Turns => [thread, threads, tasks],
    };
    let next: Vec<AtomicUsize> = (0..threads).map(|thread| AtomicUsize::new(share(thread)[0])).collect();
    for_each((0..threads).collect(), work, |thread: usize| {
        let mut held = None;
        for thread in (thread..threads).chain(0..thread) {
            let [_, step, end] = share(thread);
            loop {
                let task = next[thread].fetch_add(step, Ordering::Relaxed);
                if task >= end {
                    break;
                }
                run(held.get_or_insert_with(&scratch), task);
            }
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
    fn each_task_runs_once() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for (shares, tasks) in [Shares::Ranges, Shares::Turns]
            .into_iter()
            .flat_map(|shares| [0, 1, 2, 3, 7, 30].map(|tasks| (shares, tasks)))
        {
            let runs: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            let count = |_: &mut (), task: usize| _ = runs[task].fetch_add(1, Ordering::Relaxed);
            for work in [0, SMALL] {
                pool.install(|| for_each_with(tasks, shares, work, || (), count));
            }
            assert!(runs.into_iter().all(|runs| runs.into_inner() == 2), "{shares:?} {tasks}");
        }
    }

    #[test]
    fn on_a_thread_of_the_pool_where_there_are_several() {
        let is_of_the_pool = on_pool(|| rayon::current_thread_index().is_some());
        assert_eq!(is_of_the_pool, rayon::current_num_threads() > 1);
    }
}
