//! How much memory a target holds. A target that asks says `mod memory;`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// How many bytes are allocated now.
pub fn held() -> usize {
    HELD.load(Relaxed)
}

/// The most bytes that `run` holds at once.
pub fn most(run: impl FnOnce()) -> usize {
    let before = held();
    MOST.store(before, Relaxed);
    run();
    MOST.load(Relaxed) - before
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// The system's allocator, asked for exactly what was asked of this one.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(held, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(place, layout) }
    }
}
