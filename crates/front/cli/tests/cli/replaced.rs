//! Devices that are replaced or added while a server runs and is killed. The same command completes
//! the change, and no data is lost.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use hostftl_volume::front::{Job, JobOp};
use hostftl_volume::{Config, StartOptions, open};
use tempfile::TempDir;

use crate::hostftl;
use crate::volume::{Server, json, run};

const BLOCKS: u64 = 2000;

fn content(block: u64) -> Vec<u8> {
    (0..4096).map(|at| (block * 53 + at / 9) as u8).collect()
}

/// Returns a folder with `v.toml` over three files, filled with [`BLOCKS`] blocks.
fn with_array() -> TempDir {
    let dir = TempDir::new().expect("there is room");
    let mut args = vec!["create", "v.toml", "--size", "48M", "--layer"];
    args.extend(["log:parity=yes:compress=none", "--device", "d0", "--device", "d1"]);
    args.extend(["--device", "d2"]);
    json(dir.path(), &args);
    let (running, port) = open(&dir.path().join("v.toml"))
        .and_then(|volume| volume.start(&StartOptions::default()))
        .expect("it is whole");
    let (sender, answers) = channel();
    let reply = std::sync::Arc::new(sender);
    for block in 0..BLOCKS {
        let mut data = port.buffer(4096);
        data.copy_from_slice(&content(block));
        let op = JobOp::Write { data, fua: false };
        port.submit(Job { op, offset: block * 4096, bytes: 4096, cookie: 0, reply: reply.clone() });
        answers.recv().expect("an answer").result.expect("there is room");
    }
    running.stop().expect("it is closed clean");
    dir
}

/// Reads all blocks of the volume, which is not served, and checks it.
fn verify(dir: &Path) {
    let (running, port) = open(&dir.join("v.toml"))
        .and_then(|volume| volume.start(&StartOptions::default()))
        .expect("it is whole");
    let (sender, answers) = channel();
    let reply = std::sync::Arc::new(sender);
    for block in 0..BLOCKS {
        let op = JobOp::Read(port.buffer(4096));
        port.submit(Job { op, offset: block * 4096, bytes: 4096, cookie: 0, reply: reply.clone() });
        let answer = answers.recv().expect("an answer");
        answer.result.expect("it can be read");
        assert_eq!(answer.data.expect("it is read")[..], content(block)[..], "block {block}");
    }
    running.stop().expect("it is closed clean");
    let checked = json(dir, &["check", "v.toml", "--data"]);
    assert_eq!(checked["problems"], serde_json::json!([]), "{checked}");
}

/// Returns whether the volume file lists a device. A pending device may not be a member yet.
fn lists(dir: &Path, new: &str) -> bool {
    let config = Config::load(&dir.join("v.toml")).expect("it is there");
    config.devices.iter().any(|name| name.ends_with(&format!("/{new}")))
}

fn replace(dir: &Path, old: &str, new: &str) -> Child {
    let args = ["device", "replace", "v.toml", old, new, "--force"];
    let mut command = hostftl();
    command.current_dir(dir).args(args).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("hostftl starts")
}

#[test]
fn a_kill_during_a_replacement_loses_no_data() {
    let folder = with_array();
    let dir = folder.path();
    let mut server = Server::start(dir, "v.toml", "s.sock", &[]);
    let begun = Instant::now();
    assert!(replace(dir, "2", "n").wait().expect("it ends").success());
    let whole = begun.elapsed();
    assert_eq!(run(dir, &["wait", "v.toml"]).0, 0);
    assert_eq!(run(dir, &["wait", "v.toml"]).0, 0);
    assert_eq!(server.end("-TERM").0, Some(0));
    for (turn, percent) in [5, 40, 70, 80, 90, 95, 100, 110].into_iter().enumerate() {
        let (old, new, after) = ((turn % 3).to_string(), format!("n{turn}"), whole * percent / 100);
        let mut server = Server::start(dir, "v.toml", "s.sock", &["--reuse-export-name"]);
        let mut begun = replace(dir, &old, &new);
        thread::sleep(after);
        server.end("-KILL");
        begun.wait().expect("it ends with the server");
        // The replacement may or may not have started. If not, the same command completes it.
        if !lists(dir, &new) {
            let args = ["device", "replace", "v.toml", &old, &new, "--force"];
            let (code, _, err) = run(dir, &args);
            assert_eq!(code, 0, "after {after:?}: {err}");
        }
        let mut server = Server::start(dir, "v.toml", "s.sock", &["--reuse-export-name"]);
        let waited = run(dir, &["wait", "v.toml"]);
        assert_eq!(waited.0, 0, "{}", waited.2);
        let (code, err) = server.end("-TERM");
        assert_eq!(code, Some(0), "{err}");
        verify(dir);
    }
}

#[test]
fn an_end_is_unclean_also_when_all_devices_were_replaced() {
    let folder = with_array();
    let dir = folder.path();
    let mut server = Server::start(dir, "v.toml", "s.sock", &[]);
    for index in ["0", "1", "2"] {
        assert!(replace(dir, index, &format!("n{index}")).wait().expect("it ends").success());
        assert_eq!(run(dir, &["wait", "v.toml"]).0, 0);
    }
    server.end("-KILL");
    assert_eq!(json(dir, &["status", "v.toml"])["unclean_shutdown"], true);
}

#[test]
fn a_device_is_replaced_while_served_and_the_next_command_shown() {
    let folder = with_array();
    let dir = folder.path();
    let mut server = Server::start(dir, "v.toml", "s.sock", &[]);
    let (code, out, err) = run(dir, &["device", "replace", "v.toml", "1", "n"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("replaces device 1") && out.contains("hostftl wait v.toml"));
    assert_eq!(run(dir, &["wait", "v.toml"]).0, 0);
    let status = json(dir, &["status", "v.toml"]);
    assert_eq!(status["devices"][1]["health"], "online");
    assert!(status["devices"][1]["name"].as_str().is_some_and(|name| name.ends_with("/n")));
    assert_eq!(server.end("-TERM").0, Some(0));
    fs::remove_file(dir.join("d1")).expect("it is there yet");
    verify(dir);
}

fn add(dir: &Path, new: &str) -> Child {
    let args = ["device", "add", "v.toml", new, "--force"];
    let mut command = hostftl();
    command.current_dir(dir).args(args).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("hostftl starts")
}

#[test]
fn a_kill_during_an_addition_loses_no_data() {
    let folder = with_array();
    let dir = folder.path();
    let mut server = Server::start(dir, "v.toml", "s.sock", &[]);
    let begun = Instant::now();
    assert!(add(dir, "n").wait().expect("it ends").success());
    let whole = begun.elapsed();
    assert_eq!(run(dir, &["wait", "v.toml"]).0, 0);
    assert_eq!(server.end("-TERM").0, Some(0));
    for (turn, percent) in [10, 50, 70, 80, 85, 90, 95, 100, 110].into_iter().enumerate() {
        let (new, after) = (format!("n{turn}"), whole * percent / 100);
        let mut server = Server::start(dir, "v.toml", "s.sock", &["--reuse-export-name"]);
        let mut begun = add(dir, &new);
        thread::sleep(after);
        server.end("-KILL");
        begun.wait().expect("it ends with the server");
        if !lists(dir, &new) {
            let (code, _, err) = run(dir, &["device", "add", "v.toml", &new, "--force"]);
            assert_eq!(code, 0, "after {after:?}: {err}");
        }
        verify(dir);
    }
    let devices = &json(dir, &["status", "v.toml"])["devices"];
    assert_eq!(devices.as_array().map(Vec::len), Some(13));
}

#[test]
fn a_device_is_added_while_served_and_the_next_command_shown() {
    let folder = with_array();
    let dir = folder.path();
    let mut server = Server::start(dir, "v.toml", "s.sock", &[]);
    let (code, out, err) = run(dir, &["device", "add", "v.toml", "n", "--dry-run"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("dry run") && !dir.join("n").exists(), "{out}");
    let (code, out, err) = run(dir, &["device", "add", "v.toml", "n"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("added as device 3") && out.contains("`hostftl status v.toml`"), "{out}");
    let told = json(dir, &["device", "spare", "v.toml", "s"]);
    assert_eq!((&told["served"], &told["devices"][0]["device"]), (&true.into(), &4.into()));
    let status = json(dir, &["status", "v.toml"]);
    assert_eq!(
        (&status["devices"][4]["role"], &status["events"]["device-added"]),
        (&"spare".into(), &2.into())
    );
    let (code, _, err) = run(dir, &["device", "add", "v.toml", "n"]);
    assert!(code != 0 && err.contains("is already device 3 of this volume"), "{err}");
    assert_eq!(server.end("-TERM").0, Some(0));
    verify(dir);
}
