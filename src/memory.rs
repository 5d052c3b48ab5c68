//! What the allocator may keep beside what is in use.
//!
//! glibc gives threads arenas of their own, up to eight for each core, and each keeps what was once
//! taken from it. With 34 threads that came to 12 MB more than one arena takes while a million
//! events were delivered (measured, glibc 2.36); the box has other uses for it. Other libraries
//! have no arenas, and nothing is set there.

/// Freed blocks from this size on go back to the system at once: bodies, not records.
#[cfg(target_env = "gnu")]
const GIVE_BACK_BYTES: i32 = 128 * 1024;

/// Keeps little. To be called before threads are started; does nothing that could fail.
#[cfg(target_env = "gnu")]
#[expect(
    unsafe_code,
    reason = "mallopt sets two numbers; no crate offers it without unsafe"
)]
pub(crate) fn keep_little() {
    // SAFETY: no other thread is in the allocator yet, and mallopt takes any numbers.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, GIVE_BACK_BYTES);
    }
}

/// Nothing is to be set here.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn keep_little() {}
