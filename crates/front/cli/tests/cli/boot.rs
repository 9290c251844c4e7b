//! Notifications of `hostftl serve` to a service manager, and the shipped systemd units.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hostftl_test_skip::skipped;
use tempfile::TempDir;

use crate::hostftl;

/// Time limit that is only exceeded by a hang, also on a slow machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A folder with a volume and the socket of a service manager.
struct Machine {
    dir: TempDir,
    socket: UnixDatagram,
}

impl Machine {
    fn new() -> Self {
        let dir = TempDir::new().expect("there is room");
        let args = ["create", "v.toml", "--device", "d.img", "--size", "16M", "--layer", "log"];
        let made = hostftl().current_dir(dir.path()).args(args).output().expect("hostftl starts");
        assert!(made.status.success(), "{made:?}");
        let socket = UnixDatagram::bind(dir.path().join("notify")).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
        Machine { dir, socket }
    }

    fn serve(&self, more: &[(&str, &str)]) -> Child {
        let mut command = hostftl();
        command.current_dir(self.dir.path()).args(["serve", "v.toml", "--nbd", "unix:s.sock"]);
        command.env("NOTIFY_SOCKET", self.dir.path().join("notify"));
        command.envs(more.iter().copied());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("hostftl starts")
    }

    /// Receives datagrams until a line starts with `word`. Returns all lines.
    fn hear(&self, word: &str) -> Vec<String> {
        let (mut lines, begun) = (Vec::new(), Instant::now());
        while begun.elapsed() < PATIENCE {
            let mut text = [0; 1024];
            let got = match self.socket.recv(&mut text) {
                Ok(got) => got,
                Err(error) => panic!("{error} instead of {word} after {lines:?}"),
            };
            let text = std::str::from_utf8(&text[..got]).expect("it is text");
            lines.extend(text.lines().map(str::to_owned));
            if text.lines().any(|line| line.starts_with(word)) {
                return lines;
            }
        }
        panic!("never {word}: {lines:?}")
    }
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

fn has(lines: &[String], line: &str) -> bool {
    lines.iter().any(|found| found == line)
}

#[test]
fn the_service_manager_is_notified_of_each_step() {
    let machine = Machine::new();
    let mut child = machine.serve(&[("WATCHDOG_USEC", "400000")]);
    let start = machine.hear("READY=1");
    assert!(has(&start, "STATUS=v.toml: waiting for devices"), "{start:?}");
    assert!(start.iter().any(|line| line.starts_with("EXTEND_TIMEOUT_USEC=")), "{start:?}");
    assert!(has(&start, &format!("MAINPID={}", child.id())), "{start:?}");
    let serves = start
        .iter()
        .any(|line| line.starts_with("STATUS=serves v (log, ") && line.ends_with("): online"));
    assert!(serves, "{start:?}");
    // After READY clients can connect.
    assert!(machine.dir.path().join("s.sock").exists());
    (0..5).for_each(|_| drop(machine.hear("WATCHDOG=1")));
    signal(&child, "-TERM");
    let stop = machine.hear("STOPPING=1");
    assert!(stop.iter().any(|line| line.starts_with("STATUS=stopping: ")), "{stop:?}");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn readiness_is_not_reported_without_a_request() {
    let machine = Machine::new();
    // The watchdog is that of another process.
    let mut child = machine.serve(&[("WATCHDOG_USEC", "100000"), ("WATCHDOG_PID", "1")]);
    machine.hear("READY=1");
    machine.socket.set_read_timeout(Some(Duration::from_millis(700))).expect("it is a socket");
    let mut text = [0; 1024];
    while let Ok(got) = machine.socket.recv(&mut text) {
        assert!(!text[..got].starts_with(b"WATCHDOG"), "it was notified nevertheless");
    }
    signal(&child, "-TERM");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_waiting_start_reports_the_missing_device() {
    let machine = Machine::new();
    let (there, away) = (machine.dir.path().join("d.img"), machine.dir.path().join("away"));
    fs::rename(&there, &away).expect("it is there");
    let mut child = machine.serve(&[]);
    let waits = |line: &String| line.starts_with("STATUS=") && line.contains("d.img");
    let mut heard = Vec::new();
    while !heard.iter().any(waits) {
        heard = machine.hear("STATUS=");
        assert!(!has(&heard, "READY=1"), "{heard:?}");
    }
    fs::rename(&away, &there).expect("it is there");
    machine.hear("READY=1");
    signal(&child, "-TERM");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_failed_notification_does_not_stop_the_server() {
    let machine = Machine::new();
    let mut child = machine.serve(&[("NOTIFY_SOCKET", "vsock:2:1")]);
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("it is text");
    assert!(line.starts_with("ready nbd+unix:"), "{line}");
    signal(&child, "-TERM");
    let ended = child.wait_with_output().expect("it ends");
    let err = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{err}");
    assert!(err.contains("cannot notify the service manager at NOTIFY_SOCKET=vsock:2:1"), "{err}");
}

/// Copies the shipped units to a folder, with the path of the tested command. Returns the path of
/// the service, too.
fn units() -> (TempDir, PathBuf) {
    let dir = TempDir::new().expect("there is room");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/systemd");
    let attach = shipped.join("../lib/attach").display().to_string();
    for name in ["hostftl@.service", "hostftl@.socket", "hostftl-nbd@.service"] {
        let text = fs::read_to_string(shipped.join(name)).expect("it is shipped");
        let text = text.replace("/usr/bin/hostftl", env!("CARGO_BIN_EXE_hostftl"));
        let text = text.replace("/usr/lib/hostftl/attach", &attach);
        fs::write(dir.path().join(name), text).expect("there is room");
    }
    let service = dir.path().join("hostftl@.service");
    (dir, service)
}

/// Runs `systemd-analyze`. Returns whether it succeeded and its output; `None` without systemd.
fn analyze(args: &[&str]) -> Option<(bool, String)> {
    let output = match Command::new("systemd-analyze").args(args).output() {
        Ok(output) => output,
        Err(error) => {
            skipped(format!("systemd-analyze: {error}; install systemd"));
            return None;
        }
    };
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn the_units_are_valid_and_confine_the_server() {
    let (dir, service) = units();
    let service = service.display().to_string();
    let [socket, door] = ["hostftl@.socket", "hostftl-nbd@.service"]
        .map(|name| dir.path().join(name).display().to_string());
    let verify = ["verify", "--man=no", &service, &socket, &door];
    let Some((sound, text)) = analyze(&verify) else { return };
    // It succeeds with a warning for unknown settings.
    assert!(sound && text.is_empty(), "{text}");
    // The exposure ranges from 0 (no privileges) to 100 (all); up to 40 it is rated OK.
    let security = ["security", "--no-pager", "--offline=true", "--threshold=30", &service];
    let Some((confined, text)) = analyze(&security) else { return };
    if text.contains("unrecognized option") {
        return skipped("this systemd-analyze knows no --offline; 250 and later do");
    }
    assert!(confined, "{text}");
}

#[test]
fn the_server_makes_only_system_calls_that_its_unit_allows() {
    let Some((true, text)) = analyze(&["syscall-filter", "--no-pager"]) else { return };
    if Command::new("strace").arg("-V").output().is_err() {
        return skipped("strace is not installed");
    }
    let (machine, trace) = (Machine::new(), TempDir::new().expect("there is room"));
    let trace = trace.path().join("calls");
    let child = Command::new("strace")
        .args(["-f", "-qq", "-e", "signal=none", "-o"])
        .arg(&trace)
        .args([env!("CARGO_BIN_EXE_hostftl"), "serve", "v.toml", "--nbd", "unix:s.sock"])
        .current_dir(machine.dir.path())
        .env("NOTIFY_SOCKET", machine.dir.path().join("notify"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.expect("strace starts");
    let told = machine.hear("READY=1");
    let pid = told.iter().find_map(|line| line.strip_prefix("MAINPID=")).expect("its number");
    let sent = Command::new("kill").args(["-TERM", pid]).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let used = fs::read_to_string(&trace).expect("it was written");
    let used: BTreeSet<&str> = used.lines().filter_map(call).collect();
    assert!(used.contains("sendto") && used.len() > 20, "{used:?}");
    let sets = sets(&text);
    let allowed = members(&sets, "@system-service");
    let forbidden: BTreeSet<_> = ["@obsolete", "@keyring", "@swap"]
        .into_iter()
        .flat_map(|set| members(&sets, set))
        .collect();
    let kept: Vec<_> = used
        .iter()
        .filter(|call| !allowed.contains(**call) || forbidden.contains(**call))
        .collect();
    assert!(kept.is_empty(), "the unit forbids {kept:?}");
}

/// Returns the system call in a line of strace: `PID name(…`.
fn call(line: &str) -> Option<&str> {
    let call = line.split_whitespace().nth(1)?.split('(').next()?;
    let is_name = call.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    (is_name && line.contains('(')).then_some(call)
}

/// Returns the sets of `systemd-analyze syscall-filter`, each with its lines.
fn sets(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut sets: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        match line.strip_prefix(' ') {
            Some(member) => {
                sets.iter_mut().last().into_iter().for_each(|set| set.1.push(member.trim()))
            }
            None if line.starts_with('@') => sets.push((line.trim(), Vec::new())),
            None => {}
        }
    }
    sets
}

/// Returns the system calls of a set, including those of nested sets.
fn members<'a>(sets: &[(&'a str, Vec<&'a str>)], name: &str) -> BTreeSet<&'a str> {
    let list = sets.iter().find(|set| set.0 == name).map_or(&[][..], |set| &set.1);
    let of = |member: &&'a str| {
        if member.starts_with('@') { members(sets, member) } else { BTreeSet::from([*member]) }
    };
    list.iter().flat_map(of).collect()
}
