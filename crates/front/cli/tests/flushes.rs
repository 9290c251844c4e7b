//! Test of the test: power cuts in the client `medium` find every planted missing flush.
#![cfg(feature = "planted")]

use std::process::Command;

use hostftl_io::planted::{Bug, VARIABLE};
use hostftl_test_skip::skipped;

/// Runs the e2e client `medium` against the program with a planted bug. Returns its output.
fn medium(bug: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/e2e/run.sh");
    let mut run = Command::new(script);
    run.arg("medium").env("HOSTFTL", env!("CARGO_BIN_EXE_hostftl")).env(VARIABLE, bug);
    let output = run.output().expect("the script runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Returns whether a bug has an effect only if a flush fails or a device is reopened. The tests of
/// crates/run/io find those.
fn is_of_one_device(bug: Bug) -> bool {
    matches!(bug, Bug::NextFlushBelieved | Bug::CacheBelieved)
}

#[test]
fn an_omitted_flush_is_detected_by_a_cut() {
    let sound = medium("");
    if sound.contains("SKIP medium") {
        return skipped(sound);
    }
    assert!(sound.contains("ok   medium"), "{sound}");
    for bug in Bug::ALL.iter().filter(|bug| !is_of_one_device(**bug)) {
        let found = medium(&bug.name());
        println!("medium {bug:?}: {}", found.lines().find(|it| it.contains("FAIL")).unwrap_or("-"));
        assert!(found.contains("flushed data is lost"), "{bug:?} is not found: {found}");
    }
}
