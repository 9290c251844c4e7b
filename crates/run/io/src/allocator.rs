//! A global allocator that ends the process with a message and an exit code when memory runs out.
//! It forwards to the system allocator. Without it Rust aborts with SIGABRT, which resembles a
//! crash of the program.

use std::alloc::{GlobalAlloc, Layout, System};

/// Exit code of a command that failed.
const FAILED: i32 = 1;

/// Global allocator that exits the process when an allocation fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExitOnFailure;

// SAFETY: all calls go to the system allocator, and a failed allocation does not return.
unsafe impl GlobalAlloc for ExitOnFailure {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the same contract that the system allocator requires.
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

/// Ends the process. It must not allocate or take a lock.
#[cold]
fn exit(bytes: usize) -> ! {
    let mut digits = [b'0'; 20];
    let (mut left, mut from) = (bytes, digits.len());
    while left > 0 {
        from -= 1;
        digits[from] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let why = b" bytes of memory: the system or a limit (a control group, or RLIMIT_AS, see \
                `ulimit -v`) refused; a served volume recovers at the next start, as after a \
                crash\n";
    for part in [b"hostftl: cannot get ".as_slice(), &digits[from..], why] {
        // SAFETY: writes from a live slice; a short write is harmless.
        unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(FAILED) }
}

/// Makes the allocator return large blocks to the system as soon as they are freed. By default
/// glibc keeps blocks of up to 32 MiB for the thread that freed them, so a server with many clients
/// would hold many times the memory that it needs.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        /// Size in bytes from which each block is a mapping of its own.
        const LARGE: libc::c_int = 256 << 10;
        // SAFETY: sets a parameter of the allocator; if it is refused, the default stays.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}
