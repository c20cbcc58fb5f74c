//! When work is worth more than one thread.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

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

/// Runs tasks by their numbers, `work` in all, with what each thread makes for its first one.
///
/// Each thread begins with a range of its own, the same one whenever there are as many tasks: what it wrote the time before, or in another
/// operation on the same volume, is still in its cache. It runs them in order, so that a task can go on where the one before it ended. Who
/// is done takes the second half of what another has left.
pub(crate) fn for_each_with<T>(
    tasks: usize,
    work: usize,
    scratch: impl Fn() -> T + Sync,
    run: impl Fn(&mut T, usize) + Sync,
) {
    let threads = threads(tasks, work);
    let share = |thread: usize| Mutex::new(tasks * thread / threads..tasks * (thread + 1) / threads);
    let shares: Vec<Mutex<Range<usize>>> = (0..threads).map(share).collect();
    let left = |thread: usize| shares[thread].lock().unwrap_or_else(PoisonError::into_inner);
    let half = |thread: usize| {
        let mut left = left(thread);
        let middle = left.start + left.len() / 2;
        let taken = middle..left.end;
        left.end = middle;
        (!taken.is_empty()).then_some(taken)
    };
    for_each((0..threads).collect(), work, |thread: usize| {
        let mut held = None;
        loop {
            let next = left(thread).next(); // a lock of its own, not held while the task runs
            if let Some(task) = next {
                run(held.get_or_insert_with(&scratch), task);
                continue;
            }
            let Some(taken) = (thread + 1..threads).chain(0..thread).find_map(half) else { break };
            *left(thread) = taken;
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
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn each_task_runs_once() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for tasks in [0, 1, 2, 3, 7, 30, 1000] {
            let runs: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            let count = |_: &mut (), task: usize| _ = runs[task].fetch_add(1, Ordering::Relaxed);
            for work in [0, SMALL] {
                pool.install(|| for_each_with(tasks, work, || (), count));
            }
            assert!(runs.into_iter().all(|runs| runs.into_inner() == 2), "{tasks}");
        }
    }

    #[test]
    fn a_thread_runs_its_tasks_in_order_and_helps_who_has_some_left() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let (started, order) = (Barrier::new(2), Mutex::new(Vec::new()));
        let run = |first: &mut Option<usize>, task: usize| {
            // Both threads begin with a task of their own; then the thread of the first waits until all others are done.
            if first.is_none() {
                started.wait();
            }
            let first = *first.get_or_insert(task);
            while task == 0 && order.lock().unwrap().len() < 15 {
                std::thread::yield_now();
            }
            order.lock().unwrap().push((first, task));
        };
        pool.install(|| for_each_with(16, SMALL, || None, run));
        let by_the_second = [8, 9, 10, 11, 12, 13, 14, 15, 4, 5, 6, 7, 2, 3, 1];
        let expected: Vec<_> = by_the_second.map(|task| (8, task)).into_iter().chain([(0, 0)]).collect();
        assert_eq!(order.into_inner().unwrap(), expected);
    }

    #[test]
    fn on_a_thread_of_the_pool_where_there_are_several() {
        let is_of_the_pool = on_pool(|| rayon::current_thread_index().is_some());
        assert_eq!(is_of_the_pool, rayon::current_num_threads() > 1);
    }
}
