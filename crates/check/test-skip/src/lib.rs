//! Tests that this machine can't run: each says so, and `make test` counts them.
//!
//! A test that is skipped passes, as far as the test harness knows, and what it prints is hidden.
//! So its line goes into a file, too, which `scripts/test.sh` prints at the end.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// Names the file to which lines of skipped tests are added.
pub const FILE: &str = "HOSTFTL_SKIPPED";

/// The test that calls this, or a part of it, is skipped: says why, and what would let it run.
///
/// # Panics
/// When the file that [`FILE`] names can't be written.
pub fn skipped(why: impl Display) {
    let thread = std::thread::current();
    let line = format!("SKIP {}: {why}\n", thread.name().unwrap_or("a test"));
    eprint!("{line}");
    if let Some(path) = std::env::var_os(FILE) {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
