//! Tests that cannot run on this machine: each reports that, and `make test` counts them.
//!
//! The test harness counts a skipped test as passed and hides its output. Therefore the message is
//! also written to a file, which `scripts/test.sh` prints at the end.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// Environment variable with the path of the file for messages of skipped tests.
pub const FILE: &str = "HOSTFTL_SKIPPED";

/// Reports that the calling test, or a part of it, is skipped, with the reason and the condition to
/// run it.
///
/// # Panics
/// When the file named by [`FILE`] cannot be written.
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
