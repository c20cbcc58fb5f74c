//! Threads that have kept nothing yet.

/// Runs something in a pool of so many new threads, and waits for the end of the threads: what each keeps, such as the scratch
/// memory of matrix products, is made in it and gone after it.
pub fn on_new_threads<T: Send>(count: usize, part: impl FnOnce() -> T + Send) -> T {
    let mut threads = Vec::new();
    let spawn = |worker: rayon::ThreadBuilder| {
        threads.push(std::thread::spawn(|| worker.run()));
        Ok(())
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(count).spawn_handler(spawn).build().unwrap();
    let result = pool.install(part);
    drop(pool);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    result
}
