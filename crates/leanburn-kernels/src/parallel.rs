//! When work is worth more than one thread.

use std::sync::atomic::{AtomicUsize, Ordering};

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
