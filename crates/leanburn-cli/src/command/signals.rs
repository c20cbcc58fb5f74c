//! Signals that end a training run: the first lets it take its step to the end and save, the second ends it at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use leanburn_train::Group;

use crate::error::{CommandError, Result};

/// SIGINT (Ctrl-C), SIGTERM (`kill`, a queue's time limit) and SIGUSR1, which Slurm sends ahead of the limit with
/// `--signal=USR1@300`. On Windows none is listened to, and Ctrl-C ends the process at once.
///
/// One of several processes listens to SIGUSR1 alone: with the others a launcher ends those that are left when one has died.
pub(super) struct Signals {
    /// Number of the first signal, 0 before it.
    first: Arc<AtomicU8>,
}

impl Signals {
    /// Listens from now on, to the end of the process.
    ///
    /// # Errors
    ///
    /// If the operating system refuses.
    pub fn listen(is_alone: bool) -> io::Result<Self> {
        let first = Arc::new(AtomicU8::new(0));
        #[cfg(unix)]
        unix::listen(Arc::clone(&first), is_alone)?;
        let _ = is_alone;
        Ok(Self { first })
    }

    /// The first signal, if there was one.
    pub fn first(&self) -> Option<u8> {
        Some(self.first.load(Ordering::Acquire)).filter(|signal| *signal > 0)
    }

    /// What a run of a group comes to: an error on all ranks where a signal to any of them has `interrupted` it.
    ///
    /// # Errors
    ///
    /// [`CommandError::Interrupted`].
    pub fn outcome(&self, interrupted: bool, group: &Group) -> Result<()> {
        if !interrupted {
            return Ok(());
        }
        let signals = group.ranks().gather(&[self.first().unwrap_or_default()]).concat();
        Err(CommandError::Interrupted(signals.into_iter().max().unwrap_or_default()))
    }
}

#[cfg(unix)]
mod unix {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::thread;

    use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::{exit, signal_name};

    use crate::console::print_stderr;

    pub fn listen(first: Arc<AtomicU8>, is_alone: bool) -> io::Result<()> {
        let all: &[i32] = if is_alone { &[SIGINT, SIGTERM, SIGUSR1] } else { &[SIGUSR1] };
        let mut signals = Signals::new(all)?;
        thread::Builder::new().name("signals".to_string()).spawn(move || {
            for signal in signals.forever() {
                let number = u8::try_from(signal).unwrap_or_default();
                if first.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire).is_err() {
                    exit(128 + signal);
                }
                let name = signal_name(signal).unwrap_or("signal");
                print_stderr(format_args!(
                    "{name}: the run stops after this step and saves; another signal stops it at once"
                ));
            }
        })?;
        Ok(())
    }
}
