//! An NBD server with a very slow handshake: it always has one more byte, and never completes.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use hostftl_core::BLOCK;
use hostftl_io::Device;

use super::late_write::{greet, take};

/// Much shorter than any timeout of a single read.
const DRIP: Duration = Duration::from_millis(20);

/// Announces a long reply to an option before receiving it, and sends it byte by byte while the
/// client is connected.
fn trickle(mut stream: UnixStream) {
    let head =
        b"NBDMAGICIHAVEOPT\0\x03\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x03\0\0\x1f\x40";
    let mut sent = stream.write_all(head);
    while sent.is_ok() {
        thread::sleep(DRIP);
        sent = stream.write_all(&[0]);
    }
}

/// Serves the first `good` connections up to the first block, and then closes them; sends very
/// slowly on all others.
fn start(path: &Path, good: usize) {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            thread::spawn(move || {
                if number < good { drop(serve_one_read(stream)) } else { trickle(stream) }
            });
        }
    });
}

fn serve_one_read(mut stream: UnixStream) -> std::io::Result<()> {
    greet(&mut stream)?;
    let head: [u8; 28] = take(&mut stream)?;
    let answer = [b"\x67\x44\x66\x98\0\0\0\0", &head[8..16], &[0; BLOCK]].concat();
    stream.write_all(&answer)?;
    // The next command ends the connection.
    take::<28>(&mut stream).map(drop)
}

fn device(path: &Path) -> Result<Device, hostftl_io::IoError> {
    Device::open(&format!("nbd+unix:///?socket={}&timeout=1", path.display()))
}

#[test]
fn a_trickling_handshake_ends_at_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    start(&path, 0);
    let why = device(&path).unwrap_err().to_string();
    assert!(why.contains("did not finish within 1 s"), "{why}");
}

#[test]
fn commands_fail_in_time_while_the_server_trickles_a_new_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    start(&path, 1);
    let device = device(&path).unwrap();
    let why = device.sync().unwrap_err().to_string();
    assert!(why.contains("connection lost"), "{why}");
    // Closing the device does not wait for a server either.
    drop(device);
}
