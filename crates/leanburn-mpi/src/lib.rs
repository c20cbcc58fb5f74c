//! The processes that train one model, on MPI.
//!
//! [`join`] gives the group that a launcher (`mpirun`, `srun`) has started this process in. [`Trainer::join_group`] and the sessions of
//! leanburn-systems take it.
//!
//! [`Trainer::join_group`]: leanburn_train::Trainer::join_group

use leanburn_train::Group;

mod launcher;
#[cfg(feature = "mpi")]
mod world;

pub use launcher::ranks_of_launcher;

/// A launcher has started several processes of a program that was built without MPI: each would do all the work, into the same files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{ranks} processes were started together, and this build has no MPI")]
pub struct NotBuilt {
    /// How many processes there are.
    pub ranks: usize,
}

/// The group of this process: alone, where no launcher has started several. Once in a process; MPI ends with the group.
///
/// The threads of rayon are those of the processors that this process may use, shared with the other ranks of its machine, unless
/// `RAYON_NUM_THREADS` says how many.
///
/// # Errors
///
/// [`NotBuilt`] without the feature `mpi`.
///
/// # Panics
///
/// If MPI was initialized before.
pub fn join() -> Result<Group, NotBuilt> {
    match ranks_of_launcher(|name| std::env::var(name).ok()) {
        0 | 1 => Ok(Group::default()),
        #[cfg(feature = "mpi")]
        _ => Ok(world::World::join().into()),
        #[cfg(not(feature = "mpi"))]
        ranks => Err(NotBuilt { ranks }),
    }
}

/// Ends all processes of the group at once with this exit code, where one of them cannot go on. Of a process that is alone, nothing: it
/// returns.
pub fn abort(group: &Group, code: i32) {
    #[cfg(feature = "mpi")]
    if !group.is_alone() {
        world::abort(code);
    }
    let _ = (group, code);
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
