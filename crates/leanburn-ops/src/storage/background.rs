//! The one thread that reads and writes files while others compute.

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

type Job = Box<dyn FnOnce() + Send>;

/// What a job will give.
pub(super) struct Pending<T>(Receiver<T>);

impl<T: Send + 'static> Pending<T> {
    /// Has `job` run after those before it; here and now where the system gives no thread.
    pub(super) fn run(job: impl FnOnce() -> T + Send + 'static) -> Self {
        let (give, take) = channel();
        let job: Job = Box::new(move || _ = give.send(job())); // nobody may wait any more
        match queue() {
            Some(queue) => queue.send(job).expect("the thread ends with the process"),
            None => job(),
        }
        Self(take)
    }

    /// Waits for it.
    pub(super) fn wait(self) -> T {
        self.0.recv().expect("a job gives its result")
    }
}

fn queue() -> Option<&'static Sender<Job>> {
    static QUEUE: OnceLock<Option<Sender<Job>>> = OnceLock::new();
    let start = || {
        let (give, take) = channel::<Job>();
        let work = move || take.into_iter().for_each(|job| job());
        Builder::new().name("leanburn-offload".into()).spawn(work).ok().map(|_| give)
    };
    QUEUE.get_or_init(start).as_ref()
}
