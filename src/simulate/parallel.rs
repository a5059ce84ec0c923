//! Independent runs on several threads; the order of the results does not depend on them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How the work is done, which changes nothing about the result.
pub struct Work<'a> {
    /// At least 1.
    pub threads: usize,
    /// Told how many of how many runs are done, from any thread, not necessarily in order.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
}

impl Work<'_> {
    /// On this thread, in silence.
    pub const QUIET: Work<'static> = Work { threads: 1, progress: &|_, _| {} };

    /// The results of the tasks 0 to `count`, exclusive, in their order.
    pub(super) fn each<T: Send>(&self, count: usize, task: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let worker = || {
            let mut results = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return results;
                }
                results.push((index, task(index)));
                (self.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, count);
            }
        };
        let mut results = thread::scope(|scope| {
            let helpers: Vec<_> = (1..self.threads.min(count)).map(|_| scope.spawn(worker)).collect();
            let mut results = worker();
            for helper in helpers {
                results.extend(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            results
        });
        results.sort_unstable_by_key(|(index, _)| *index);
        results.into_iter().map(|(_, result)| result).collect()
    }
}
