//! Processes that hold a volume together, as threads.
#![allow(dead_code)] // each test binary uses a part

use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use leanburn_ops::{VolumeRanks, with_volume_ranks};

/// One of them.
#[derive(Debug)]
pub struct Thread<'a> {
    rank: usize,
    /// To and from each other thread.
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
    sent: &'a AtomicUsize,
}

impl VolumeRanks for Thread<'_> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn exchange(&self, distance: usize, given: [&[u8]; 2]) -> [Vec<u8>; 2] {
        let behind = self.rank + distance;
        let with = [self.rank.checked_sub(distance), (behind < self.size()).then_some(behind)];
        for (other, bytes) in with.iter().zip(given) {
            if let Some(other) = *other {
                self.sent.fetch_add(bytes.len(), Ordering::Relaxed);
                self.to[other].send(bytes.to_vec()).unwrap();
            }
        }
        with.map(|other| other.map_or(Vec::new(), |other| self.from[other].recv().unwrap()))
    }
}

/// To and from each other thread.
type Ends = (Vec<Sender<Vec<u8>>>, Vec<Receiver<Vec<u8>>>);

/// Runs something as each of so many processes that hold a volume together: what they come to, in their order, and the bytes that all have sent.
pub fn on_ranks<T: Send>(size: usize, run: impl Fn(usize) -> T + Sync) -> (Vec<T>, usize) {
    let sent: &'static AtomicUsize = Box::leak(Box::default());
    let mut ends: Vec<Ends> = (0..size).map(|_| Ends::default()).collect();
    for from in 0..size {
        for to in 0..size {
            let (sender, receiver) = channel();
            ends[from].0.push(sender);
            ends[to].1.push(receiver);
        }
    }
    let run = &run;
    let all = thread::scope(|scope| {
        let start = |(rank, (to, from))| {
            scope.spawn(move || with_volume_ranks(Rc::new(Thread { rank, to, from, sent }), || run(rank)))
        };
        let threads: Vec<_> = ends.into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    (all, sent.load(Ordering::Relaxed))
}
