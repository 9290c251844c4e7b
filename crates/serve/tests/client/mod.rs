//! A small blocking NBD client, made of the codec.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use hostftl_nbd_proto::{
    ClientHandshake, ClientOutcome, Command, Errno, Negotiated, Request, SIMPLE_REPLY_BYTES,
    SimpleReply,
};

/// A connection in the transmission phase.
pub struct Client {
    stream: UnixStream,
    pub export: Negotiated,
    next: u64,
}

/// The sending half of a connection.
pub struct Sender(UnixStream);

impl Client {
    pub fn connect(path: &Path, name: &str) -> Self {
        let mut stream = UnixStream::connect(path).expect("a server");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let mut handshake = ClientHandshake::new(name);
        let (mut input, mut out) = (Vec::new(), Vec::new());
        loop {
            let (used, outcome) = handshake.feed(&input, &mut out).expect("a handshake");
            input.drain(..used);
            if let ClientOutcome::Transmission(export) = outcome {
                assert!(input.is_empty(), "the server speaks only when asked");
                return Client { stream, export, next: 1 };
            }
            stream.write_all(&out).expect("the server listens");
            out.clear();
            let mut more = [0; 4096];
            let got = stream.read(&mut more).expect("the server speaks");
            assert!(got > 0, "the server hung up");
            input.extend_from_slice(&more[..got]);
        }
    }

    pub fn sender(&self) -> Sender {
        Sender(self.stream.try_clone().expect("a second handle"))
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
    }

    /// The next reply; `payload` says how long the payload of a successful request is.
    pub fn reply(&mut self, payload: impl Fn(u64) -> usize) -> (u64, Result<Vec<u8>, Errno>) {
        let mut head = [0; SIMPLE_REPLY_BYTES];
        self.stream.read_exact(&mut head).expect("a reply");
        let reply = SimpleReply::parse(&head).expect("a simple reply");
        let result = reply.result.map(|()| {
            let mut data = vec![0; payload(reply.cookie)];
            self.stream.read_exact(&mut data).expect("its payload");
            data
        });
        (reply.cookie, result)
    }

    fn roundtrip(
        &mut self,
        (command, offset, length, flags): (Command, u64, u32, u16),
        data: &[u8],
        back: usize,
    ) -> Result<Vec<u8>, Errno> {
        self.next += 1;
        self.sender().send(command, self.next, offset, length, flags, data);
        let (cookie, result) = self.reply(|_| back);
        assert_eq!(cookie, self.next);
        result
    }

    pub fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
        self.roundtrip((Command::Read, offset, len as u32, 0), &[], len)
    }

    pub fn write(&mut self, offset: u64, data: &[u8], flags: u16) -> Result<(), Errno> {
        self.roundtrip((Command::Write, offset, data.len() as u32, flags), data, 0).map(drop)
    }

    /// A request whose reply has no payload, or should have none.
    pub fn ask(&mut self, what: Command, offset: u64, len: u32, flags: u16) -> Result<(), Errno> {
        self.roundtrip((what, offset, len, flags), &[], 0).map(drop)
    }

    pub fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]), Ok(0))
    }
}

impl Sender {
    pub fn send(
        &mut self,
        command: Command,
        cookie: u64,
        offset: u64,
        length: u32,
        flags: u16,
        data: &[u8],
    ) {
        let request = Request { flags, command, cookie, offset, length };
        self.0.write_all(&request.emit()).expect("sent");
        self.0.write_all(data).expect("sent");
    }
}
