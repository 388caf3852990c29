//! What holds for the whole process: its panic policy, and a setting of the C library's allocator.
//!
//! A panic in text work loses only its page; any other panic ends the process.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

use crate::error::Reason;

thread_local! {
    static SHIELDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs work whose panic costs only its own result: `None`.
pub fn shielded<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = SHIELDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work)).ok();
    SHIELDED.set(before);
    result
}

/// Does work that ends the process with [`Reason::Bug`] when it panics, before logging works or a hook is set. Work
/// that may panic on a hostile page is [`shielded`] further in.
pub fn exit_on_panic<T>(work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| end_the_process())
}

fn end_the_process() -> ! {
    std::process::exit(i32::from(Reason::Bug.code()))
}

/// Makes every panic a log line, with its place and thread. Call it once logging works.
///
/// The payload of a panic in [`shielded`] work may hold text of a page and is never logged.
pub fn log_panics() {
    std::panic::set_hook(Box::new(log_panic));
}

/// Makes a panic outside of [`shielded`] work also end the process with [`Reason::Bug`].
pub fn end_the_process_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        log_panic(panic);
        if !SHIELDED.get() {
            end_the_process();
        }
    }));
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    if SHIELDED.get() {
        tracing::warn!(target: "dupgate::worker", place, "text work panicked on a page");
        return;
    }
    let current = std::thread::current();
    let thread = current.name().unwrap_or("unnamed");
    tracing::error!(target: "panic", place, thread, "{}", panic.payload_as_str().unwrap_or("no message"));
}

/// Has glibc return freed memory of 128 KiB and more to the system at once.
///
/// By default glibc raises this threshold with the largest block freed so far, up to 32 MiB, and keeps what it frees
/// below it: a quarter to a third of an index, on top of it. Call it before the first large allocation. A threshold in
/// the environment (`MALLOC_MMAP_THRESHOLD_`) remains in force. Other C libraries need no setting.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a setting of the C library")]
pub fn return_freed_memory() {
    if std::env::var_os("MALLOC_MMAP_THRESHOLD_").is_none() {
        // SAFETY: it stores a number, under the allocator's lock.
        let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10) };
    }
}

/// Does nothing: only glibc keeps freed memory.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn return_freed_memory() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_in_shielded_work_costs_only_its_result() {
        assert_eq!(shielded(|| 3), Some(3));
        assert_eq!(shielded(|| -> i32 { panic!("a page") }), None);
        assert!(!SHIELDED.get());
    }

    #[test]
    fn a_panic_on_a_thread_ends_the_process_with_its_own_code() {
        let ended = in_a_process("a_panic_on_a_thread_ends_the_process_with_its_own_code", || {
            let thread = std::thread::spawn(|| exit_on_panic(|| panic!("a bug")));
            thread.join().unwrap();
        });
        assert_eq!(ended.status.code(), Some(70), "{ended:?}");
    }

    #[test]
    fn a_panic_is_a_log_line() {
        use std::sync::{Arc, Mutex};

        #[derive(Clone, Default)]
        struct Lines(Arc<Mutex<Vec<u8>>>);
        impl std::io::Write for Lines {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().map(|mut lines| lines.extend_from_slice(bytes)).ok();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let before = std::panic::take_hook();
        log_panics();
        let caught = tracing::subscriber::with_default(subscriber, || {
            // The payload of work on a page may hold its text.
            assert_eq!(shielded(|| -> i32 { panic!("a secret page") }), None);
            catch_unwind(|| panic!("out of {}", "cheese"))
        });
        std::panic::set_hook(before);
        assert!(caught.is_err());
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("ERROR panic: out of cheese"), "{text}");
        assert!(text.contains("src/process.rs:") && text.contains("a_panic_is_a_log_line"), "{text}");
        assert!(text.contains("text work panicked on a page") && !text.contains("secret"), "{text}");
    }

    /// Runs the work of this test in a separate process, which starts the test again.
    fn in_a_process(test: &str, work: impl FnOnce()) -> std::process::Output {
        const CHILD: &str = "DUPGATE_TEST_PANICS";
        if std::env::var_os(CHILD).is_some() {
            work();
            std::process::exit(0);
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args([&format!("process::tests::{test}"), "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap()
    }

    #[test]
    fn a_panic_outside_of_shielded_work_is_logged_and_ends_the_process() {
        let ended = in_a_process("a_panic_outside_of_shielded_work_is_logged_and_ends_the_process", || {
            tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
            end_the_process_on_panic();
            assert_eq!(shielded(|| -> i32 { panic!("a secret page") }), None);
            // The process ends on the thread that panics, whichever thread waits for it.
            let judge = std::thread::Builder::new().name("judge-0".to_owned()).spawn(|| panic!("out of cheese"));
            drop(judge.unwrap().join());
        });
        let text = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(70), "{text}");
        let line = text.lines().find(|line| line.contains("ERROR panic: out of cheese"));
        assert!(line.is_some_and(|line| line.contains("src/process.rs:") && line.contains("judge-0")), "{text}");
        assert!(text.contains("text work panicked on a page") && !text.contains("secret"), "{text}");
    }
}
