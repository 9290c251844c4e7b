//! One server with several volumes, with limits, and with a socket for a group.

mod client;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use client::{Client, send};
use hostftl_nbd_proto::{Command, Request};
use hostftl_serve::{Exported, Limits, Options, Served, Server, SocketOwner, Stopper};
use hostftl_volume::ram_port;

struct Running {
    folder: tempfile::TempDir,
    stopper: Stopper,
    thread: JoinHandle<(Served, String)>,
}

impl Running {
    fn start(exports: Vec<Exported>, owner: SocketOwner) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let address = format!("unix:{}", folder.path().join("s").display()).parse().expect("one");
        let server = Server::bind(Options { address, owner, tls: None, exports });
        let server = server.expect("a server");
        let stopper = server.stopper();
        let thread = thread::spawn(move || {
            let mut ready = Vec::new();
            let served = server.run(&mut ready).expect("a clean end");
            (served, String::from_utf8(ready).expect("it is text"))
        });
        Running { folder, stopper, thread }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    fn client(&self, name: &str) -> Client {
        Client::connect(&self.path(), name).expect("a server")
    }

    fn stop(self) -> (Served, String) {
        self.stopper.stop();
        self.thread.join().expect("no panic")
    }
}

fn ram(name: &str, bytes: u64) -> Exported {
    Exported::new(ram_port(name, bytes))
}

fn request(command: Command, offset: u64, length: u32) -> Request {
    Request { flags: 0, command, cookie: 1, offset, length }
}

fn write(client: &mut Client, offset: u64, data: &[u8]) {
    let request = request(Command::Write, offset, data.len() as u32);
    send(&client.stream, request, data).expect("sent");
    assert_eq!(client.reply(|_| 0).expect("an answer"), (1, Ok(vec![])));
}

fn read(client: &mut Client, offset: u64, length: u32) -> Vec<u8> {
    send(&client.stream, request(Command::Read, offset, length), &[]).expect("sent");
    client.reply(|_| length as usize).expect("an answer").1.expect("data")
}

#[test]
fn each_volume_is_reached_by_its_name_only() {
    let exports = vec![ram("one", 1 << 20), ram("two", 2 << 20)];
    let running = Running::start(exports, SocketOwner::default());
    let (mut one, mut two) = (running.client("one"), running.client("two"));
    assert_eq!((one.export.bytes, two.export.bytes), (1 << 20, 2 << 20));
    write(&mut one, 4096, &[1; 4096]);
    write(&mut two, 4096, &[2; 8192]);
    assert_eq!(read(&mut one, 4096, 8192), [[1; 4096], [0; 4096]].concat());
    assert_eq!(read(&mut two, 4096, 8192), [2; 8192]);
    for name in ["", "three"] {
        assert!(Client::connect(&running.path(), name).is_err(), "{name:?}");
    }
    drop((one, two));
    let path = running.path().display().to_string();
    let (served, ready) = running.stop();
    assert_eq!((served.connections, served.requests), (4, 4));
    let uri = |name| format!("ready nbd+unix:///{name}?socket={path}\n");
    assert_eq!(ready, [uri("one"), uri("two")].concat());
}

#[test]
fn volumes_with_equal_names_are_refused() {
    let address = "unix:/nowhere/s".parse().expect("an address");
    let exports = vec![ram("one", 1 << 20), ram("one", 1 << 20)];
    let options = Options { address, owner: SocketOwner::default(), tls: None, exports };
    let message = Server::bind(options).expect_err("they are alike").to_string();
    assert!(message.contains("two volumes have the export name \"one\""), "{message}");
}

#[test]
fn a_limit_holds_for_all_clients_of_its_export_and_for_no_other() {
    let limits = Limits { requests: Some(50), bytes: None };
    let slow = Exported { limits, ..ram("slow", 1 << 20) };
    let running = Running::start(vec![slow, ram("fast", 1 << 20)], SocketOwner::default());
    let took = |name: &str, count: usize| {
        let mut client = running.client(name);
        let begun = Instant::now();
        (0..count).for_each(|_| drop(read(&mut client, 0, 4096)));
        begun.elapsed()
    };
    // The burst of 0.1 s covers 5 requests and the one in progress; 24 more take 0.48 s.
    let slow = thread::scope(|scope| {
        let both = [0; 2].map(|_| scope.spawn(|| took("slow", 15)));
        both.map(|one| one.join().expect("no panic"))
    });
    let longest = slow.into_iter().max().expect("two");
    assert!(longest >= Duration::from_millis(460), "{longest:?}");
    let fast = took("fast", 5000);
    assert!(fast < Duration::from_secs(100), "5000 at 50 a second: {fast:?}");
    running.stop();
}

#[test]
fn a_stop_does_not_wait_for_a_limit() {
    let limits = Limits { requests: None, bytes: Some(1) };
    let slow = Exported { limits, ..ram("slow", 1 << 20) };
    let running = Running::start(vec![slow], SocketOwner::default());
    let client = running.client("");
    for _ in 0..2 {
        send(&client.stream, request(Command::Read, 0, 4096), &[]).expect("sent");
    }
    thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    drop(client);
    running.stop();
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
}

#[test]
fn a_socket_has_the_given_mode_and_group() {
    let group = std::fs::metadata(std::env::temp_dir()).expect("it is there").gid();
    for (mode, group) in [(0o660, Some(group)), (0o666, None)] {
        let running = Running::start(vec![ram("one", 1 << 20)], SocketOwner { mode, group });
        let found = std::fs::metadata(running.path()).expect("it listens");
        assert_eq!(found.permissions().mode() & 0o777, mode);
        assert!(group.is_none_or(|group| group == found.gid()));
        running.stop();
    }
    assert_eq!(SocketOwner::find_group("root").expect("every system has it"), 0);
    assert_eq!(SocketOwner::find_group("4711").expect("a number"), 4711);
    let unknown =
        SocketOwner::find_group("no such group").expect_err("no volume has it").to_string();
    assert!(unknown.contains("\"no such group\""), "{unknown}");
}
