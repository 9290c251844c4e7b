//! Ctrl-C, and a reader that goes away.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::hostftl;

/// A comparison that would take hours.
const ENDLESS: [&str; 6] =
    ["compare", "synth:uniform:count=100000000000", "--layers", "none", "--closed-loop", "4"];

#[test]
fn ctrl_c_in_a_long_run_prints_what_is_known() {
    let mut child = hostftl()
        .args(ENDLESS)
        .arg("--json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("hostftl starts");
    thread::sleep(Duration::from_millis(500));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().expect("it is piped").read_to_string(&mut out).expect("it is text");
    child.stderr.take().expect("it is piped").read_to_string(&mut err).expect("it is text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{err}");
    assert!(err.starts_with("hostftl: ended by a signal"), "{err}");
    assert!(out.contains("\"layer\": \"passthrough\""), "{out}");
    assert!(out.contains("\"partial\": true"), "{out}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = hostftl()
        .args(["compare", "synth:uniform:count=1000", "--layers", "none", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("hostftl starts");
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut err).expect("it is text");
    assert_eq!((child.wait().expect("it ends").code(), err.as_str()), (Some(141), ""));
}
