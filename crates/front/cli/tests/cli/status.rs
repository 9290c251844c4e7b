//! `hostftl status` and `hostftl list`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::hostftl;
use crate::volume::{Server, json, run};

const CREATE: [&str; 14] = [
    "create",
    "v.toml",
    "--device",
    "d0",
    "--device",
    "d1",
    "--device",
    "d2",
    "--device",
    "d3",
    "--size",
    "64M",
    "--layer",
    "log:parity=yes",
];

#[test]
fn a_healthy_volume_fits_in_twelve_lines() {
    let folder = TempDir::new().expect("a temporary folder");
    let dir = folder.path();
    json(dir, &CREATE);
    let lines = || {
        let (code, out, err) = run(dir, &["status", "v.toml"]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.lines().count() <= 12, "{out}");
        assert!(out.contains(" can fail without data loss"), "{out}");
        let devices = out.lines().filter(|line| line.contains(" ONLINE ")).count();
        assert_eq!(devices, 4, "{out}");
        out
    };
    assert!(lines().starts_with("v.toml: ONLINE, layer log, not served\n"));
    let mut server = Server::start(dir, "v.toml", "s.sock", &[]);
    assert!(lines().starts_with("v.toml: ONLINE, layer log, served by process "));
    let status = json(dir, &["status", "v.toml"]);
    assert_eq!((&status["schema"], &status["state"]), (&1.into(), &"online".into()));
    let space = &status["space"];
    let parts = ["physical", "reclaimable", "free", "parity", "reserved"];
    let parts = parts.map(|name| space[format!("{name}_bytes")].as_u64().expect("a number"));
    assert_eq!(status["device_bytes"], parts.iter().sum::<u64>());
    assert_eq!(server.end("-TERM").0, Some(0));
}

#[test]
fn a_missing_device_is_named_with_the_next_command() {
    let folder = TempDir::new().expect("a temporary folder");
    let dir = folder.path();
    json(dir, &CREATE);
    std::fs::remove_file(dir.join("d2")).expect("the file exists");
    let (code, out, err) = run(dir, &["status", "v.toml"]);
    assert_eq!(code, 4, "{out}{err}");
    assert!(out.starts_with("v.toml: DEGRADED, "), "{out}");
    assert!(out.contains("run `hostftl device replace v.toml 2 NEW`"), "{out}");
    assert!(out.lines().any(|line| line.contains(" MISSING ") && line.contains(" 2 ")), "{out}");
}

#[test]
fn colors_follow_the_option_and_tables_fit_the_columns() {
    let folder = TempDir::new().expect("a temporary folder");
    let dir = folder.path();
    json(dir, &CREATE);
    let out = |args: &[&str], columns: &str| {
        let mut command = hostftl();
        command.current_dir(dir).args(["status", "v.toml"]).args(args).env("COLUMNS", columns);
        let out = command.output().expect("hostftl starts").stdout;
        String::from_utf8(out).expect("UTF-8")
    };
    assert!(
        !out(&[], "200").contains('\x1b') && !out(&["--color", "never"], "200").contains('\x1b')
    );
    assert!(out(&["--color", "always"], "200").contains("\x1b[32mONLINE"));
    let narrow = out(&[], "40");
    let table = narrow.lines().skip_while(|line| !line.contains('#'));
    assert!(table.clone().count() > 5, "{narrow}");
    assert!(table.into_iter().all(|line| line.chars().count() <= 41), "{narrow}");
}

#[test]
fn list_shows_the_served_volumes() {
    let folder = TempDir::new().expect("a temporary folder");
    let dir = folder.path();
    json(dir, &CREATE);
    // Other processes, also of other versions, may serve volumes on this machine.
    let served = |volume: &str| {
        let (_, out, _) = run(dir, &["list", "--json"]);
        let list: Value = serde_json::from_str(&out).expect("JSON");
        list.as_array().expect("an array").iter().any(|it| it["uuid"] == volume)
    };
    let uuid = json(dir, &["status", "v.toml"])["uuid"].as_str().expect("a UUID").to_owned();
    assert!(!served(&uuid));
    let mut server = Server::start(dir, "v.toml", "s.sock", &[]);
    assert!(served(&uuid));
    assert!(run(dir, &["list"]).1.lines().any(|line| line.contains(" v.toml ")));
    assert_eq!(server.end("-TERM").0, Some(0));
    assert!(!served(&uuid));
}

#[test]
fn top_prints_a_block_each_second_until_interrupted() {
    let folder = TempDir::new().expect("a temporary folder");
    let dir = folder.path();
    json(dir, &CREATE);
    let mut server = Server::start(dir, "v.toml", "s.sock", &[]);
    let mut command = hostftl();
    command.current_dir(dir).args(["top", "v.toml"]).stdout(Stdio::piped());
    let mut top = command.spawn().expect("hostftl starts");
    let lines = BufReader::new(top.stdout.take().expect("a pipe")).lines();
    // Rates follow from the second block.
    let mut lines = lines.map(|line| line.expect("UTF-8"));
    assert!(lines.any(|line| line.starts_with("v.toml: ONLINE, ")));
    assert!(lines.any(|line| line.contains(" started ")), "the newest events");
    assert!(lines.any(|line| line.contains(" WRITES/S ")), "rates of the devices");
    assert!(lines.any(|line| line.contains(" 0 requests/s, ")), "rates of the clients");
    let killed = Command::new("kill").args(["-INT", &top.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    assert!(lines.all(|line| !line.contains('\x1b')), "no terminal is redrawn");
    assert_eq!(top.wait().expect("hostftl ends").code(), Some(0));
    assert_eq!(server.end("-TERM").0, Some(0));
    let (code, _, err) = run(dir, &["top", "other.toml"]);
    assert_eq!(code, 1, "{err}");
}
