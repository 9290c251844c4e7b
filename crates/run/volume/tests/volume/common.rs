//! Volumes on sparse files in a temporary folder, and a client with one job at a time.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use hostftl_core::HostError;
use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_volume::front::{Answer, Job, JobOp, Port};
use hostftl_volume::{CreateSpec, Running, create};

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
