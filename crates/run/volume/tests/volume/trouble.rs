//! Killed processes, full file systems, and many concurrent clients.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hostftl_core::HostError;
use hostftl_layers::LayerKind;
use hostftl_test_skip::skipped;
use hostftl_volume::front::{JobOp, Port};
use hostftl_volume::{CreateSpec, RecordOptions, StartOptions, check, create, open, replay};

use crate::common::{Client, MIB, Place, layers, noise};
use crate::zoned::zoned_log;

/// Variable with the volume for the child.
const VOLUME: &str = "HOSTFTL_TEST_VOLUME";
const BLOCKS: u64 = 500;

/// Returns the data of round `round` for block `block`.
fn block(round: u64, block: u64) -> Vec<u8> {
    let word = round << 32 | block;
    word.to_le_bytes().repeat(512)
}

fn read_round(bytes: &[u8], number: u64) -> u64 {
    let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(word == 0 || word & 0xffff_ffff == number, "another block's bytes: {word:x}");
    assert!(bytes.chunks(8).all(|chunk| chunk == word.to_le_bytes()), "a torn block {number}");
    word >> 32
}

/// The process that is killed; not a test itself. It prints its progress after each flush.
#[test]
fn child() {
    let Some(path) = std::env::var_os(VOLUME) else { return };
    let options = StartOptions {
        record: std::env::var_os("HOSTFTL_TEST_RECORD").map(RecordOptions::unlimited),
        ..StartOptions::default()
    };
    let (_running, port) = open(Path::new(&path)).unwrap().start(&options).unwrap();
    let client = Client::new(port);
    let begun = read_round(&client.read(0, 4096), 0);
    for round in begun + 1.. {
        for number in 0..BLOCKS {
            client.write(number * 4096, &block(round, number), false).unwrap();
        }
        client.flush();
        println!("round {round}");
    }
}

fn spawn(path: &Path, engine: &str, record: Option<&Path>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "trouble::child", "--nocapture"]).env(VOLUME, path);
    command.env("HOSTFTL_ENGINE", engine).stdout(Stdio::piped());
    if let Some(record) = record {
        command.env("HOSTFTL_TEST_RECORD", record);
    }
    command.spawn().unwrap()
}

/// Kills the child some time after another `rounds` flushes; returns the last round that it
/// printed.
fn kill_after(mut child: Child, rounds: usize) -> u64 {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let number = |line: String| line.strip_prefix("round ")?.parse::<u64>().ok();
    let last =
        lines.by_ref().filter_map(number).nth(rounds).expect("it goes on until it is killed");
    std::thread::sleep(std::time::Duration::from_millis(3 + 7 * last % 20));
    child.kill().unwrap();
    child.wait().unwrap();
    last
}

#[test]
fn flushed_data_survives_a_kill() {
    for layer in layers() {
        let place = Place::new();
        survives_kills(&place, &place.spec(layer), !layer.takes_zones());
    }
}

/// A kill loses the unflushed data of a zoned file, a different amount of each file.
#[test]
fn a_log_on_zoned_files_survives_a_kill() {
    for layer in ["log", "log:parity=yes"] {
        let place = Place::new();
        survives_kills(&place, &zoned_log(&place, layer), false);
    }
}

/// Creates a volume and kills its writers, three times.
fn survives_kills(place: &Place, spec: &CreateSpec, recorded: bool) {
    let layer = spec.layer.to_text();
    create(spec).unwrap_or_else(|why| panic!("{layer}: {why}"));
    for (number, engine) in ["uring", "pread", "uring"].into_iter().enumerate() {
        let record = place.path(&format!("r{number}"));
        let child = spawn(&spec.path, engine, recorded.then_some(record.as_path()));
        let flushed = kill_after(child, 2 + number);
        if recorded {
            let message = replay(&record).unwrap_err().to_string();
            assert!(message.contains("it is truncated after"), "{message}");
        }
        assert_eq!(check(&spec.path).unwrap().problems, Vec::<String>::new());
        let (running, port) = open(&spec.path).unwrap().start(&StartOptions::default()).unwrap();
        let client = Client::new(port);
        for number in 0..BLOCKS {
            let round = read_round(&client.read(number * 4096, 4096), number);
            assert!(round >= flushed, "{layer}: block {number} is of round {round} < {flushed}");
        }
        // Make all blocks of one round, from which the next child continues.
        let top = read_round(&client.read(0, 4096), 0);
        for number in 0..BLOCKS {
            client.write(number * 4096, &block(top, number), false).unwrap();
        }
        running.stop().unwrap();
    }
}

/// A small mounted file system, which needs root; `None` when that is not possible.
pub(crate) struct Small(PathBuf);

impl Small {
    /// Returns the mount point.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Mounts a file system of this size, if the machine permits it.
    pub(crate) fn mount(at: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir(&at).unwrap();
        let size = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&at).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(Small(at))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().ok();
    }
}

#[test]
fn a_full_file_system_is_an_error_and_no_crash() {
    for layer in LayerKind::block_layers() {
        let place = Place::new();
        let Some(small) = Small::mount(place.path("small"), "24M") else {
            return skipped("a full file system needs root to mount a small one");
        };
        let device = small.0.join("d0").to_str().unwrap().to_string();
        let spec = CreateSpec { devices: vec![device], ..place.spec(layer) };
        create(&spec).unwrap();
        let (running, port) = open(&spec.path).unwrap().start(&StartOptions::default()).unwrap();
        let client = Client::new(port);
        client.write(0, &block(1, 0), true).unwrap();
        let mut results = (1..40).map(|at| {
            client.write(at * MIB, &noise(at, MIB as usize), false)?;
            client.ask(JobOp::Flush, 0, 0).map(drop)
        });
        let error = results.find_map(Result::err).expect("40 MiB do not fit into 24");
        assert_eq!(error, HostError::NoSpace, "{layer}");
        drop(results);
        assert_eq!(client.read(0, 4096), block(1, 0), "{layer} still reads");
        // A layer that could not store acknowledged data must not stop cleanly, and must not crash.
        // Passthrough continues after a failed write, because it has no order to preserve.
        let stopped = running.stop().map(drop).map_err(|why| why.to_string());
        let failed = stopped.is_err_and(|why| why.contains("writes fail"));
        assert_eq!(failed, layer != LayerKind::Passthrough, "{layer}");
    }
}

/// Writes content that only `create --force` overwrites: the signature of ext4, and data in the
/// middle.
fn put_content(device: &Path) {
    let file = std::fs::File::create(device).unwrap();
    file.set_len(64 * MIB).unwrap();
    file.write_all_at(&[0x53, 0xef], 0x438).unwrap();
    file.write_all_at(&[9; 4096], 32 * MIB).unwrap();
}

#[test]
fn a_failed_forced_create_names_the_lost_data() {
    let place = Place::new();
    let Some(small) = Small::mount(place.path("small"), "24K") else {
        return skipped("a full file system needs root to mount a small one");
    };
    let path = small.0.join("d0");
    put_content(&path);
    let device = path.to_str().unwrap().to_string();
    let devices = vec![device.clone()];
    let spec = CreateSpec { devices, size: None, force: true, ..place.spec(LayerKind::Hard) };
    let message = create(&spec).unwrap_err().to_string();
    let expected = format!(
        "; formatting had started, so {device} lost its previous content (an ext2, ext3 or ext4 \
         file system) and was cleared"
    );
    assert!(
        message.contains("no space on the device") && message.ends_with(&expected),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1);
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 0));
    assert!(!spec.path.exists());
}

/// Variable with the device that a child overwrites with `--force`.
const FORCE: &str = "HOSTFTL_TEST_FORCE";

/// A `create` without an engine; not a test itself.
#[test]
fn child_without_engine() {
    let Some(device) = std::env::var_os(FORCE) else { return };
    let place = Place::new();
    let devices = vec![device.into_string().unwrap()];
    let spec = CreateSpec { devices, size: None, force: true, ..place.spec(LayerKind::Hard) };
    println!("{}", create(&spec).unwrap_err());
}

#[test]
fn checks_precede_all_writes() {
    let place = Place::new();
    put_content(&place.path("d0"));
    let before = std::fs::read(place.path("d0")).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "trouble::child_without_engine", "--nocapture"]);
    command.env(FORCE, place.name("d0")).env("HOSTFTL_ENGINE", "steam");
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(output.contains("HOSTFTL_ENGINE=steam is unknown; use uring or pread"), "{output}");
    assert!(std::fs::read(place.path("d0")).unwrap() == before);
}

#[test]
fn many_clients_read_back_their_writes() {
    for layer in layers() {
        let place = Place::new();
        create(&place.spec(layer)).unwrap();
        let path = place.path("v.toml");
        let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
        let client = |number: u64, port: Port| move || churn(&Client::new(port), number);
        let threads: Vec<_> =
            (0..6).map(|number| std::thread::spawn(client(number, port.clone()))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let traffic = running.stop().unwrap().traffic.unwrap();
        assert_eq!(
            (traffic.requests_received, traffic.requests_failed),
            (traffic.requests_answered, 0)
        );
        assert!(check(&path).unwrap().problems.is_empty());
    }
}

/// Writes, reads and trims blocks of one client at random, and verifies each read.
fn churn(client: &Client, number: u64) {
    let mut model = [0_u64; 64];
    let mut state = number + 1;
    for round in 1..2000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (at, choice) = ((state >> 33) % 64, (state >> 60) % 8);
        let name = number * 64 + at;
        match choice {
            0 => assert_eq!(read_round(&client.read(name * 4096, 4096), name), model[at as usize]),
            1 => {
                client.ask(JobOp::Trim { fua: false }, name * 4096, 4096).unwrap();
                model[at as usize] = 0;
            }
            _ => {
                client.write(name * 4096, &block(round, name), choice == 7).unwrap();
                model[at as usize] = round;
            }
        }
    }
}
