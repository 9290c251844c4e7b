//! An NBD server that executes a write after its connection was lost: newer writes must survive.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hostftl_core::{BLOCK, Page, SECTOR};
use hostftl_io::Device;

const BYTES: usize = 1 << 20;
/// Sector that is written.
const AT: u64 = 64;

/// Memory of the export, and the behaviour of the server.
#[derive(Debug, Default)]
struct State {
    image: Vec<u8>,
    /// Whether the next write is held, and its connection ends.
    armed: bool,
    /// Whether the held write is executed as soon as another one arrives.
    hurry: bool,
    held: Option<(usize, Vec<u8>)>,
    writes: u32,
    /// Number of flushes after the last write.
    flushes: u32,
}

impl State {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.image[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn release(&mut self) {
        let (at, bytes) = self.held.take().expect("a write is held");
        self.put(at, &bytes);
    }

    /// Executes one command; `None` ends the connection.
    fn obey(&mut self, command: u16, at: usize, len: usize, data: Vec<u8>) -> Option<Vec<u8>> {
        match command {
            0 => return Some(self.image[at..at + len].to_vec()),
            1 if std::mem::take(&mut self.armed) => {
                self.held = Some((at, data));
                return None;
            }
            1 => {
                self.put(at, &data);
                (self.writes, self.flushes) = (self.writes + 1, 0);
                let other = self.held.as_ref().is_some_and(|(_, held)| *held != data);
                if self.hurry && other {
                    self.release();
                }
            }
            3 => self.flushes += 1,
            _ => return None,
        }
        Some(Vec::new())
    }
}

pub(crate) fn take<const N: usize>(stream: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn word(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

pub(crate) fn greet(stream: &mut UnixStream) -> io::Result<()> {
    stream.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
    take::<4>(stream)?;
    loop {
        let head: [u8; 16] = take(stream)?;
        stream.read_exact(&mut vec![0; word(&head[12..])])?;
        let go = head[8..12] == [0, 0, 0, 7];
        let mut reply = |kind: u32, data: &[u8]| {
            let mut bytes = 0x3_e889_0455_65a9_u64.to_be_bytes().to_vec();
            bytes.extend_from_slice(&head[8..12]);
            bytes.extend_from_slice(&kind.to_be_bytes());
            bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
            stream.write_all(&[&bytes, data].concat())
        };
        if !go {
            reply(0x8000_0001, &[])?;
            continue;
        }
        let size = (BYTES as u64).to_be_bytes();
        // The flags announce flushes.
        reply(3, &[&[0, 0], &size[..], &[0, 5]].concat())?;
        return reply(1, &[]);
    }
}

fn serve(mut stream: UnixStream, state: &Mutex<State>) -> io::Result<()> {
    greet(&mut stream)?;
    loop {
        let head: [u8; 28] = take(&mut stream)?;
        let (command, len) = (word(&head[6..8]) as u16, word(&head[24..]));
        let mut data = vec![0; if command == 1 { len } else { 0 }];
        stream.read_exact(&mut data)?;
        let answer = state.lock().unwrap().obey(command, word(&head[16..24]), len, data);
        let Some(answer) = answer else { return Ok(()) };
        stream.write_all(&[b"\x67\x44\x66\x98\0\0\0\0", &head[8..16], &answer].concat())?;
    }
}

/// Returns a server with its state, and a device behind it whose late writes expire after a second.
fn start() -> (tempfile::TempDir, Arc<Mutex<State>>, Device) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let state = Arc::new(Mutex::new(State { image: vec![0; BYTES], ..State::default() }));
    let (listener, shared) = (UnixListener::bind(&path).unwrap(), state.clone());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let shared = shared.clone();
            // The end of a connection is not a failure of the test.
            thread::spawn(move || serve(stream, &shared).ok());
        }
    });
    let device = Device::open(&format!("nbd+unix:///?socket={}&timeout=1", path.display()));
    (folder, state, device.unwrap())
}

fn page(value: u8) -> Page {
    Page([value; BLOCK])
}

fn there(state: &Mutex<State>) -> u8 {
    state.lock().unwrap().image[AT as usize * SECTOR]
}

#[test]
fn a_late_write_before_a_flush_is_corrected_by_it() {
    let (_folder, state, device) = start();
    state.lock().unwrap().armed = true;
    state.lock().unwrap().hurry = true;
    device.write_page(AT, &page(1)).unwrap();
    device.write_page(AT, &page(2)).unwrap();
    assert_eq!(there(&state), 1, "the old one has landed");
    assert_eq!(device.read_page(AT).unwrap().0[0], 2, "reads know better");
    device.sync().unwrap();
    assert_eq!(there(&state), 2);
    assert!(state.lock().unwrap().flushes > 0, "repaired data is durable");
}

#[test]
fn a_late_write_after_a_flush_is_corrected_after_its_deadline() {
    let (_folder, state, device) = start();
    state.lock().unwrap().armed = true;
    device.write_page(AT, &page(1)).unwrap();
    device.write_page(AT, &page(2)).unwrap();
    device.sync().unwrap();
    state.lock().unwrap().release();
    assert_eq!(there(&state), 1, "the old one has landed");
    assert_eq!(device.read_page(AT).unwrap().0[0], 2, "reads know better");
    let begun = Instant::now();
    while there(&state) != 2 || state.lock().unwrap().flushes == 0 {
        assert!(begun.elapsed() < Duration::from_secs(300), "it is not repaired");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(device.read_page(AT).unwrap().0[0], 2);
}
