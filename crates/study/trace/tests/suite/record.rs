//! Recording of a real loop device through the kernel's events. It needs root, tracefs and losetup.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use hostftl_test_skip::skipped;
use hostftl_trace::{Op, Record, Recorder};

/// A loop device, removed when it is dropped.
struct Loop(PathBuf);

impl Loop {
    fn new() -> Result<Self, String> {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorded.img");
        let create = std::fs::File::create(&file).and_then(|file| file.set_len(16 << 20));
        create.map_err(|error| error.to_string())?;
        let losetup = Command::new("losetup").args(["--find", "--show"]).arg(&file).output();
        let output = losetup.map_err(|error| format!("losetup: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            Ok(Loop(text(&output.stdout).into()))
        } else {
            Err(text(&output.stderr))
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// Memory aligned to 4096 bytes, as direct writes require.
#[repr(align(4096))]
struct Block([u8; 8192]);

#[test]
fn a_loop_device_is_recorded() {
    let device = match Loop::new() {
        Ok(device) => device,
        Err(why) => return skipped(format_args!("no loop device: {why}")),
    };
    let mut recorder = match Recorder::start(&device.0) {
        Ok(recorder) => recorder,
        Err(why) => return skipped(why),
    };
    let direct = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(&device.0);
    let file = direct.expect("the loop device can be written");
    let block = Block([7; 8192]);
    for place in [3u64, 900, 17] {
        file.write_all_at(&block.0, place * 8192).expect("the loop device takes it");
    }
    file.sync_all().expect("the loop device flushes");

    let mut writes: Vec<Record> = Vec::new();
    let begin = Instant::now();
    while writes.len() < 3 && begin.elapsed() < Duration::from_secs(300) {
        let take = |record: &Record| {
            assert_eq!(record.dev, 0);
            writes.extend(Some(*record).filter(|record| record.op == Op::Write));
            Ok(())
        };
        recorder.poll(take).expect("the events can be read");
        thread::sleep(Duration::from_millis(10));
    }
    recorder.stop().expect("the kernel ends it");
    let places: Vec<(u64, u64)> = writes.iter().map(|it| (it.lba, it.sectors)).collect();
    assert_eq!(places, [(48, 16), (14_400, 16), (272, 16)]);
    assert!(writes.is_sorted_by_key(|record| record.t_ns));
    assert_eq!((recorder.lost(), recorder.bad()), (0, 0));
    drop(recorder);
    let left = format!("/sys/kernel/tracing/instances/hostftl-{}", std::process::id());
    assert!(!Path::new(&left).exists(), "the instance is removed");
}
