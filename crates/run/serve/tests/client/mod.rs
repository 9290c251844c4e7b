//! Small blocking NBD client, built on the codec.

use std::io::{self, Error, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use hostftl_nbd_proto::{
    ClientHandshake, ClientOutcome, Errno, Negotiated, Request, SIMPLE_REPLY_BYTES, SimpleReply,
};

/// Connection in the transmission phase.
pub(crate) struct Client {
    pub stream: UnixStream,
    pub export: Negotiated,
}

impl Client {
    /// Negotiates the export `name`.
    pub(crate) fn connect(path: &Path, name: &str) -> io::Result<Self> {
        Self::negotiate(path, ClientHandshake::new(name))
    }

    /// Negotiates with the given handshake.
    pub(crate) fn negotiate(path: &Path, mut handshake: ClientHandshake) -> io::Result<Self> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(Duration::from_secs(300)))?;
        let (mut input, mut out) = (Vec::new(), Vec::new());
        loop {
            let (used, outcome) = handshake.feed(&input, &mut out).map_err(Error::other)?;
            input.drain(..used);
            if let ClientOutcome::Transmission(export) = outcome {
                assert!(input.is_empty(), "the server speaks only when asked");
                return Ok(Client { stream, export });
            }
            stream.write_all(&out)?;
            out.clear();
            let mut more = [0; 4096];
            match stream.read(&mut more) {
                Ok(0) => return Err(Error::other("the server hung up")),
                Ok(got) => input.extend_from_slice(&more[..got]),
                // A ring that this thread closed earlier may interrupt a read with a timeout.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Receives the next reply; `payload` returns the payload length of a successful request.
    pub(crate) fn reply(
        &mut self,
        payload: impl Fn(u64) -> usize,
    ) -> io::Result<(u64, Result<Vec<u8>, Errno>)> {
        let mut head = [0; SIMPLE_REPLY_BYTES];
        self.stream.read_exact(&mut head)?;
        let reply = SimpleReply::parse(&head).map_err(Error::other)?;
        let mut data = Vec::new();
        if reply.result.is_ok() {
            data.resize(payload(reply.cookie), 0);
            self.stream.read_exact(&mut data)?;
        }
        Ok((reply.cookie, reply.result.map(|()| data)))
    }
}

/// Sends a request and its payload.
pub(crate) fn send(mut stream: &UnixStream, request: Request, data: &[u8]) -> io::Result<()> {
    stream.write_all(&request.emit())?;
    stream.write_all(data)
}
