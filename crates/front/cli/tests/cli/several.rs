//! One server for several volumes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::hostftl;

/// Returns a folder with the volumes `a` (passthrough) and `b` (log) of 16 MiB.
fn two() -> TempDir {
    let dir = TempDir::new().expect("there is room");
    for (name, layer) in [("a", "passthrough"), ("b", "log")] {
        let (file, device) = (format!("{name}.toml"), format!("{name}.img"));
        let args = ["create", &file, "--device", &device, "--size", "16M", "--layer", layer];
        let made = hostftl().current_dir(dir.path()).args(args).output().expect("hostftl starts");
        assert!(made.status.success(), "{made:?}");
    }
    dir
}

fn serve(dir: &Path, args: &[&str]) -> Child {
    let mut command = hostftl();
    command.current_dir(dir).arg("serve").args(args).args(["--nbd", "unix:s.sock"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("hostftl starts")
}

/// Reads the next `count` lines of a server's output.
fn lines(child: &mut Child, count: usize) -> Vec<String> {
    let out = child.stdout.as_mut().expect("it is piped");
    let lines = BufReader::with_capacity(1, out).lines();
    lines.take(count).map(|line| line.expect("it is text")).collect()
}

/// Stops a server. Returns its exit code, the rest of its output, and its standard error.
fn stop(child: Child) -> (Option<i32>, String, String) {
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    let ended = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

fn status(dir: &Path, volume: &str) -> Value {
    let asked = hostftl().current_dir(dir).args(["status", volume, "--json"]).output();
    serde_json::from_slice(&asked.expect("hostftl starts").stdout).expect("it is JSON")
}

#[test]
fn one_server_exports_several_volumes() {
    let folder = two();
    let dir = folder.path();
    for named in [&["a.toml", "b.toml"][..], &["."]] {
        let mut child = serve(dir, named);
        let ready = lines(&mut child, 2);
        for (line, name) in ready.iter().zip(["a", "b"]) {
            assert!(line.starts_with(&format!("ready nbd+unix:///{name}?socket=/")), "{line}");
        }
        for name in ["a.toml", "b.toml"] {
            assert_eq!(status(dir, name)["served_by"], child.id());
        }
        let (code, out, err) = stop(child);
        assert_eq!(code, Some(0), "{err}");
        assert_eq!(out, "stopped clean: 0 requests by 0 clients, 0 B written\n");
        // Each line names its volume.
        for name in [" a: ready after ", " b: ready after "] {
            assert!(err.contains(name), "{err}");
        }
    }
}

#[test]
fn json_lists_all_volumes() {
    let folder = two();
    let mut child = serve(folder.path(), &["a.toml", "b.toml", "--json", "--socket-mode", "0640"]);
    let ready: Value = serde_json::from_str(&lines(&mut child, 6).concat()).expect("it is JSON");
    assert_eq!(ready["ready"].as_array().map(Vec::len), Some(2), "{ready}");
    let socket = fs::metadata(folder.path().join("s.sock")).expect("it listens");
    assert_eq!(socket.mode() & 0o777, 0o640);
    let (code, out, err) = stop(child);
    assert_eq!(code, Some(0), "{err}");
    let end: Value = serde_json::from_str(&out).expect("it is JSON");
    let layers: Vec<_> = end["volumes"].as_array().expect("a list").iter().collect();
    assert_eq!(layers.iter().map(|it| &it["layer"]).collect::<Vec<_>>(), ["passthrough", "log"]);
}

#[test]
fn conflicting_volumes_are_refused_and_remain_clean() {
    let folder = two();
    let dir = folder.path();
    fs::create_dir(dir.join("empty")).expect("there is room");
    fs::create_dir(dir.join("other")).expect("there is room");
    fs::write(dir.join("broken.toml"), "uuid = 1\n").expect("there is room");
    fs::copy(dir.join("a.toml"), dir.join("other/a.toml")).expect("it is there");
    let cases: [(&[&str], i32, &str); 9] = [
        (&["a.toml", "./a.toml"], 2, "./a.toml is given twice"),
        (&["empty"], 1, "empty: the folder has no volume file (*.toml)"),
        (&["a.toml", "broken.toml"], 1, "broken.toml"),
        (&["a.toml", "gone.toml"], 1, "gone.toml"),
        (&["a.toml", "b.toml", "--degraded"], 2, "--degraded needs a single volume, not 2"),
        (&["a.toml", "b.toml", "--record", "r"], 2, "--record needs a single volume"),
        (&["a.toml", "--limit-requests", "c=5"], 2, "cannot limit \"c\": the exports are a"),
        (&["a.toml", "--socket-mode", "999"], 2, "write octal permissions, such as 0660"),
        (&["a.toml", "--socket-group", "no such group"], 2, "unknown group"),
    ];
    for (args, code, words) in cases {
        let ended = serve(dir, args).wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{args:?}: {err}");
        assert!(err.contains(words), "{args:?}: {err}");
    }
    for name in ["a.toml", "b.toml"] {
        assert_eq!(status(dir, name)["unclean_shutdown"], false, "{name}");
    }
}
