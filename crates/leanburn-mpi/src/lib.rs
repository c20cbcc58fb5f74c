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

/// A launcher has started several processes that do not find each other: each would do all the work, into the same files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The program was built without MPI.
    #[error("{ranks} processes were started together, and this build has no MPI")]
    NotBuilt {
        /// How many processes there are.
        ranks: usize,
    },
    /// The launcher is not that of the MPI that the program was built with, or was told to start them on their own.
    #[error("{ranks} processes were started together, and this build's MPI ({library}) sees {joined}")]
    OtherLauncher {
        /// How many processes there are.
        ranks: usize,
        /// How many of them MPI knows of.
        joined: usize,
        /// The name and version of the MPI that the program is linked to.
        library: String,
    },
}

/// The group of this process: alone, where no launcher has started several. Once in a process; MPI ends with the group.
/// Where this process panics, all end.
///
/// The threads of rayon are those of the processors that this process may use, shared with the other ranks of its machine, unless
/// `RAYON_NUM_THREADS` says how many.
///
/// # Errors
///
/// [`JoinError`]: without the feature `mpi`, and where MPI knows of fewer processes than the launcher has started.
///
/// # Panics
///
/// If MPI was initialized before.
pub fn join() -> Result<Group, JoinError> {
    match ranks_of_launcher(|name| std::env::var(name).ok()) {
        0 | 1 => Ok(Group::default()),
        #[cfg(feature = "mpi")]
        ranks => Ok(world::World::join(ranks)?.into()),
        #[cfg(not(feature = "mpi"))]
        ranks => Err(JoinError::NotBuilt { ranks }),
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
