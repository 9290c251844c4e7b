//! Volumes on block devices: loop devices over files, which need root.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hostftl_layers::LayerKind::{self, Hard};
use hostftl_test_skip::skipped;
use hostftl_volume::front::JobOp;
use hostftl_volume::{
    CreateSpec, RecordOptions, StartOptions, Status, check, create, open, replay,
};

use crate::common::{Client, MIB, Place};

/// A loop device over a file.
struct Loop(String);

impl Loop {
    /// Creates a file with a loop device; `None`, and a message, when that is not possible.
    fn over(path: &Path) -> Option<Self> {
        fs::File::create(path).unwrap().set_len(64 * MIB).unwrap();
        Loop::at(path)
    }

    /// Creates another loop device over an existing file.
    fn at(path: &Path) -> Option<Self> {
        let mut setup = Command::new("losetup");
        let output = setup.args(["--find", "--show"]).arg(path).stderr(Stdio::null()).output();
        let Some(output) = output.ok().filter(|output| output.status.success()) else {
            skipped("block devices need root and losetup");
            return None;
        };
        Some(Loop(String::from_utf8(output.stdout).unwrap().trim().into()))
    }

    /// Sets its rotational flag; `None`, and a message, when that is not possible.
    fn turns(&self, turns: bool) -> Option<()> {
        let name = Path::new(&self.0).file_name().unwrap();
        let queue = PathBuf::from("/sys/block").join(name).join("queue");
        let digit = if turns { "1" } else { "0" };
        let zeroes = fs::read_to_string(queue.join("write_zeroes_max_bytes")).unwrap_or_default();
        if fs::write(queue.join("rotational"), digit).is_err() || zeroes.trim() == "0" {
            skipped("discards need a loop device that has them, and says that it turns");
            return None;
        }
        Some(())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        Command::new("losetup").args(["-d", &self.0]).status().ok();
    }
}

#[test]
fn old_data_of_a_block_device_is_found_and_does_not_show() {
    let place = Place::new();
    let Some(device) = Loop::over(&place.path("back")) else { return };
    let raw = fs::File::options().write(true).open(&device.0).unwrap();
    raw.write_all_at(&[7; 4096], 33 * MIB + 4096).unwrap();
    raw.sync_all().unwrap();
    let spec = place.spec(LayerKind::Passthrough);
    let spec = CreateSpec { devices: vec![device.0.clone()], size: None, ..spec };
    let message = create(&spec).unwrap_err().to_string();
    assert!(message.contains("holds non-zero data"), "{message}");
    create(&CreateSpec { force: true, ..spec.clone() }).unwrap();
    let (running, port) = open(&spec.path).unwrap().start(&StartOptions::default()).unwrap();
    assert_eq!(Client::new(port).read(32 * MIB, MIB), vec![0; 1 << 20]);
    running.stop().unwrap();
}

#[test]
fn two_loop_devices_of_a_file_are_the_same_device() {
    let place = Place::new();
    let Some(device) = Loop::over(&place.path("back")) else { return };
    let Some(other) = Loop::at(&place.path("back")) else { return };
    let spec = place.spec(LayerKind::Log);
    let devices = vec![device.0.clone(), other.0.clone()];
    let twice = CreateSpec { devices, size: None, ..spec };
    let message = create(&twice).unwrap_err().to_string();
    assert!(message.contains("shares storage with"), "{message}");
    let one = CreateSpec { devices: vec![device.0.clone()], ..twice.clone() };
    create(&one).unwrap();
    let (running, _port) = open(&one.path).unwrap().start(&StartOptions::default()).unwrap();
    let devices = vec![other.0.clone()];
    let second = CreateSpec { path: place.path("w.toml"), devices, force: true, ..twice };
    let message = create(&second).unwrap_err().to_string();
    assert!(message.contains(&format!("is in use through {}", device.0)), "{message}");
    running.stop().unwrap();
}

#[test]
fn a_block_device_serves_as_a_volume() {
    for layer in LayerKind::block_layers() {
        let place = Place::new();
        let Some(device) = Loop::over(&place.path("back")) else { return };
        let file =
            CreateSpec { devices: vec![place.name("back")], size: None, ..place.spec(layer) };
        let message = create(&file).unwrap_err().to_string();
        assert!(message.contains(&format!("loop device {} uses it", device.0)), "{message}");
        let spec = CreateSpec { devices: vec![device.0.clone()], ..file };
        create(&spec).unwrap();
        let (running, port) = open(&spec.path).unwrap().start(&StartOptions::default()).unwrap();
        let client = Client::new(port);
        client.write(MIB, &vec![7; MIB as usize], true).unwrap();
        client.ask(JobOp::Trim { fua: true }, MIB, 8192 + 512).unwrap();
        let bytes = client.read(MIB, 16384);
        assert!(bytes[..8704].iter().all(|b| *b == 0) && bytes[8704..].iter().all(|b| *b == 7));
        let status = running.stop().unwrap();
        assert_eq!(status.devices[0].kind, "block device");
        assert!(check(&spec.path).unwrap().problems.is_empty());
    }
}

const MUCH: u64 = 40 * MIB;

/// Fills most of a volume on `device`, calls `look`, and trims it again, with a recording.
fn fill_and_trim(place: &Place, device: &str, look: impl FnOnce()) -> Status {
    let spec = CreateSpec { devices: vec![device.into()], size: None, ..place.spec(Hard) };
    create(&spec).unwrap();
    let record = Some(RecordOptions::unlimited(place.path("recording")));
    let options = StartOptions { record, ..StartOptions::default() };
    let (running, port) = open(&spec.path).unwrap().start(&options).unwrap();
    let client = Client::new(port);
    for at in (0..MUCH).step_by(MIB as usize) {
        client.write(at, &vec![7; MIB as usize], false).unwrap();
    }
    client.flush();
    look();
    client.ask(JobOp::Trim { fua: true }, 0, MUCH).unwrap();
    assert_eq!(client.read(MIB, 4096), [0; 4096]);
    let status = running.stop().unwrap();
    let replayed = replay(&place.path("recording")).unwrap();
    assert!(replayed.is_same(), "{replayed:?}");
    assert!(check(&spec.path).unwrap().problems.is_empty());
    status
}

#[test]
fn a_flash_drive_receives_trims() {
    let place = Place::new();
    let back = place.path("back");
    let Some(device) = Loop::over(&back) else { return };
    let Some(()) = device.turns(false) else { return };
    let allocated = || fs::metadata(&back).unwrap().blocks() * 512;
    let mut full = 0;
    let status = fill_and_trim(&place, &device.0, || full = allocated());
    assert!(full >= MUCH, "{full} bytes allocated");
    let left = allocated();
    assert!(left < full - MUCH * 3 / 4, "{left} of {full} bytes are still allocated");
    assert!(status.traffic.unwrap().device_reset_bytes >= MUCH * 3 / 4);
}

#[test]
fn a_rotating_disk_receives_no_trims() {
    let place = Place::new();
    let Some(device) = Loop::over(&place.path("back")) else { return };
    let Some(()) = device.turns(true) else { return };
    let status = fill_and_trim(&place, &device.0, || ());
    assert_eq!(status.traffic.unwrap().device_reset_bytes, 0);
}

#[test]
fn a_file_receives_no_trims() {
    let place = Place::new();
    fs::File::create(place.path("d0")).unwrap().set_len(64 * MIB).unwrap();
    let status = fill_and_trim(&place, &place.name("d0"), || ());
    assert_eq!(status.traffic.unwrap().device_reset_bytes, 0);
}
