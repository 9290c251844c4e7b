//! A device that never answers: a frozen file system, which needs root. The layer abandons it at
//! its deadline, and continues if it can run degraded; closing the driver also ends. A device that
//! answers while the process is suspended is not abandoned.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Ask, Script, sparse, start};
use hostftl_core::{Credits, DeviceError, DeviceSet, Event, HostError, Layer, Payload, Reply};
use hostftl_io::{Device, EngineKind, Host, Pull};
use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_test_skip::skipped;

/// Separate ext4 file system.
struct Freezer(PathBuf);

fn succeeds(command: &str, words: &[&str]) -> bool {
    let mut command = Command::new(command);
    command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Freezer {
    /// Returns `None` with a message when the file system cannot be created.
    fn mount(image: &str, at: PathBuf) -> Option<Self> {
        std::fs::create_dir(&at).unwrap();
        let path = at.to_str().unwrap();
        let mounted = succeeds("mkfs.ext4", &["-q", image])
            && succeeds("mount", &["-o", "loop", image, path])
            && succeeds("fsfreeze", &["--freeze", path])
            && succeeds("fsfreeze", &["--unfreeze", path]);
        if !mounted {
            skipped("a device that hangs needs root, mkfs.ext4, mount and fsfreeze");
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
        // Lazily, because this process still holds the device that hung.
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
    let closed = closed.recv_timeout(Duration::from_secs(300)).expect("closing ends");
    let message = closed.unwrap_err().to_string();
    assert!(message.contains(&format!("some commands never completed: {name} (1);")), "{message}");
    // The device answers after all. The result is not used, but the memory of the write still
    // exists.
    assert!(succeeds("fsfreeze", &["--unfreeze", freezer.path()]));
    let written = || std::fs::read(&name).unwrap()[..4096] == [7; 4096];
    while !written() {
        assert!(begun.elapsed() < Duration::from_secs(300), "{engine:?}: nothing was written");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_array_survives_a_hung_device_with_io_uring() {
    an_array_goes_on(EngineKind::Uring);
}

#[test]
fn an_array_survives_a_hung_device_with_threads() {
    an_array_goes_on(EngineKind::Pread);
}

/// Issues more writes than there are threads. Those of the other devices must not wait for those
/// that hang.
fn an_array_goes_on(engine: EngineKind) {
    let (folder, image) = sparse(32 << 20);
    let Some(freezer) = Freezer::mount(&image, folder.path().join("frozen")) else { return };
    let name = |at: &str| folder.path().join(at).to_str().unwrap().to_string();
    let names = [name("d0"), name("d1"), name("frozen/d2")];
    for name in &names {
        std::fs::File::create(name).unwrap().set_len(16 << 20).unwrap();
    }
    let mut config = LayerConfig { deadline: 2_000_000_000, ..LayerConfig::new(LayerKind::Log) };
    config.log.parity = 1;
    let devices = names.iter().map(|name| Device::open(name).unwrap()).collect();
    let (mut driver, mut script) = start(&config, devices, engine);
    assert!(succeeds("fsfreeze", &["--freeze", freezer.path()]));
    let content = |at: u64| (at..at + 65_536).map(|it| ((it * it) >> 7) as u8).collect::<Vec<_>>();
    let all = || (0..64).map(|row| row * 65_536);
    script.asks.extend(all().map(|at| Ask::Write { at, data: content(at), fua: false }));
    script.asks.push_back(Ask::Flush);
    driver.serve(&mut script).unwrap();
    assert!(script.answers.values().all(Result::is_ok), "{:?}", script.events);
    let lost = Event::DeviceFailed { device: 2, error: DeviceError::Removed, abandoned: true };
    assert!(script.events.contains(&lost), "{:?}", script.events);
    assert_eq!(driver.layer().members().lost(), DeviceSet::single(2));
    script.asks.extend(all().map(|at| Ask::Read { at, len: 65_536 }));
    driver.serve(&mut script).unwrap();
    for (at, answer) in all().zip(65..) {
        assert!(script.answers[&answer] == Ok(content(at)), "the data at {at} is not read");
    }
    driver.stop(&mut script).unwrap();
    assert!(driver.close().unwrap_err().to_string().contains(&names[2]));
}

/// Host that sleeps when it gets its first reply, like a process that is suspended.
struct Still(Script);

impl Host for Still {
    fn pull(&mut self, credits: Credits) -> Pull {
        self.0.pull(credits)
    }

    fn has_work(&self) -> bool {
        self.0.has_work()
    }

    fn answer(&mut self, reply: Reply) {
        if self.0.answers.is_empty() {
            thread::sleep(Duration::from_secs(4));
        }
        self.0.answer(reply);
    }

    fn reclaim(&mut self, payload: Payload) {
        self.0.reclaim(payload);
    }

    fn event(&mut self, event: Event) {
        self.0.event(event);
    }
}

/// The commands in flight are past their deadline, but the device had answered long before.
#[test]
fn a_stopped_process_times_out_no_device() {
    let (_folder, name) = sparse(4 << 20);
    let new = LayerConfig::new(LayerKind::Passthrough);
    let config = LayerConfig { deadline: 1_000_000_000, ..new };
    let devices = vec![Device::open(&name).unwrap()];
    let (mut driver, mut script) = start(&config, devices, EngineKind::Pread);
    script.asks.extend((0..200).map(|block| Ask::Read { at: block * 4096, len: 4096 }));
    let mut host = Still(script);
    driver.serve(&mut host).unwrap();
    let good = |answer: &Result<Vec<u8>, HostError>| *answer == Ok(vec![0; 4096]);
    assert!(host.0.answers.values().all(good), "{:?}", host.0.events);
    driver.stop(&mut host).unwrap();
    driver.close().unwrap();
}
