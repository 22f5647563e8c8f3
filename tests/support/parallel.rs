//! Many cases of one test, side by side.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many cases run at a time. They mostly wait for processes.
const AT_A_TIME: usize = 3;

/// Runs `check` on each case. Fails with the first failure, after naming the case of each on stderr.
pub fn each_in_parallel<Case: Debug + Sync>(cases: &[Case], check: impl Fn(&Case) + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut first = None;
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(case))) {
                eprintln!("failed: {case:?}");
                first.get_or_insert(panic);
            }
        }
        first
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            if let Ok(Some(panic)) | Err(panic) = worker.join() {
                resume_unwind(panic);
            }
        }
    });
}
