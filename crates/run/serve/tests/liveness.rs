//! Every layer with default settings on real files, over NBD: it answers however long the host
//! writes, and every block is read back and compared before and after a stop.
//!
//! A watchdog fails the test when a request is not answered or a stop does not end.

mod client;
mod habit;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use habit::Disk;
use hostftl_layers::LayerConfig;
use hostftl_serve::{Options, Server};
use hostftl_volume::{CreateSpec, Running, StartOptions, check, create, open};

const MIB: u64 = 1 << 20;

/// Size of the files, amount to write in multiples of the capacity hidden from the host, and time
/// limit.
#[derive(Clone, Copy)]
struct Scale {
    bytes: u64,
    times: u64,
    patience: Duration,
}

const QUICK: Scale = Scale { bytes: 64 * MIB, times: 2, patience: Duration::from_secs(1200) };
const LARGE: Scale = Scale { bytes: 2048 * MIB, times: 3, patience: Duration::from_secs(12_000) };

/// Devices of a stack, in the syntax of `create`.
#[derive(Clone, Copy)]
enum Devices {
    /// Number of files of the full size.
    Files(u32),
    /// A file of the full size, and a journal of 64 MiB.
    Journal,
    /// A fast file of an eighth of the size, and a slow one.
    FastAndSlow,
    /// A file that stands for a drive with collection hints.
    Drive,
    /// A zoned file with this number of parallel units.
    Zoned(u32),
}

impl Devices {
    /// Returns the names of the devices in `folder`.
    fn names(self, folder: &Path, bytes: u64) -> Vec<String> {
        let name = |name: &str| folder.join(name).display().to_string();
        let file = |path: &str, bytes: u64| {
            File::create(folder.join(path)).and_then(|it| it.set_len(bytes)).expect("a file");
            name(path)
        };
        match self {
            Devices::Files(count) => (0..count).map(|i| file(&format!("d{i}"), bytes)).collect(),
            Devices::Journal => vec![file("d0", bytes), file("journal", 64 * MIB)],
            Devices::FastAndSlow => vec![file("fast", bytes / 8), file("slow", bytes)],
            Devices::Drive => vec![format!("drive:mlc-32g:capacity={bytes}@{}", name("d0"))],
            Devices::Zoned(units) => {
                vec![format!("zoned:{}?zone=1m&units={units}&best=16k", name("d0"))]
            }
        }
    }
}

/// Volume that is served on a socket.
struct Service {
    running: Running,
    stopper: hostftl_serve::Stopper,
    thread: std::thread::JoinHandle<hostftl_serve::Served>,
    sock: PathBuf,
}

impl Service {
    fn start(folder: &Path) -> Self {
        let sock = folder.join("v.sock");
        let volume = open(&folder.join("v.toml")).expect("it opens");
        let (running, port) = volume.start(&StartOptions::default()).expect("it starts");
        let address = format!("unix:{}", sock.display()).parse().expect("an address");
        let server = Server::bind(Options::new(address, port)).expect("a server");
        let stopper = server.stopper();
        let thread = std::thread::spawn(move || server.run(&mut Vec::new()).expect("a clean end"));
        Service { running, stopper, thread, sock }
    }

    fn stop(self) {
        self.stopper.stop();
        self.thread.join().expect("no panic");
        self.running.stop().expect("a clean end");
    }
}

/// Runs one volume from creation to its end.
fn live(layer: &str, devices: Devices, scale: Scale) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().join("v.toml");
    let created = create(&CreateSpec {
        allocate: false,
        path: path.clone(),
        devices: devices.names(folder.path(), scale.bytes),
        size: matches!(devices, Devices::Zoned(_)).then_some(scale.bytes),
        layer: LayerConfig::parse(layer).expect("a layer"),
        label: String::new(),
        force: false,
    })
    .unwrap_or_else(|why| panic!("{layer}: {why}"));
    // Capacity hidden from the host: hidden area, over-provisioning and metadata.
    let hidden = created.device_bytes.saturating_sub(created.exported_bytes);
    let area = (scale.times * hidden).max(scale.bytes / 2);
    let service = Service::start(folder.path());
    let mut disk = Disk::connect(&service.sock, layer);
    disk.fill();
    for habit in habit::ALL {
        disk.write(habit, area.div_ceil(habit::ALL.len() as u64));
        disk.compare();
    }
    let wrote = disk.wrote();
    assert!(wrote >= disk.bytes() + 2 * hidden, "{layer}: {wrote} bytes were written");
    let versions = disk.end();
    service.stop();
    assert_eq!(check(&path).expect("a check").problems, Vec::<String>::new(), "{layer}");
    let service = Service::start(folder.path());
    let mut disk = Disk::connect(&service.sock, layer);
    disk.believe(versions);
    disk.compare();
    disk.end();
    service.stop();
    println!("{layer}: {} MiB hidden, {} MiB written", hidden / MIB, wrote / MIB);
}

/// Runs volumes one after the other, each under the watchdog.
fn lives(scale: Scale, list: &[(&'static str, Devices)]) {
    for &(layer, devices) in list {
        let (ended, end) = channel();
        let began = Instant::now();
        let life = std::thread::spawn(move || {
            live(layer, devices, scale);
            ended.send(()).expect("the test waits");
        });
        if end.recv_timeout(scale.patience).is_err() {
            // After a panic the thread has ended with its message; otherwise it is still running.
            assert!(life.is_finished(), "{layer} is not at its end after {:?}", scale.patience);
            panic!("{layer} failed");
        }
        life.join().expect("it has ended");
        println!("{layer}: {:?}", began.elapsed());
    }
}

const HIDDEN: [(&str, Devices); 3] = [
    ("shatl", Devices::Files(1)),
    ("shatl:mode=ressd", Devices::Files(1)),
    ("hatl-auto", Devices::Files(1)),
];
const SPARE: [(&str, Devices); 4] = [
    ("hard", Devices::Files(1)),
    ("mhatl", Devices::Files(1)),
    ("passthrough", Devices::Files(1)),
    ("scrambler", Devices::Drive),
];
const LOGS: [(&str, Devices); 3] = [
    ("log", Devices::Files(1)),
    ("log:parity=yes", Devices::Files(3)),
    ("log:journal=yes", Devices::Journal),
];
const TIER: [(&str, Devices); 1] = [("tier", Devices::FastAndSlow)];
const ZONES: [(&str, Devices); 2] = [("pblk", Devices::Zoned(2)), ("rrpc", Devices::Zoned(1))];

#[test]
fn layers_with_a_hidden_area_lose_no_data_and_progress() {
    lives(QUICK, &HIDDEN);
}

#[test]
fn layers_with_a_spare_lose_no_data_and_progress() {
    lives(QUICK, &SPARE);
}

#[test]
fn log_and_tier_lose_no_data_and_progress() {
    lives(QUICK, &LOGS);
    lives(QUICK, &TIER);
}

#[test]
fn layers_on_zones_lose_no_data_and_progress() {
    lives(QUICK, &ZONES);
}

/// Checks that the comparison finds a block that differs.
#[test]
fn a_differing_block_is_detected() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let spec = CreateSpec {
        allocate: false,
        path: folder.path().join("v.toml"),
        devices: Devices::Files(1).names(folder.path(), 8 * MIB),
        size: None,
        layer: LayerConfig::parse("passthrough").expect("a layer"),
        label: String::new(),
        force: false,
    };
    create(&spec).expect("a volume");
    let service = Service::start(folder.path());
    let mut disk = Disk::connect(&service.sock, "passthrough");
    disk.fill();
    disk.compare();
    let mut versions = disk.end();
    let last = versions.len() - 1;
    versions[last] += 1;
    let mut disk = Disk::connect(&service.sock, "passthrough");
    disk.believe(versions);
    let compared = std::thread::spawn(move || disk.compare()).join();
    let words = *compared.expect_err("it differs").downcast::<String>().expect("words");
    assert!(words.contains(&format!("sector {last} does not hold")), "{words}");
    service.stop();
}

/// Runs the layers with a hidden area on files of 2 GiB.
#[test]
#[ignore = "takes minutes and 2 GiB of disk: `make live`"]
fn layers_with_a_hidden_area_progress_at_real_size() {
    lives(LARGE, &HIDDEN);
}

#[test]
#[ignore = "takes minutes and 2 GiB of disk: `make live`"]
fn layers_with_a_spare_progress_at_real_size() {
    lives(LARGE, &SPARE);
}

#[test]
#[ignore = "takes minutes and 6 GiB of disk: `make live`"]
fn log_progresses_at_real_size() {
    lives(LARGE, &LOGS);
}

#[test]
#[ignore = "takes minutes and 3 GiB of disk: `make live`"]
fn tier_progresses_at_real_size() {
    lives(LARGE, &TIER);
}

#[test]
#[ignore = "takes minutes and 2 GiB of disk: `make live`"]
fn layers_on_zones_progress_at_real_size() {
    lives(LARGE, &ZONES);
}
