//! Settings of the C library's allocator.

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
