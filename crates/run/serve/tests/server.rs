//! Server over a real socket, with the client side of the codec and a volume in memory.

mod client;
mod structured;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use client::{Client, send};
use hostftl_nbd_proto::{Command, Errno, Request, flags};
use hostftl_serve::{Options, Served, Server, Stopper};
use hostftl_volume::ram_port;

const MIB: usize = 1 << 20;
const SIZE: u64 = 64 << 20;

/// Server that runs in a thread.
struct Running {
    _folder: tempfile::TempDir,
    path: PathBuf,
    stopper: Stopper,
    thread: JoinHandle<Served>,
}

impl Running {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("vol.sock");
        let address = format!("unix:{}", path.display()).parse().expect("an address");
        let port = ram_port("vol", SIZE);
        let server = Server::bind(Options::new(address, port)).expect("a server");
        let stopper = server.stopper();
        let thread = thread::spawn(move || server.run(&mut Vec::new()).expect("a clean end"));
        Running { _folder: folder, path, stopper, thread }
    }

    fn client(&self) -> Caller {
        Caller(Client::connect(&self.path, "vol").expect("a server"))
    }

    fn stop(self) -> Served {
        self.stopper.stop();
        let served = self.thread.join().expect("no panic");
        assert!(!self.path.exists(), "the socket is removed at the end");
        served
    }
}

/// Client for tests; errors are panics.
struct Caller(Client);

impl Caller {
    /// Returns a second handle of the socket, for another thread.
    fn sender(&self) -> UnixStream {
        self.0.stream.try_clone().expect("a second handle")
    }

    fn reply(&mut self, payload: usize) -> (u64, Result<Vec<u8>, Errno>) {
        self.0.reply(|_| payload).expect("a reply")
    }

    /// Sends one request and receives its reply with `back` bytes of payload.
    fn call(&mut self, request: Request, data: &[u8], back: usize) -> Result<Vec<u8>, Errno> {
        send(&self.0.stream, request, data).expect("sent");
        let (cookie, result) = self.reply(back);
        assert_eq!(cookie, request.cookie);
        result
    }

    fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
        self.call(request(Command::Read, 71, offset, len, 0), &[], len)
    }

    fn write(&mut self, offset: u64, data: &[u8], flags: u16) -> Result<(), Errno> {
        self.call(request(Command::Write, 72, offset, data.len(), flags), data, 0).map(drop)
    }

    /// Sends a request whose reply has no payload.
    fn ask(&mut self, what: Command, offset: u64, len: usize, flags: u16) -> Result<(), Errno> {
        self.call(request(what, 73, offset, len, flags), &[], 0).map(drop)
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.0.stream.write_all(bytes).expect("sent");
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.0.stream.read(&mut [0; 1]), Ok(0))
    }
}

fn request(command: Command, cookie: u64, offset: u64, len: usize, flags: u16) -> Request {
    Request { flags, command, cookie, offset, length: len as u32 }
}

/// Sends a write of `len` bytes of the pattern `seed`, which is also its cookie.
fn send_write(stream: &UnixStream, seed: u64, offset: u64, len: usize) {
    let write = request(Command::Write, seed, offset, len, 0);
    send(stream, write, &pattern(seed, len)).expect("sent");
}

/// Returns bytes that depend on their position and on `seed`.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let word = |at: u64| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ seed.rotate_left(17));
    (0..len as u64).map(|at| (word(at / 8) >> (at % 8 * 8)) as u8).collect()
}

#[test]
fn the_export_is_described() {
    let running = Running::start();
    let client = running.client();
    let all = flags::HAS_FLAGS
        | flags::SEND_FLUSH
        | flags::SEND_FUA
        | flags::SEND_TRIM
        | flags::SEND_WRITE_ZEROES
        | flags::SEND_CACHE
        | flags::SEND_FAST_ZERO
        | flags::CAN_MULTI_CONN;
    assert_eq!((client.0.export.bytes, client.0.export.flags), (SIZE, all));
    assert_eq!(client.0.export.name.as_deref(), Some("vol"));
    let block = client.0.export.block.expect("block sizes");
    assert_eq!((block.min, block.preferred, block.max), (512, 4096, 1 << 20));
    drop(client);
    assert_eq!(running.stop(), Served { connections: 1, requests: 0 });
}

#[test]
fn the_ready_line_names_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let address = format!("unix:{}", path.display()).parse().unwrap();
    let port = ram_port("vol", SIZE);
    let server = Server::bind(Options::new(address, port)).unwrap();
    server.stopper().stop();
    let mut line = Vec::new();
    server.run(&mut line).unwrap();
    let expected = format!("ready nbd+unix:///?socket={}\n", path.display());
    assert_eq!(String::from_utf8(line).unwrap(), expected);
}

#[test]
fn written_data_reads_back() {
    let running = Running::start();
    let mut client = running.client();
    for (seed, (offset, len)) in
        [(512, 512), (4096, 65536), (MIB + 512, MIB), (3 * MIB - 512, 5 * MIB + 1024)]
            .into_iter()
            .enumerate()
    {
        let data = pattern(seed as u64, len);
        client.write(offset as u64, &data, flags::CMD_FUA).expect("written");
        assert!(client.read(offset as u64, len).expect("read") == data, "{offset}+{len}");
    }
    client.ask(Command::Flush, 0, 0, 0).expect("flushed");
    client.ask(Command::Trim, 0, 4 * MIB, 0).expect("trimmed");
    let zeroes = flags::CMD_NO_HOLE | flags::CMD_FUA;
    client.ask(Command::WriteZeroes, 4 * MIB as u64, 512, zeroes).expect("zeroed");
    assert!(client.read(0, 4 * MIB + 512).expect("read").iter().all(|byte| *byte == 0));
    assert!(client.read(5 * MIB as u64, 512).expect("read").iter().any(|byte| *byte != 0));
    assert_eq!(running.stop().requests, 13);
}

#[test]
fn invalid_requests_are_refused_and_the_connection_continues() {
    use Command::*;
    let running = Running::start();
    let mut client = running.client();
    let cases = [
        (Read, 0, 0, 0, Errno::Invalid),
        (Read, 1, 512, 0, Errno::Invalid),
        (Read, 0, 513, 0, Errno::Invalid),
        (Read, SIZE, 512, 0, Errno::Invalid),
        (Read, u64::MAX - 511, 512, 0, Errno::Invalid),
        (Read, 0, (32 << 20) + 512, 0, Errno::Invalid),
        (Trim, SIZE - 512, 1024, 0, Errno::Invalid),
        (WriteZeroes, SIZE - 512, 1024, 0, Errno::NoSpace),
        (Flush, 512, 0, 0, Errno::Invalid),
        (Read, 0, 512, flags::CMD_NO_HOLE, Errno::Invalid),
        (WriteZeroes, 0, 512, 1 << 5, Errno::Invalid),
        (WriteZeroes, 0, 512, flags::CMD_FAST_ZERO, Errno::Unsupported),
        (Cache, SIZE, 512, 0, Errno::Invalid),
        (BlockStatus, 0, 512, 0, Errno::Invalid),
        (Read, 0, 512, flags::CMD_DF, Errno::Invalid),
        (Other(999), 0, 0, 0, Errno::Invalid),
    ];
    for (command, offset, length, flags, errno) in cases {
        let found = client.ask(command, offset, length, flags);
        assert_eq!(found, Err(errno), "{command:?} {offset}+{length}");
    }
    assert_eq!(client.write(SIZE - 512, &[7; 1024], 0), Err(Errno::NoSpace));
    assert_eq!(client.write(100, &[7; 70_000], 0), Err(Errno::Invalid));
    let last = client.read(SIZE - 512, 512).expect("the connection goes on");
    assert!(last.iter().all(|byte| *byte == 0), "nothing was written");
    running.stop();
}

#[test]
fn many_requests_in_flight_are_all_answered() {
    const MANY: u64 = 1000;
    let running = Running::start();
    let mut client = running.client();
    let sender = client.sender();
    let writes = thread::spawn(move || {
        for at in 0..MANY {
            send_write(&sender, at, at * 4096, 4096);
        }
        for at in 0..MANY {
            let read = request(Command::Read, MANY + at, at * 4096, 4096, 0);
            send(&sender, read, &[]).expect("sent");
        }
    });
    let mut seen = vec![0; 2 * MANY as usize];
    for _ in 0..MANY {
        let (cookie, result) = client.reply(0);
        assert_eq!(result, Ok(vec![]));
        seen[cookie as usize] += 1;
    }
    for _ in 0..MANY {
        let (cookie, result) = client.reply(4096);
        // Writes and reads of one range may be reordered only until the write is answered.
        let data = result.expect("read");
        let zero = data.iter().all(|byte| *byte == 0);
        assert!(zero || data == pattern(cookie - MANY, 4096), "request {cookie}");
        seen[cookie as usize] += 1;
    }
    writes.join().expect("sent");
    assert!(seen.iter().all(|count| *count == 1), "every request is answered once");
    running.stop();
}

#[test]
fn a_disconnect_answers_requests_in_flight() {
    let running = Running::start();
    let mut client = running.client();
    let sender = client.sender();
    for at in 0..20 {
        send_write(&sender, at, at * MIB as u64, MIB);
    }
    send(&sender, request(Command::Disconnect, 99, 0, 0, 0), &[]).expect("sent");
    let mut cookies: Vec<u64> = (0..20).map(|_| client.reply(0).0).collect();
    cookies.sort_unstable();
    assert_eq!(cookies, (0..20).collect::<Vec<_>>());
    assert!(client.is_closed());
    let mut client = running.client();
    assert!(client.read(19 * MIB as u64, MIB).unwrap() == pattern(19, MIB));
    running.stop();
}

#[test]
fn stalled_and_dead_clients_do_not_starve_others() {
    let running = Running::start();
    // Together they request more memory than the volume has.
    let lazy: Vec<Caller> = (0..12).map(|_| running.client()).collect();
    for client in &lazy {
        let sender = client.sender();
        for at in 0..40 {
            send(&sender, request(Command::Read, at, 0, MIB, 0), &[]).expect("sent");
        }
    }
    let mut client = running.client();
    for at in 0..40 {
        client.write(at * MIB as u64, &pattern(at, MIB), 0).expect("there are buffers left");
    }
    drop(lazy);
    // 40 MiB at once need the buffers of the disconnected clients.
    assert!(client.read(0, 20 * MIB).unwrap()[19 * MIB..] == pattern(19, MIB));
    assert_eq!(running.stop().connections, 13);
}

#[test]
fn clients_stalled_within_a_payload_do_not_block_others() {
    let running = Running::start();
    // More clients than the volume has buffers of this size, so all are taken for a moment.
    let stuck: Vec<Caller> = (0..30).map(|_| running.client()).collect();
    for client in &stuck {
        let write = request(Command::Write, 1, 0, MIB, 0);
        send(&client.0.stream, write, &[7; 1000]).expect("sent");
    }
    thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    let mut client = running.client();
    for at in 0..30 {
        client.write(at * MIB as u64, &pattern(at, MIB), 0).expect("there are buffers left");
    }
    // The server waits 60 s for the rest of a payload.
    assert!(begun.elapsed() < Duration::from_secs(55), "held up for {:?}", begun.elapsed());
    // One of the stalled clients resumes.
    let mut late = stuck.into_iter().next().expect("there are some");
    late.raw(&vec![7; MIB - 1000]);
    assert_eq!(late.reply(0), (1, Ok(vec![])));
    assert!(client.read(0, MIB).expect("read").iter().all(|byte| *byte == 7));
    running.stop();
}

#[test]
fn only_the_violating_client_is_disconnected() {
    let running = Running::start();
    let mut good = running.client();
    let mut bad = running.client();
    bad.raw(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n");
    assert!(bad.is_closed());
    let mut half = running.client();
    half.raw(&[0x25, 0x60, 0x95, 0x13, 0, 0]);
    drop(half);
    good.write(0, &[1; 512], 0).expect("others go on");
    running.stop();
}

#[test]
fn a_stop_answers_pending_requests_and_refuses_new_clients() {
    let running = Running::start();
    let mut client = running.client();
    let idle = running.client();
    let sender = client.sender();
    for at in 0..64 {
        send_write(&sender, at, at * 65536, 65536);
    }
    running.stopper.stop();
    for _ in 0..64 {
        let (_, result) = client.reply(0);
        assert!(matches!(result, Ok(_) | Err(Errno::Shutdown)), "{result:?}");
    }
    assert!(client.is_closed());
    assert!(UnixStream::connect(&running.path).is_err());
    drop(idle);
    let begun = Instant::now();
    assert_eq!(running.stop().connections, 2);
    assert!(begun.elapsed() < Duration::from_secs(9), "it waited for the idle client");
}
