//! Both engines over a file and over memory, and their behaviour when a device refuses.

use crate::common::{Ask, ENGINES, run, sparse};
use hostftl_core::HostError;
use hostftl_io::Device;
use hostftl_layers::LayerKind::Passthrough;

const MIB: u64 = 1 << 20;

fn everything(mut device: impl FnMut() -> Device) {
    for engine in ENGINES {
        let small = vec![3; 512];
        let large: Vec<u8> = (0..MIB).map(|i| (i % 251) as u8).collect();
        let (answers, _) = run(
            Passthrough,
            vec![device()],
            engine,
            vec![
                Ask::Write { at: MIB, data: large.clone(), fua: false },
                Ask::Write { at: MIB + 512, data: small.clone(), fua: true },
                Ask::Read { at: MIB, len: MIB as u32 },
                Ask::Trim { at: MIB + 4096, len: 8192 },
                Ask::Zeroes { at: MIB + 65536, len: 65536 },
                Ask::Flush,
                Ask::Read { at: MIB, len: MIB as u32 },
                Ask::Read { at: 512, len: 1024 },
            ],
        );
        let mut model = large;
        model[512..1024].copy_from_slice(&small);
        assert_eq!(answers[&2], Ok(model.clone()), "{engine:?}");
        model[4096..12288].fill(0);
        model[65536..131072].fill(0);
        assert_eq!(answers[&6], Ok(model), "{engine:?}");
        assert_eq!(answers[&7], Ok(vec![0; 1024]), "{engine:?}");
        assert!(answers.values().all(Result::is_ok) && answers.len() == 8);
    }
}

#[test]
fn memory() {
    everything(|| Device::open("mem:16M").unwrap());
}

#[test]
fn a_file() {
    let (_folder, path) = sparse(16 * MIB);
    everything(|| {
        std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(16 * MIB).unwrap();
        Device::open(&path).unwrap()
    });
}

/// Server whose export is memory; it ends when this is dropped.
struct Export {
    folder: tempfile::TempDir,
    stopper: hostftl_serve::Stopper,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Export {
    fn start(bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("unix:{}", folder.path().join("s").display()).parse().unwrap();
        let port = hostftl_volume::ram_port("ram", bytes);
        let options = hostftl_serve::Options::new(address, port);
        let server = hostftl_serve::Server::bind(options).unwrap();
        let stopper = server.stopper();
        let serve = move || {
            server.run(&mut Vec::new()).unwrap();
        };
        Export { folder, stopper, thread: Some(std::thread::spawn(serve)) }
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///ram?socket={}&timeout=3", self.folder.path().join("s").display())
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn an_nbd_export() {
    let mut exports = Vec::new();
    everything(|| {
        exports.push(Export::start(16 * MIB));
        Device::open(&exports.last().unwrap().uri()).unwrap()
    });
}

#[test]
fn an_export_is_exclusive_and_fails_after_a_long_absence() {
    let export = Export::start(4 * MIB);
    let device = Device::open(&export.uri()).unwrap();
    let message = Device::open(&export.uri()).unwrap_err().to_string();
    let holder = format!("is in use by process {} (this one)", std::process::id());
    assert!(message.contains(&holder), "{message}");
    drop(export);
    let begun = std::time::Instant::now();
    let message = device.read_page(0).unwrap_err().to_string();
    assert!(message.contains("connection lost"), "{message}");
    let took = begun.elapsed().as_secs();
    assert!((2..10).contains(&took), "it took {took} s to give up after 3");
}

#[test]
fn invalid_exports_are_refused_with_a_reason() {
    let message = Device::open("nbd+unix:///?socket=/nowhere/s").unwrap_err().to_string();
    assert!(message.contains("/nowhere/s") && message.contains("No such file"), "{message}");
    let message = Device::open("nbds://box/").unwrap_err().to_string();
    assert!(message.contains("tls-certificates"), "{message}");
    let export = Export::start(4 * MIB);
    let other = export.uri().replace("///ram", "///other");
    let message = Device::open(&other).unwrap_err().to_string();
    assert!(message.contains("no such export"), "{message}");
    let secure = export.uri().replace("nbd+", "nbds+") + "&tls-certificates=/nowhere";
    let message = Device::open(&secure).unwrap_err().to_string();
    assert!(message.contains("this server does not support TLS"), "{message}");
}

#[test]
fn a_window_shifts_and_ends() {
    for engine in ENGINES {
        let (_folder, path) = sparse(4 * MIB);
        let mut device = Device::open(&path).unwrap();
        device.set_window(2048, 4096);
        let data = vec![8; 512];
        let asks = vec![
            Ask::Write { at: 2 * MIB - 512, data: data.clone(), fua: true },
            Ask::Write { at: 2 * MIB, data, fua: true },
        ];
        let (answers, _) = run(Passthrough, vec![device], engine, asks);
        assert_eq!(answers[&1], Err(HostError::Range));
        let bytes = std::fs::read(&path).unwrap();
        let mut expected = vec![0; 4 * MIB as usize];
        expected[3 * MIB as usize - 512..][..512].fill(8);
        assert!(bytes == expected);
    }
}

#[test]
fn a_truncated_file_is_an_error() {
    for engine in ENGINES {
        let (_folder, path) = sparse(4 * MIB);
        let device = Device::open(&path).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(MIB).unwrap();
        let asks = vec![Ask::Read { at: 2 * MIB, len: 4096 }];
        let (answers, _) = run(Passthrough, vec![device], engine, asks);
        assert_eq!(answers[&0], Err(HostError::Io));
    }
}

#[test]
fn a_second_open_names_the_owner() {
    let (_folder, path) = sparse(MIB);
    let _first = Device::open(&path).unwrap();
    let message = Device::open(&path).unwrap_err().to_string();
    let holder = format!("{path} is in use by process {}", std::process::id());
    assert!(message.starts_with(&holder), "{message}");
}

#[test]
fn files_that_are_no_devices_are_refused() {
    let (folder, _path) = sparse(MIB);
    let name = folder.path().to_str().unwrap();
    assert!(Device::open(name).unwrap_err().to_string().contains("neither a regular file"));
    assert!(Device::open("mem:lots").unwrap_err().to_string().contains("\"lots\" is not a size"));
    let missing = format!("{name}/missing");
    let message = Device::open(&missing).unwrap_err().to_string();
    assert!(message.contains(&missing) && message.contains("No such file"), "{message}");
}
