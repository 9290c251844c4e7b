//! Tests that the checks detect planted bugs: trust in cached data of a device, and trust in a
//! flush after a failed one.
#![cfg(feature = "planted")]

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use hostftl_core::Page;
use hostftl_io::Device;
use hostftl_io::planted::{self, Bug};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

#[path = "suite/common/mod.rs"]
#[allow(dead_code)]
mod common;

const MIB: u64 = 1 << 20;

/// Replaces the descriptor of the open file `name` by one that cannot be flushed while `run` runs.
fn without_flush<R>(name: &str, run: impl FnOnce() -> R) -> R {
    let list = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let is_it = |path: &PathBuf| fs::read_link(path).is_ok_and(|to| to == Path::new(name));
    let path = list.into_iter().find(is_it).expect("it is open");
    let fd: i32 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let (other, _end) = std::io::pipe().unwrap();
    // SAFETY: the number refers to an open file at all times, and is restored.
    unsafe {
        let kept = libc::dup(fd);
        assert!(kept >= 0 && libc::dup2(other.as_raw_fd(), fd) == fd);
        let result = run();
        assert!(libc::dup2(kept, fd) == fd && libc::close(kept) == 0);
        result
    }
}

/// Returns whether each flush after a failed one fails too, including that of superblocks.
fn failure_stays() -> bool {
    let (_folder, name) = common::sparse(4 * MIB);
    let device = Device::open(&name).unwrap();
    device.sync().unwrap();
    without_flush(&name, || device.sync().unwrap_err());
    let stays = device.sync().is_err()
        && device.reserve([8, 16]).unwrap().write(0, &Page::default()).is_err();
    drop(device);
    Device::open(&name).unwrap().sync().unwrap();
    stays
}

/// Returns whether the page cache has no data of a device that was just opened.
fn cache_is_dropped() -> bool {
    let (_folder, name) = common::sparse(MIB);
    fs::write(&name, vec![7; MIB as usize]).unwrap();
    let _device = Device::open(&name).unwrap();
    let mut pages = vec![0_u8; MIB as usize / 4096];
    let file = File::open(&name).unwrap();
    // SAFETY: a new mapping that is only queried, with a byte of `pages` for each page.
    unsafe {
        let (none, len) = (std::ptr::null_mut(), MIB as usize);
        let start = mmap(none, len, ProtFlags::READ, MapFlags::SHARED, &file, 0).unwrap();
        assert_eq!(libc::mincore(start, len, pages.as_mut_ptr()), 0);
        munmap(start, len).unwrap();
    }
    pages.iter().all(|page| page & 1 == 0)
}

/// Planted bug, and the property that it violates.
type Case = (Bug, fn() -> bool);

const CACHED: [Case; 2] =
    [(Bug::NextFlushBelieved, failure_stays), (Bug::CacheBelieved, cache_is_dropped)];

fn holds(case: fn() -> bool) -> bool {
    catch_unwind(AssertUnwindSafe(case)).unwrap_or(false)
}

/// Sequential, because a bug is planted for the whole process.
#[test]
fn every_belief_is_found() {
    let mut escaped = Vec::new();
    planted::set_cached(true);
    for (bug, case) in CACHED {
        assert!(case(), "without a bug it holds, against {bug:?}");
        planted::set(Some(bug));
        let found = !holds(case);
        planted::set(None);
        println!("medium {bug:?}: {}", if found { "found" } else { "ESCAPED" });
        if !found {
            escaped.push(bug);
        }
    }
    assert!(escaped.is_empty(), "not found: {escaped:?}");
}
