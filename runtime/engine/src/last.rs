//! How a thread that computes for long stands to the operating system: behind whoever has little to do.
//!
//! It says so in two ways. Its share of a core for which others have use as well is small, by its niceness. And its time slice is long: since
//! version 6.12 Linux lets whoever wakes with a shorter one go first, where otherwise it would wait until the other's slice is over, some
//! 3 ms after each wait for the disk. Earlier ones take no notice of that.

/// How much less these threads are than others to the operating system, in its own measure: a core for which both have use goes to the
/// others by some nine to one.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// How long a thread may compute before the operating system asks whether another has been waiting for longer, in nanoseconds.
#[cfg(target_os = "linux")]
const SLICE_NS: u64 = 20_000_000;

/// The calling thread gives way to others from now on. Elsewhere than on Linux that would hold of the whole process.
pub(crate) fn go_last() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS).map_err(std::io::Error::from).and_then(take_long_slices) {
        tracing::debug!(%error, "a thread for long work is more like any other than it should be");
    }
}

/// With the niceness that the thread has, since the call sets both. There is no function for it in the C library, nor in a crate.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn take_long_slices(niceness: i32) -> std::io::Result<()> {
    let attributes = libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(0),
        sched_policy: u32::try_from(libc::SCHED_OTHER).unwrap_or(0),
        sched_flags: 0,
        sched_nice: niceness,
        sched_priority: 0,
        sched_runtime: SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads as many bytes as `size` says from the structure, which lives until the call is over, and changes nothing but
    // how the calling thread (0) is scheduled.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if outcome == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::{getpriority_process, nice};

    use super::*;

    #[test]
    fn it_is_lower_than_the_process_however_low_that_is() {
        let thread = std::thread::spawn(|| {
            let process = nice(NICENESS + 1).expect("anybody may go lower");
            go_last();
            (process, getpriority_process(None).expect("a thread may ask for its own"))
        });
        let (process, thread) = thread.join().expect("it has not panicked");
        assert_eq!(thread, (process + NICENESS).min(19));
    }
}
