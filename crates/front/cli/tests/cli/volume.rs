//! Life cycle of a volume on the command line, and refused commands.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::hostftl;

/// Runs `hostftl` with `args` in `dir`. Returns its exit code, standard output and standard error.
pub(crate) fn run(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let output = hostftl().current_dir(dir).args(args).output().expect("hostftl starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    (output.status.code().expect("it ends by itself"), text(output.stdout), text(output.stderr))
}

/// Runs a command that must succeed, and returns its JSON.
pub(crate) fn json(dir: &Path, args: &[&str]) -> Value {
    let (code, out, err) = run(dir, &[args, &["--json"]].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
    serde_json::from_str(&out).expect("it is JSON")
}

/// Runs a command that must fail with `code` and one line that contains all of `words`.
pub(crate) fn refused(dir: &Path, args: &[&str], code: i32, words: &[&str]) {
    let (found, out, err) = run(dir, args);
    assert_eq!((found, out.as_str()), (code, ""), "{args:?}: {err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(words.iter().all(|word| err.contains(word)), "{args:?}: {err}");
}

/// A server that is ready. It is killed on drop.
pub(crate) struct Server(Child);

impl Server {
    pub(crate) fn start(dir: &Path, volume: &str, socket: &str, more: &[&str]) -> Self {
        let mut child = hostftl()
            .current_dir(dir)
            .args(["serve", volume, "--nbd", &format!("unix:{socket}")])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("hostftl starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it is text");
        let mut server = Server(child);
        if !line.starts_with("ready nbd+unix:///") {
            panic!("instead of being ready: {line}{}", server.end("-KILL").1);
        }
        server
    }

    /// Sends a signal and waits. Returns the exit code, if there is one, and standard error.
    pub(crate) fn end(&mut self, signal: &str) -> (Option<i32>, String) {
        let killed = Command::new("kill").args([signal, &self.0.id().to_string()]).status();
        assert!(killed.expect("kill runs").success());
        let mut err = String::new();
        self.0.stderr.take().expect("it is piped").read_to_string(&mut err).expect("it is text");
        (self.0.wait().expect("it ends").code(), err)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process has ended already unless a test failed.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Returns a folder with the volume `v.toml` over the file `d.img` of 16 MiB.
fn with_volume(layer: &str) -> TempDir {
    let dir = TempDir::new().expect("there is room");
    let args = ["create", "v.toml", "--device", "d.img", "--size", "16M", "--layer", layer];
    let created = json(dir.path(), &args);
    assert_eq!(created["layer"], layer);
    assert!(created["exported_bytes"].as_u64() > Some(8 << 20), "{created}");
    dir
}

#[test]
fn create_shows_the_reserved_space() {
    let dir = TempDir::new().expect("there is room");
    for (layer, share) in [("hard", " (of which over-provisioning 7.00 MiB, 7 %)"), ("shatl", "")] {
        let (volume, device) = (format!("{layer}.toml"), format!("{layer}.img"));
        let args = ["create", &volume, "--device", &device, "--size", "100M", "--layer", layer];
        let (code, out, err) = run(dir.path(), &args);
        assert_eq!((code, err.as_str()), (0, ""), "{layer}");
        let reserved = out.lines().find(|line| line.starts_with("  reserved ")).expect("a line");
        assert!(reserved.ends_with(&format!(" MiB of 100 MiB{share}")), "{reserved}");
    }
}

#[test]
fn a_volume_is_created_served_stopped_checked_and_imported() {
    for layer in ["passthrough", "hard"] {
        let folder = with_volume(layer);
        let dir = folder.path();
        let before = json(dir, &["status", "v.toml"]);
        assert_eq!(before["served_by"], Value::Null);
        let mut server = Server::start(dir, "v.toml", "s.sock", &["--record", "r.rec"]);
        let status = json(dir, &["status", "v.toml"]);
        assert_eq!(status["served_by"], server.0.id());
        assert_eq!(status["traffic"]["requests_received"], 0);
        let (code, err) = server.end("-TERM");
        assert_eq!(code, Some(0), "{err}");
        assert!(!dir.join("s.sock").exists());
        assert_eq!(json(dir, &["check", "v.toml"])["problems"], Value::Array(vec![]));
        assert_eq!(json(dir, &["replay", "r.rec"])["same"], true);
        fs::rename(dir.join("v.toml"), dir.join("lost.toml")).expect("it is there");
        let imported = json(dir, &["import", "d.img", "--output", "v.toml"]);
        assert_eq!(imported["config"]["uuid"], before["uuid"]);
        let texts =
            ["v.toml", "lost.toml"].map(|name| fs::read(dir.join(name)).expect("it is there"));
        assert_eq!(texts[0], texts[1]);
    }
}

#[test]
fn a_volume_has_one_owner_and_a_socket_one_server() {
    let folder = with_volume("hard");
    let dir = folder.path();
    let create = ["create", "w.toml", "--device", "e.img", "--size", "16M", "--layer", "hard"];
    json(dir, &create);
    let mut server = Server::start(dir, "v.toml", "s.sock", &[]);
    let holder = server.0.id().to_string();
    refused(dir, &["serve", "v.toml", "--nbd", "unix:t.sock"], 1, &["v.toml", "in use", &holder]);
    refused(dir, &["check", "v.toml"], 1, &["v.toml", "in use", &holder]);
    refused(dir, &["serve", "w.toml", "--nbd", "unix:s.sock"], 1, &["s.sock", "listens"]);
    fs::write(dir.join("file"), "no socket").expect("there is room");
    refused(dir, &["serve", "w.toml", "--nbd", "unix:file"], 1, &["file", "not a socket"]);
    assert_eq!(server.end("-KILL").0, None);
    assert!(dir.join("s.sock").exists(), "a killed server leaves its socket");
    let mut server = Server::start(dir, "v.toml", "s.sock", &[]);
    assert_eq!(server.end("-INT").0, Some(0));
    assert_eq!(json(dir, &["check", "w.toml"])["problems"], Value::Array(vec![]));
}

#[test]
fn existing_data_is_not_overwritten() {
    let folder = with_volume("hard");
    let dir = folder.path();
    let before = fs::read(dir.join("d.img")).expect("it is there");
    let create = |volume| ["create", volume, "--device", "d.img", "--layer", "hard"];
    refused(dir, &create("w.toml"), 1, &["d.img", "HostFTL volume", "--force"]);
    assert!(!dir.join("w.toml").exists());
    refused(dir, &create("v.toml"), 1, &["v.toml", "exists"]);
    assert!(fs::read(dir.join("d.img")).expect("it is there") == before, "the device was changed");
    json(dir, &[&create("w.toml")[..], &["--force"]].concat());
    refused(dir, &["check", "v.toml"], 1, &["d.img", "holds volume"]);
}

#[test]
fn shrunk_and_missing_devices_are_named() {
    let folder = with_volume("hard");
    let dir = folder.path();
    let device = OpenOptions::new().write(true).open(dir.join("d.img")).expect("it is there");
    device.set_len(8 << 20).expect("a file can shrink");
    refused(dir, &["check", "v.toml"], 1, &["d.img", "16777216"]);
    device.set_len(0).expect("a file can shrink");
    let serve = ["serve", "v.toml", "--nbd", "unix:s.sock", "--wait-devices", "0"];
    refused(dir, &serve, 1, &["d.img"]);
    fs::remove_file(dir.join("d.img")).expect("it is there");
    refused(dir, &["status", "v.toml"], 1, &["d.img"]);
}

/// `--superpage auto` probes the first device, and overwrites its data only with `--force`.
#[test]
fn a_superpage_is_probed_for() {
    let dir = tempfile::tempdir().unwrap();
    let auto = ["create", "v.toml", "--layer", "hard", "--superpage", "auto", "--device"];
    let made = json(dir.path(), &[&auto[..], &["drive:hatl-1g@flash.img"]].concat());
    assert_eq!(made["superpage_bytes"], 65536);
    let notes = made["notes"].to_string();
    assert!(notes.contains("superpage 64 KiB (found by timing"), "{notes}");

    fs::write(dir.path().join("disk.img"), vec![7; 64 << 20]).unwrap();
    let words = ["disk.img: the drive reports no unit", "add --force"];
    refused(dir.path(), &[&auto[..], &["disk.img"]].concat(), 2, &words);
    let held = fs::read(dir.path().join("disk.img")).unwrap();
    assert!(held.iter().all(|byte| *byte == 7), "the content is unchanged");
}

/// `create` accepts the stacks of `compare --drive` and `--layers`.
#[test]
fn a_studied_stack_can_be_created_as_a_volume() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let stack = "devices = [\"3*hatl-1g:capacity=64m\"]\n\
                 layers = [\"raid5\", \"log:parity=yes:journal=slc-1g:capacity=32m\"]\n";
    fs::write(dir.join("stack.toml"), stack).unwrap();
    let study = ["compare", "synth:uniform:size=4k,span=8m,count=200", "--drive", "stack.toml"];
    let study = [&study[..], &["--warm", "new", "--export", "50%"]].concat();
    let rows = json(dir, &study);
    assert_eq!(rows["rows"][1]["devices"][3]["role"], "journal", "{rows}");
    let made = json(dir, &["create", "v.toml", "--drive", "stack.toml"]);
    let devices = made["devices"].as_array().expect("a list").clone();
    assert_eq!((devices.len(), made["layer"].as_str()), (4, Some("log")));
    assert!(devices[3].as_str().expect("a name").starts_with("drive:slc-1g:capacity=32m@"));
    json(dir, &["check", "v.toml"]);
    let small = "slc-1g:capacity=32m + hatl-1g:capacity=64m";
    let tier = ["create", "w.toml", "--drive", small, "--layer", "tier"];
    for superpage in ["auto", "64k"] {
        let useless = [&tier[..], &["--superpage", superpage]].concat();
        refused(dir, &useless, 2, &["tier has no parameter 'superpage'"]);
    }
    json(dir, &tier);
    json(dir, &["check", "w.toml"]);
    refused(dir, &["create", "w.toml", "--drive", "hatl-1g"], 2, &["names no layer", "--layer"]);
    refused(dir, &["create", "v.toml", "--drive", "stack.toml"], 1, &["v.toml", "exists"]);
    json(dir, &["check", "v.toml"]);
}

/// A parameter is stated by the layer or by an option, and redundancy in one way.
#[test]
fn contradictory_options_of_create_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let devices = ["--device", "a", "--device", "b", "--device", "c", "--size", "64M"];
    for (options, why) in [
        (&["--layer", "log:parity=2", "--level", "5"][..], "--level and parity= of --layer"),
        (&["--layer", "log:spare=9", "--spare", "8"], "--spare and spare= of --layer"),
        (&["--layer", "hard:superpage=16k", "--superpage", "auto"], "--superpage and superpage="),
        (&["--level", "10"], "--level 6 stores as much"),
        (&["--level", "7"], "no level 7"),
        (&["--level", "5", "--mirror"], "cannot be used with"),
        (&["--level", "1"], "--mirror needs two devices"),
        (&["--layer", "log", "--vhc"], "only log with parity or a mirror"),
        (&["--level", "5", "--vhc", "--spare", "auto"], "state the spare"),
        (&["--level", "5", "--vhc", "--logical-size", "50M"], "cannot be used with"),
    ] {
        let all = [&["create", "v.toml"][..], &devices, options].concat();
        refused(dir, &all, 2, &[why]);
    }
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "nothing was made");
}

/// The devices of the published systems can be used as volumes: zones of raw flash and memories.
#[test]
fn raw_flash_and_memories_can_be_created_as_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let mut cases = vec![("open-channel:capacity=256m", "pblk")];
    if cfg!(feature = "paper") {
        let memories = "scm-m:capacity=16m+scm-s:capacity=64m";
        cases.extend([("olive", "hard"), ("olive:access=raw", "rrpc"), (memories, "tier")]);
    }
    for (at, (drive, layer)) in cases.into_iter().enumerate() {
        let volume = format!("v{at}.toml");
        let drive = ["create", &volume, "--drive", drive];
        refused(dir, &drive, 2, &["names no layer", "--layer"]);
        let made = json(dir, &[&drive[..], &["--layer", layer]].concat());
        assert_eq!(made["layer"], layer);
        assert!(made["notes"].to_string().contains("delays are not simulated"), "{made}");
        json(dir, &["check", &volume]);
    }
}

/// `slot=auto` is chosen once, from a sample of requests.
#[test]
fn a_slot_is_chosen_by_a_sample() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let drive = ["--drive", "hatl-2g:hint=true:capacity=64m"];
    let layer = ["--layer", "scrambler:slot=auto"];
    let create = |volume: &'static str, more: &[&'static str]| {
        [&["create", volume], &drive[..], more].concat()
    };
    refused(dir, &create("v.toml", &layer), 1, &["slot=auto", "sample"]);
    let sample = ["--sample", "synth:uniform:size=512,span=8m,count=100"];
    let nothing = [&["--layer", "scrambler"], &sample[..]].concat();
    refused(dir, &create("v.toml", &nothing), 2, &["--sample", "slot=auto"]);
    let unread = [&layer[..], &["--sample", "nix.csv"]].concat();
    refused(dir, &create("v.toml", &unread), 1, &["nix.csv"]);
    // A page of 64 KiB has no more than 64 slots.
    for (volume, size, slot) in [("v.toml", "size=512", "1k"), ("w.toml", "size=16k", "4k")] {
        let sample = format!("synth:uniform:{size},span=8m,count=100");
        let all = [&["create", volume], &drive[..], &layer, &["--sample", &sample]].concat();
        let made = json(dir, &all);
        let slot = format!("slot={slot}:");
        assert!(made["parameters"].as_str().expect("words").contains(&slot), "{made}");
        assert!(made["notes"].to_string().contains(&slot), "{made}");
        json(dir, &["check", volume]);
    }
}

/// A label of more than 64 bytes.
const LONG: &str =
    "a label of more than 64 bytes, which no superblock of a volume has any room for";

/// A volume that would be refused is refused before probing overwrites its device.
#[test]
fn refused_devices_are_not_measured() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("disk.img"), vec![7; 64 << 20]).unwrap();
    fs::write(dir.path().join("there.toml"), "something").unwrap();
    let auto = ["--layer", "hard", "--force", "--superpage", "auto", "--device", "disk.img"];
    let create = |volume: &'static str, more: &[&'static str]| {
        [&["create", volume], &auto[..], more].concat()
    };
    refused(dir.path(), &create("there.toml", &[]), 1, &["there.toml"]);
    refused(dir.path(), &create("v.toml", &["--label", LONG]), 2, &["label"]);
    refused(dir.path(), &create("v.toml", &["--size", "32M"]), 1, &["disk.img", "--size"]);
    let lock = OpenOptions::new().read(true).open(dir.path().join("disk.img")).unwrap();
    lock.lock().expect("no process has it");
    refused(dir.path(), &create("v.toml", &[]), 1, &["disk.img"]);
    let probe = ["probe", "disk.img", "--yes"];
    refused(dir.path(), &probe, 1, &["disk.img"]);
    let held = fs::read(dir.path().join("disk.img")).unwrap();
    assert!(held.iter().all(|byte| *byte == 7), "the content is unchanged");
}

/// Only the owner can read the files of a volume and its recordings.
#[test]
fn files_of_a_volume_are_their_owners() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let zoned = ["create", "z.toml", "--layer", "pblk", "--size", "64M"];
    let device = ["--device", "zoned:z.img?zone=1M"];
    json(dir.path(), &[&zoned[..], &device].concat());
    let hard = ["create", "v.toml", "--layer", "hard", "--size", "16M", "--device", "d.img"];
    json(dir.path(), &hard);
    let more = ["--record", "run.rec", "--record-trace", "run.csv"];
    let mut server = Server::start(dir.path(), "v.toml", "s.sock", &more);
    let private = |name: &str| {
        let mode = fs::metadata(dir.path().join(name)).expect(name).permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    };
    // A trace gets its name when it is complete.
    let served = ["z.toml", "z.img", "v.toml", "d.img", "run.rec", "run.csv.partial", "s.sock"];
    served.into_iter().for_each(private);
    assert_eq!(server.end("-TERM").0, Some(0));
    private("run.csv");
}

/// A command that also waits prints only the result of the wait.
#[test]
fn each_command_prints_one_document() {
    let dir = TempDir::new().expect("there is room");
    let dir = dir.path();
    let mut args = vec!["create", "v.toml", "--size", "48M", "--layer", "log:parity=yes"];
    ["d0", "d1", "d2", "d3"].iter().for_each(|it| args.extend(["--device", it]));
    json(dir, &args);
    assert_eq!(json(dir, &["scrub", "v.toml"])["over"], "scrub");
    assert_eq!(json(dir, &["device", "remove", "v.toml", "d3"])["over"], "evacuate");
    let _server = Server::start(dir, "v.toml", "s", &[]);
    let spare = json(dir, &["device", "spare", "v.toml", "sp"]);
    assert_eq!(spare["usable_bytes"], spare["usable_bytes_before"]);
    assert_eq!(json(dir, &["scrub", "v.toml", "--wait"])["over"], "scrub");
    let removed = json(dir, &["device", "remove", "v.toml", "d2", "--wait"]);
    assert_eq!(removed["event"]["kind"], "device-removed", "{removed}");
    // The changes have replaced the volume file. It must still count as that of the served volume.
    refused(dir, &["delete", "v.toml"], 1, &["v.toml is in use by process", "stop it first"]);
}
