//! When work is worth more than one thread.

use rayon::prelude::*;

/// Multiplications, or values read, that are not worth waking a thread.
const SMALL: usize = 1 << 18;

/// Runs every task, `work` in all: on the threads of the pool, or here where that is quicker.
pub(crate) fn for_each<T: Send>(tasks: Vec<T>, work: usize, run: impl Fn(T) + Sync + Send) {
    match work < SMALL || tasks.len() < 2 {
        true => tasks.into_iter().for_each(run),
        false => tasks.into_par_iter().for_each(run),
    }
}
