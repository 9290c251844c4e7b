//! Protection of a serving process when memory is short: its memory is locked, other processes are
//! killed first, and its allocations do not wait for its own writes.
//!
//! Each measure is taken if the process has the right to it. A missing right is reported, and is
//! not an error.

use std::fs;
use std::io;

/// Bit of the capability to lock memory without a limit.
const CAP_IPC_LOCK: u32 = 14;
/// File with the OOM score adjustment of this process.
const OOM: &str = "/proc/self/oom_score_adj";
/// Low enough that other processes are killed first. At −1000 the kernel would not kill this
/// process even if it leaked memory.
const OOM_SCORE: &str = "-900";
/// `PR_SET_IO_FLUSHER` of linux/prctl.h, which libc does not define.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// Protects this process and the threads that it starts from now on. Returns a line for each
/// measure.
pub fn protect() -> Vec<String> {
    vec![
        status_line("memory lock", lock_memory()),
        status_line("OOM protection", lower_oom_score()),
        status_line("reclaim protection", be_io_flusher()),
    ]
}

fn status_line(measure: &str, result: io::Result<()>) -> String {
    match result {
        Ok(()) => format!("{measure}: on"),
        Err(error) => format!("{measure}: unavailable ({error})"),
    }
}

/// Locks memory, but only without a limit: with one, later allocations would fail. Memory is locked
/// on first use, so reserved memory takes no space.
fn lock_memory() -> io::Result<()> {
    let limits = fs::read_to_string("/proc/self/limits")?;
    let limit = limits.lines().find(|line| line.starts_with("Max locked memory"));
    let unlimited = limit.is_some_and(|line| line.split_whitespace().nth(3) == Some("unlimited"));
    if !unlimited && !has_capability(CAP_IPC_LOCK) {
        return Err(io::Error::other("needs LimitMEMLOCK=infinity or CAP_IPC_LOCK"));
    }
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: changes whether pages are locked, not their content.
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

/// Lowers the OOM score adjustment unless it was already set.
fn lower_oom_score() -> io::Result<()> {
    match fs::read_to_string(OOM)?.trim() {
        "0" => fs::write(OOM, OOM_SCORE),
        chosen if chosen.starts_with('-') => Ok(()),
        chosen => Err(io::Error::other(format!("OOM score set to {chosen}"))),
    }
}

fn be_io_flusher() -> io::Result<()> {
    let [one, zero]: [libc::c_ulong; 2] = [1, 0];
    // SAFETY: a setting of this thread that takes no memory.
    match unsafe { libc::prctl(PR_SET_IO_FLUSHER, one, zero, zero, zero) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unavailable_measure_has_its_reason() {
        assert_eq!(status_line("lock", Ok(())), "lock: on");
        let refused = status_line("lock", Err(io::Error::other("no right")));
        assert_eq!(refused, "lock: unavailable (no right)");
    }
}
