//! Traces from a pipe, read once and repeatedly.

use std::path::{Path, PathBuf};
use std::thread;

use hostftl_trace::{Source, TraceFile};

use crate::help::{lines, open};

/// Makes a FIFO into which a thread writes `bytes` once.
fn fifo(name: &str, bytes: Vec<u8>) -> (PathBuf, thread::JoinHandle<()>) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("field-{name}"));
    let _ = std::fs::remove_file(&path);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let to = path.clone();
    // A reader may close the pipe early.
    let writer = thread::spawn(move || drop(std::fs::write(to, bytes)));
    (path, writer)
}

fn trace() -> Vec<u8> {
    let text = lines(30_000, |n| format!("{n},W,{},4096", n * 4096));
    zstd::encode_all(format!("t_us,op,byte_off,byte_len\n{text}").as_bytes(), 3).unwrap()
}

#[test]
fn a_pipe_is_read_as_a_file_is() {
    let (path, writer) = fifo("once", trace());
    assert_eq!(open(&path.display().to_string()).unwrap().records.len(), 30_000);
    writer.join().unwrap();
}

#[test]
fn a_pipe_is_read_again_and_by_several_at_once() {
    let (path, writer) = fifo("again", trace());
    let source: Source = format!("{}:loop=2", path.display()).parse().unwrap();
    let twin = source.clone();
    assert_eq!(source.scan(0, false).unwrap().records, 60_000);
    writer.join().unwrap();
    let other = thread::spawn(move || twin.scan(0, true).unwrap().records);
    assert_eq!(source.scan(0, true).unwrap().records, 60_000);
    assert_eq!(other.join().unwrap(), 60_000);
}

#[test]
fn an_unbuffered_pipe_is_read_once() {
    let (path, writer) = fifo("unkept", trace());
    let mut source: Source = path.display().to_string().parse().unwrap();
    source.read_once();
    assert_eq!(source.scan(0, false).unwrap().records, 30_000);
    writer.join().unwrap();
    let why = source.scan(0, false).unwrap_err().to_string();
    assert!(why.contains("cannot read the pipe again: its bytes were not kept"), "{why}");
}

#[test]
fn standard_input_has_a_short_name() {
    let named: TraceFile = "-:format=msr,dev=1".parse().unwrap();
    assert_eq!(named.path, Path::new("/dev/stdin"));
    assert_eq!(named.dev, Some(1));
}
