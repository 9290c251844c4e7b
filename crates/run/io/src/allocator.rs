//! An allocator that ends the process with a line and an exit code when there is no memory. The
//! system's own is used as it is; but where it fails, Rust aborts with SIGABRT, which looks like a
//! fault of the program.

use std::alloc::{GlobalAlloc, Layout, System};

/// The exit code of a command that could not do its work.
const FAILED: i32 = 1;

/// See the module text. A program makes it its global allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrExit;

// SAFETY: everything is the system allocator's, and a failure does not return.
unsafe impl GlobalAlloc for OrExit {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that are needed.
        or_exit(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        or_exit(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        or_exit(unsafe { System.realloc(memory, layout, size) }, size)
    }
}

fn or_exit(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        exit(bytes);
    }
    memory
}

/// Ends the process. Nothing here allocates or takes a lock.
#[cold]
fn exit(bytes: usize) -> ! {
    let mut digits = [b'0'; 20];
    let (mut left, mut from) = (bytes, digits.len());
    while left > 0 {
        from -= 1;
        digits[from] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let why = b" bytes of memory: the system or a limit (a control group, RLIMIT_AS as of `ulimit \
        -v`) refuses them; a volume that was served opens again as after a crash\n";
    for part in [b"hostftl: cannot get ".as_slice(), &digits[from..], why] {
        // SAFETY: writes from a live slice; a short write is harmless.
        unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(FAILED) }
}

/// Makes the allocator give large blocks back to the system as soon as they are freed. By itself
/// glibc keeps blocks of up to 32 MiB for the thread that freed them, so a server with many clients
/// would keep many times the memory that it needs.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        /// From this size in bytes on each block is a mapping of its own.
        const LARGE: libc::c_int = 256 << 10;
        // SAFETY: sets a parameter of the allocator; one that refuses works as before.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}
