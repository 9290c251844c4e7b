//! Volumes on parts of one zoned device, each served by its own process, and refused parts.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::volume::{Server, json, refused, run};

/// Creates a volume on `device`, a part of the zoned file `z`.
fn create(dir: &Path, name: &str, device: &str, layer: &str, more: &[&str]) {
    let file = format!("{name}.toml");
    let args = ["create", &file, "--device", device, "--layer", layer, "--label", name];
    json(dir, &[&args, more].concat());
}

/// Returns a folder with the volumes `left`, on zones 0 to 99 of 253, and `right`, on the others.
fn two() -> TempDir {
    let folder = TempDir::new().expect("there is room");
    let dir = folder.path();
    let sparse = ["--size", "256M", "--sparse"];
    create(dir, "left", "zoned:z?zone=1m&open=40#zones=0-99", "log", &sparse);
    create(dir, "right", "zoned:z#zones=100-252", "rrpc:superpage=16k", &[]);
    folder
}

#[test]
fn two_processes_serve_parts_of_a_device_independently() {
    let folder = two();
    let dir = folder.path();
    let mut left = Server::start(dir, "left.toml", "l.sock", &[]);
    let mut right = Server::start(dir, "right.toml", "r.sock", &[]);
    for (volume, part) in [("left.toml", "/z#zones=0-99"), ("right.toml", "/z#zones=100-252")] {
        let told = json(dir, &["status", volume]);
        let name = told["devices"][0]["name"].as_str().expect("it has a name");
        assert!(name.starts_with("zoned:/") && name.ends_with(part), "{name}");
        refused(dir, &["check", volume], 1, &["in use by process", "serve"]);
        refused(dir, &["delete", volume], 1, &["in use by process", "serve"]);
    }
    let other = ["create", "x.toml", "--device", "zoned:z#zones=90-120", "--layer", "log"];
    refused(dir, &other, 1, &["#zones=90-120 is in use by process", ".toml", "has its zones"]);
    let whole = ["create", "x.toml", "--device", "zoned:z", "--layer", "log", "--force"];
    refused(dir, &whole, 1, &["in use by process"]);
    assert_eq!(left.end("-KILL").0, None);
    let mut left = Server::start(dir, "left.toml", "l.sock", &["--reuse-export-name"]);
    assert_eq!(left.end("-TERM").0, Some(0));
    // The server of `right` keeps running.
    json(dir, &["check", "left.toml"]);
    assert_eq!(right.end("-TERM").0, Some(0));
    json(dir, &["check", "right.toml"]);
    refused(
        dir,
        &["delete", "left.toml"],
        1,
        &["left.toml", "not deleted", "--force", "z#zones=0-99"],
    );
    json(dir, &["check", "left.toml"]);
    let (code, out, err) = run(dir, &["delete", "left.toml", "--force"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("deleted left.toml: layer log") && out.contains("z#zones=0-99"), "{out}");
    create(dir, "left", "zoned:z#zones=0-49", "pblk", &[]);
    create(dir, "middle", "zoned:z#zones=50-99", "log", &[]);
    let import = ["import", "zoned:z#zones=100-252", "--output", "again.toml"];
    assert_eq!(json(dir, &import)["config"]["label"], "right");
}

#[test]
fn an_invalid_part_is_refused_and_leaves_no_files() {
    let folder = two();
    let dir = folder.path();
    let before = fs::read_dir(dir).expect("it is there").count();
    fs::write(dir.join("plain"), vec![0; 8 << 20]).expect("there is room");
    // An invalid name is a usage error.
    for (device, words) in [
        ("zoned:z#zones=", &["is not a part", "#zones=0-63"][..]),
        ("zoned:z#zones=1M-2M", &["is not a part"]),
        ("zoned:z#offset=4096", &["is not a part"]),
        ("zoned:z#zones=20-10", &["is empty"]),
        ("plain#zones=0-9", &["only zoned devices have parts"]),
        ("mem:64m#zones=0-9", &["not a size"]),
        ("zoned:mem:64m#zones=0-9", &["have no parts"]),
    ] {
        let args = ["create", "x.toml", "--device", device, "--layer", "log"];
        refused(dir, &args, 2, words);
        assert_eq!(fs::read_dir(dir).expect("it is there").count(), before + 1, "{device}");
    }
    for (device, words) in [
        ("zoned:z#zones=240-253", &["beyond the end", "zones 0 to 252"][..]),
        ("zoned:z#units=1", &["beyond the end", "parallel units 0 to 0"]),
        ("zoned:z#zones=5-6", &["too few"]),
        ("zoned:z#zones=95-110", &["zones 0 to 99", "volume left", "zones 95 to 110"]),
        ("zoned:z#zones=101-252", &["zones 100 to 252", "volume right", "zones 101 to 252"]),
        ("zoned:z", &["zones 0 to 99", "volume left", "all of them", "hostftl delete"]),
        ("zoned:z#zones=0-99", &["holds a member of a HostFTL volume"]),
        ("zoned:plain#zones=0-9", &["it is not a zoned file"]),
        ("nbd://localhost/x#zones=0-9", &[]),
        ("zoned:none#zones=0-9", &["does not exist"]),
    ] {
        let args = ["create", "x.toml", "--device", device, "--layer", "log"];
        refused(dir, &args, 1, words);
        assert_eq!(fs::read_dir(dir).expect("it is there").count(), before + 1, "{device}");
    }
    for volume in ["left.toml", "right.toml"] {
        json(dir, &["check", volume]);
    }
}
