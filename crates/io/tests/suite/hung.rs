//! A device that never answers: a frozen file system, which needs root. The layer gives it up at
//! its deadline, and closing the driver ends too.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Ask, sparse, start};
use hostftl_core::HostError;
use hostftl_io::{Device, EngineKind};
use hostftl_layers::{LayerConfig, LayerKind};

/// An ext4 file system of its own.
struct Freezer(PathBuf);

fn succeeds(command: &str, words: &[&str]) -> bool {
    let mut command = Command::new(command);
    command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Freezer {
    /// `None`, and a line that says so, when it can't be had.
    fn mount(image: &str, at: PathBuf) -> Option<Self> {
        std::fs::create_dir(&at).unwrap();
        let path = at.to_str().unwrap();
        let mounted = succeeds("mkfs.ext4", &["-q", image])
            && succeeds("mount", &["-o", "loop", image, path])
            && succeeds("fsfreeze", &["--freeze", path])
            && succeeds("fsfreeze", &["--unfreeze", path]);
        if !mounted {
            eprintln!("SKIPPED: a device that hangs needs root, mkfs.ext4, mount and fsfreeze");
        }
        let freezer = Freezer(at);
        mounted.then_some(freezer)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        succeeds("fsfreeze", &["--unfreeze", self.path()]);
        // Lazily, because this process keeps the device that hung.
        succeeds("umount", &["--lazy", self.path()]);
    }
}

#[test]
fn closing_ends_with_io_uring() {
    closing_ends(EngineKind::Uring);
}

#[test]
fn closing_ends_with_threads() {
    closing_ends(EngineKind::Pread);
}

fn closing_ends(engine: EngineKind) {
    let (folder, image) = sparse(32 << 20);
    let Some(freezer) = Freezer::mount(&image, folder.path().join("frozen")) else { return };
    let name = freezer.0.join("d0").to_str().unwrap().to_string();
    std::fs::File::create(&name).unwrap().set_len(4 << 20).unwrap();
    let deadline = 300_000_000;
    let config = LayerConfig { deadline, ..LayerConfig::new(LayerKind::Passthrough) };
    let devices = vec![Device::open(&name).unwrap()];
    let (mut driver, mut script) = start(&config, devices, engine);
    assert!(succeeds("fsfreeze", &["--freeze", freezer.path()]));
    script.asks.push_back(Ask::Write { at: 0, data: vec![7; 4096], fua: false });
    let begun = Instant::now();
    driver.serve(&mut script).unwrap();
    driver.stop(&mut script).unwrap();
    assert_eq!(script.answers[&0], Err(HostError::Io), "{engine:?}");
    let (sender, closed) = channel();
    thread::spawn(move || sender.send(driver.close()));
    let closed = closed.recv_timeout(Duration::from_secs(15)).expect("closing ends");
    let message = closed.unwrap_err().to_string();
    assert!(message.contains(&format!("never ended some commands: {name} (1);")), "{message}");
    // The device answers after all: nobody listens, but what it writes from is still there.
    assert!(succeeds("fsfreeze", &["--unfreeze", freezer.path()]));
    let written = || std::fs::read(&name).unwrap()[..4096] == [7; 4096];
    while !written() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{engine:?}: nothing was written");
        thread::sleep(Duration::from_millis(20));
    }
}
