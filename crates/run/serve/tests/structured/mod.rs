//! Structured replies and block status over a real socket, with a volume in memory.

use std::io::Read;
use std::thread;

use crate::client::{Client, send};
use crate::{MIB, SIZE};
use hostftl_nbd_proto::{
    CHUNK_BYTES, Chunk, ChunkHead, ClientHandshake, Command, Errno, Request, flags,
};
use hostftl_serve::{Options, Server};
use hostftl_volume::ram_port;

/// Content of a chunk.
#[derive(Debug, PartialEq)]
enum Said {
    Data(u64, Vec<u8>),
    Hole(u64, u32),
    Status(u32, Vec<(u32, u32)>),
    Error(Errno, String),
}

/// Runs `test` with a client that accepts chunks and requests `contexts`.
fn with_client(contexts: &[&str], test: impl FnOnce(&mut Client)) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vol.sock");
    let address = format!("unix:{}", path.display()).parse().expect("an address");
    let port = ram_port("vol", SIZE);
    let server = Server::bind(Options::new(address, port)).expect("a server");
    let stopper = server.stopper();
    thread::scope(|scope| {
        let server = scope.spawn(move || server.run(&mut Vec::new()));
        let handshake = ClientHandshake::new("").structured(contexts);
        test(&mut Client::negotiate(&path, handshake).expect("a server"));
        stopper.stop();
        server.join().expect("no panic").expect("a clean end");
    });
}

fn request(command: Command, offset: usize, len: usize, flags: u16) -> Request {
    Request { flags, command, cookie: 5, offset: offset as u64, length: len as u32 }
}

fn write(client: &mut Client, offset: usize, data: &[u8]) {
    let write = request(Command::Write, offset, data.len(), 0);
    send(&client.stream, write, data).expect("sent");
    assert_eq!(client.reply(|_| 0).expect("a reply"), (5, Ok(vec![])));
}

/// Receives the next chunk of a reply.
fn chunk(client: &mut Client) -> (ChunkHead, Vec<u8>) {
    let mut head = [0; CHUNK_BYTES];
    client.stream.read_exact(&mut head).expect("a head");
    let head = ChunkHead::parse(&head).expect("a good head");
    let mut content = vec![0; head.length as usize];
    client.stream.read_exact(&mut content).expect("its content");
    (head, content)
}

/// Sends a request and returns the chunks of its reply.
fn ask(client: &mut Client, request: Request) -> Vec<Said> {
    send(&client.stream, request, &[]).expect("sent");
    let mut all = Vec::new();
    loop {
        let (head, content) = chunk(client);
        assert_eq!(head.cookie, request.cookie);
        all.push(match Chunk::parse(head.kind, &content).expect("a good chunk") {
            Chunk::Data { offset, bytes } => Said::Data(offset, bytes.to_vec()),
            Chunk::Hole { offset, length } => Said::Hole(offset, length),
            Chunk::Status { context, extents } => Said::Status(context, extents),
            Chunk::Error { errno, message, .. } => Said::Error(errno, message.to_owned()),
            Chunk::None => panic!("the server has no use for it"),
        });
        if head.done {
            return all;
        }
    }
}

#[test]
fn a_read_is_sent_in_chunks_with_zeros_as_holes() {
    with_client(&[], |client| {
        assert!(client.export.structured && client.export.flags & flags::SEND_DF != 0);
        write(client, MIB, &[7; 4096]);
        let first = MIB as u64;
        let found = ask(client, request(Command::Read, MIB, 4096, 0));
        assert_eq!(found, [Said::Data(first, vec![7; 4096])]);
        let found = ask(client, request(Command::Read, 8 * MIB, 8192, 0));
        assert_eq!(found, [Said::Hole(8 * first, 8192)]);
        // Parts of 1 MiB each, in any order, that cover the range.
        let mut bytes = vec![9; 3 * MIB];
        for reply in ask(client, request(Command::Read, 0, 3 * MIB, 0)) {
            match reply {
                Said::Data(at, data) => {
                    bytes[at as usize..at as usize + data.len()].copy_from_slice(&data);
                }
                Said::Hole(at, len) => bytes[at as usize..at as usize + len as usize].fill(0),
                other => panic!("{other:?}"),
            }
        }
        assert!(bytes[MIB..MIB + 4096].iter().all(|byte| *byte == 7));
        assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 4096);
    });
}

#[test]
fn an_unfragmented_read_is_one_chunk() {
    with_client(&[], |client| {
        write(client, 0, &[7; 512]);
        let found = ask(client, request(Command::Read, 0, 5 * MIB, flags::CMD_DF));
        let [Said::Data(0, data)] = &found[..] else { panic!("more than one chunk") };
        assert_eq!(data.len(), 5 * MIB);
        assert!(data[..512].iter().all(|byte| *byte == 7));
        assert!(data[512..].iter().all(|byte| *byte == 0));
    });
}

#[test]
fn errors_have_a_reason() {
    with_client(&[], |client| {
        for (request, errno, word) in [
            (request(Command::Read, 1, 512, 0), Errno::Invalid, "aligned to 512"),
            (request(Command::Read, SIZE as usize, 512, 0), Errno::Invalid, "beyond the volume"),
            (
                request(Command::WriteZeroes, 0, 512, flags::CMD_FAST_ZERO),
                Errno::Unsupported,
                "fast zeroes",
            ),
            (request(Command::BlockStatus, 0, 512, 0), Errno::Invalid, "context"),
        ] {
            let found = ask(client, request);
            let [Said::Error(code, why)] = &found[..] else { panic!("{found:?}") };
            assert_eq!(*code, errno);
            assert!(why.contains(word), "{why:?} lacks {word:?}");
        }
        send(&client.stream, request(Command::Cache, 0, MIB, 0), &[]).expect("sent");
        assert_eq!(client.reply(|_| 0).expect("a reply"), (5, Ok(vec![])));
    });
}

#[test]
fn block_status_reports_extents_of_selected_contexts() {
    with_client(&["base:allocation", "hostftl:state", "other:thing"], |client| {
        let names: Vec<&str> = client.export.contexts.iter().map(|(_, name)| &**name).collect();
        assert_eq!(names, ["base:allocation", "hostftl:state"]);
        write(client, 4096, &[7; 512]);
        let status = |flags| request(Command::BlockStatus, 0, 65536, flags);
        let found = ask(client, status(0));
        let allocation = vec![(4096, 3), (512, 0), (65536 - 4608, 3)];
        let state = vec![(4096, 0), (512, 1), (65536 - 4608, 0)];
        assert_eq!(found, [Said::Status(1, allocation), Said::Status(2, state)]);
        let found = ask(client, status(flags::CMD_REQ_ONE));
        let one = [Said::Status(1, vec![(4096, 3)]), Said::Status(2, vec![(4096, 0)])];
        assert_eq!(found, one);
    });
    with_client(&["hostftl:state"], |client| {
        let found = ask(client, request(Command::BlockStatus, 512, 512, 0));
        assert_eq!(found, [Said::Status(2, vec![(512, 0)])]);
    });
}
