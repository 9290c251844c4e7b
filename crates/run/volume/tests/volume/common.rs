//! Volumes on sparse files in a temporary folder, and a client with one job at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use hostftl_core::HostError;
use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_volume::front::{Answer, Job, JobOp, Port};
use hostftl_volume::{
    AddSpec, CheckOptions, CreateSpec, Error, OpenOptions, ReplaceSpec, Replaced, Running, Space,
    StartOptions, Verdict, check_with, create, open_with, replace,
};

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Place { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    /// Gives the volume file the content `text`, with these devices as pending: as after a power
    /// cut before the last step of a change of the devices.
    pub(crate) fn cut_off(&self, text: &str, pending: &[&str]) {
        let names: Vec<String> = pending.iter().map(|name| self.name(name)).collect();
        fs::write(self.path("v.toml"), format!("pending = {names:?}\n{text}")).unwrap();
    }

    pub(crate) fn with_volume(layer: &str, files: usize, megabytes: u64) -> Self {
        let place = Place::new();
        create(&CreateSpec {
            allocate: false,
            path: place.path("v.toml"),
            devices: (0..files).map(|at| place.name(&format!("d{at}"))).collect(),
            size: Some(megabytes * MIB),
            layer: LayerConfig::parse(layer).unwrap(),
            label: String::new(),
            force: false,
        })
        .unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().into()
    }

    /// Returns the parameters of `v.toml` over the file `d0`, which does not exist yet. It is a
    /// drive model or a zoned device where the layer needs one.
    pub(crate) fn spec(&self, layer: LayerKind) -> CreateSpec {
        let model = if layer.needs_hint() { "drive:mlc-32g:capacity=64m@" } else { "" };
        CreateSpec {
            allocate: false,
            path: self.path("v.toml"),
            devices: vec![match layer {
                LayerKind::Pblk => format!("zoned:{}?zone=1m&units=2&best=16k", self.name("d0")),
                LayerKind::Rrpc => format!("zoned:{}?zone=1m&units=1&best=16k", self.name("d0")),
                _ => format!("{model}{}", self.name("d0")),
            }],
            size: (!layer.needs_hint()).then_some(64 * MIB),
            layer: LayerConfig::new(layer),
            label: String::new(),
            force: false,
        }
    }
}

/// Serves `v.toml`, without absent devices if `degraded`.
pub(crate) fn serve(place: &Place, degraded: bool) -> (Running, Port) {
    let how = OpenOptions { degraded, ..OpenOptions::default() };
    let opened = open_with(&place.path("v.toml"), &how).unwrap();
    opened.start(&StartOptions::default()).unwrap()
}

/// Serves the volume at `path` like [`serve`], to one client.
pub(crate) fn start(path: &Path, degraded: bool) -> (Running, Client) {
    let how = OpenOptions { degraded, ..OpenOptions::default() };
    let (running, port) = open_with(path, &how).unwrap().start(&StartOptions::default()).unwrap();
    (running, Client::new(port))
}

/// Returns the request to replace a device of `v.toml`.
pub(crate) fn replacement(place: &Place, old: &str, new: &str) -> ReplaceSpec {
    let (path, old, new) = (place.path("v.toml"), old.into(), place.name(new));
    ReplaceSpec { path, old, new, force: false, rehearse: false }
}

/// Returns the request to add devices to `v.toml`.
pub(crate) fn addition(place: &Place, new: &[&str]) -> AddSpec {
    let new = new.iter().map(|name| place.name(name)).collect();
    AddSpec { path: place.path("v.toml"), new, force: false, spare: false, rehearse: false }
}

/// Replaces a device of `v.toml`.
pub(crate) fn put(place: &Place, old: &str, new: &str) -> Result<Replaced, Error> {
    replace(&replacement(place, old, new), &mut |_, _| {})
}

/// Returns whether `v.toml` and all of its data are sound.
pub(crate) fn is_sound(place: &Place) -> bool {
    let mut progress = |_: u64, _: u64| {};
    let options = CheckOptions { data: Some(&mut progress), ..CheckOptions::default() };
    check_with(&place.path("v.toml"), options).unwrap().verdict == Verdict::Sound
}

/// Waits until redundancy is complete and another loss is tolerated.
pub(crate) fn heal(running: &Running) {
    let is = |space: Space| space.degraded_bytes == 0 && space.failures_tolerated == 1;
    until(running, |it| it.status().space.is_some_and(is));
}

/// Returns the content of a block.
pub(crate) fn content(block: u64) -> Vec<u8> {
    version(block, 0)
}

/// Returns the content of a block after `turn` rounds of writing.
pub(crate) fn version(block: u64, turn: u64) -> Vec<u8> {
    (0..4096).map(|at| (block * 37 + turn * 11 + at / 5) as u8).collect()
}

/// Returns incompressible data.
pub(crate) fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()
    };
    (0..bytes / 8).flat_map(next).collect()
}

/// Longest wait for background work.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until a condition on a served volume holds.
pub(crate) fn until(running: &Running, is: impl Fn(&Running) -> bool) {
    let begun = Instant::now();
    while !is(running) {
        assert!(begun.elapsed() < PATIENCE, "{:?}", running.status());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the layers over one device of any kind.
pub(crate) fn layers() -> impl Iterator<Item = LayerKind> {
    LayerKind::block_layers().chain([LayerKind::Pblk, LayerKind::Rrpc])
}

pub(crate) struct Client {
    pub port: Port,
    sender: Sender<Answer>,
    answers: Receiver<Answer>,
}

impl Client {
    pub(crate) fn new(port: Port) -> Self {
        let (sender, answers) = channel();
        Client { port, sender, answers }
    }

    pub(crate) fn ask(&self, op: JobOp, offset: u64, bytes: u64) -> Result<Vec<u8>, HostError> {
        let reply = std::sync::Arc::new(self.sender.clone());
        self.port.submit(Job { op, offset, bytes, cookie: offset, reply });
        let answer = self.answers.recv().unwrap();
        assert_eq!(answer.cookie, offset);
        answer.result.map(|()| answer.data.map(|data| data.to_vec()).unwrap_or_default())
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8], fua: bool) -> Result<(), HostError> {
        let mut data = self.port.buffer(bytes.len() as u32);
        data.copy_from_slice(bytes);
        self.ask(JobOp::Write { data, fua }, offset, bytes.len() as u64).map(drop)
    }

    pub(crate) fn read(&self, offset: u64, bytes: u64) -> Vec<u8> {
        self.ask(JobOp::Read(self.port.buffer(bytes as u32)), offset, bytes).unwrap()
    }

    pub(crate) fn flush(&self) {
        self.ask(JobOp::Flush, 0, 0).unwrap();
    }
}
