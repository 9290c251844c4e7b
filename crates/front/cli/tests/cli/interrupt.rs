//! Ctrl-C, and a closed output.

use std::fs;
use std::io::Read;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::hostftl;

/// A comparison that runs for many seconds.
const ENDLESS: [&str; 6] =
    ["compare", "synth:uniform:count=10000000", "--layers", "none", "--closed-loop", "4"];

#[test]
fn ctrl_c_in_a_long_run_prints_partial_results() {
    let mut child = hostftl()
        .args(ENDLESS)
        .arg("--json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("hostftl starts");
    while worked(child.id()) < Duration::from_secs(1) {
        thread::sleep(Duration::from_millis(50));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().expect("it is piped").read_to_string(&mut out).expect("it is text");
    child.stderr.take().expect("it is piped").read_to_string(&mut err).expect("it is text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{err}");
    assert!(err.starts_with("hostftl: interrupted"), "{err}");
    assert!(out.contains("\"layer\": \"passthrough\""), "{out}");
    assert!(out.contains("\"partial\": true"), "{out}");
    assert!(out.contains("\"failed\": \"interrupted before the run\""), "{out}");
}

/// Returns the processor time of a process in user mode. Unlike the elapsed time, it does not
/// depend on the load of the machine.
fn worked(process: u32) -> Duration {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(path).expect("it runs for longer than that");
    let fields = stat.rsplit_once(')').expect("its name is in parentheses").1;
    let ticks = fields.split_whitespace().nth(11).and_then(|ticks| ticks.parse::<u64>().ok());
    Duration::from_millis(10 * ticks.expect("user time is the 14th field, in hundredths"))
}

#[test]
fn a_closed_output_pipe_is_no_error() {
    // A socket that is shut down instead of a closed pipe, because another test's child process may
    // hold a copy of the pipe's end for a moment.
    let (ours, theirs) = UnixStream::pair().expect("there are descriptors");
    ours.shutdown(Shutdown::Both).expect("it is connected");
    let output = hostftl()
        .args(["compare", "synth:uniform:count=1000", "--layers", "none", "--json"])
        .stdout(OwnedFd::from(theirs))
        .output()
        .expect("hostftl starts");
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
