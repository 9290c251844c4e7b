//! What keeps a process alive that serves a volume, when the machine is short of memory: its own
//! memory stays, others are killed first, and what it allocates waits for no writes of its own.
//!
//! Each is done where the process may; what it may not is said, and is no error.

use std::fs;
use std::io;

/// The bit of the capability to lock memory without a limit.
const CAP_IPC_LOCK: u32 = 14;
/// The file with the kernel's readiness to kill this process.
const OOM: &str = "/proc/self/oom_score_adj";
/// Low enough that others are killed first; at −1000 not even a leak would end it.
const OOM_SCORE: &str = "-900";
/// `PR_SET_IO_FLUSHER` of linux/prctl.h, which libc does not have.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// Protects this process and the threads that it starts from now on; what came of it, a line each.
pub fn protect() -> Vec<String> {
    vec![
        told("memory that was touched is locked", lock_memory()),
        told("others are killed first when memory runs out", lower_oom_score()),
        told("its memory waits for no writes of its own", be_io_flusher()),
    ]
}

fn told(what: &str, result: io::Result<()>) -> String {
    match result {
        Ok(()) => what.into(),
        Err(error) => format!("not: {what} ({error})"),
    }
}

/// Only where there is no limit: with one, later allocations would fail. Memory is locked when it
/// is touched first, so that what is only reserved takes none.
fn lock_memory() -> io::Result<()> {
    let limits = fs::read_to_string("/proc/self/limits")?;
    let limit = limits.lines().find(|line| line.starts_with("Max locked memory"));
    let unlimited = limit.is_some_and(|line| line.split_whitespace().nth(3) == Some("unlimited"));
    if !unlimited && !has_capability(CAP_IPC_LOCK) {
        return Err(io::Error::other("needs LimitMEMLOCK=infinity, or CAP_IPC_LOCK"));
    }
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: it changes how pages are kept, and none of what is in them.
    match unsafe { libc::mlockall(flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn has_capability(bit: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set >> bit & 1 == 1)
}

/// A score that somebody chose stays.
fn lower_oom_score() -> io::Result<()> {
    match fs::read_to_string(OOM)?.trim() {
        "0" => fs::write(OOM, OOM_SCORE),
        chosen if chosen.starts_with('-') => Ok(()),
        chosen => Err(io::Error::other(format!("its OOM score was set to {chosen}"))),
    }
}

fn be_io_flusher() -> io::Result<()> {
    let [one, zero]: [libc::c_ulong; 2] = [1, 0];
    // SAFETY: a setting of this thread, with no memory behind it.
    match unsafe { libc::prctl(PR_SET_IO_FLUSHER, one, zero, zero, zero) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_allowed_is_said() {
        assert_eq!(told("this is done", Ok(())), "this is done");
        let refused = told("this is done", Err(io::Error::other("no right")));
        assert_eq!(refused, "not: this is done (no right)");
    }
}
