//! A small NBD client: writes blocks whose contents follow from their number, and verifies them.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use hostftl_nbd_proto::{
    ClientHandshake, ClientOutcome, Command, REQUEST_BYTES, Request, SIMPLE_REPLY_BYTES,
    SimpleReply,
};

/// Size of a block.
pub(super) const BLOCK: usize = 4096;
/// Number of requests in progress.
const DEPTH: usize = 32;
/// Time limit of a read or a write on the socket.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to a volume.
pub(super) struct Client {
    stream: UnixStream,
}

impl Client {
    /// Connects to the only export at a socket.
    pub(super) fn new(socket: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut handshake = ClientHandshake::new("");
        let (mut input, mut out, mut part) = (Vec::new(), Vec::new(), [0; BLOCK]);
        loop {
            let (used, outcome) = handshake.feed(&input, &mut out).map_err(io::Error::other)?;
            input.drain(..used);
            stream.write_all(&std::mem::take(&mut out))?;
            if let ClientOutcome::Transmission(_) = outcome {
                return Ok(Client { stream });
            }
            match stream.read(&mut part)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => input.extend(&part[..read]),
            }
        }
    }

    /// Writes `version` of each block.
    pub(super) fn write(&mut self, blocks: &[u64], version: u64) -> io::Result<()> {
        for blocks in blocks.chunks(DEPTH) {
            self.send_writes(blocks, version)?;
            self.replies(blocks.len(), 0, |_, _| Ok(()))?;
        }
        Ok(())
    }

    /// Sends at most [`DEPTH`] writes without waiting for their replies.
    pub(super) fn send_writes(&mut self, blocks: &[u64], version: u64) -> io::Result<()> {
        let mut out = Vec::with_capacity(blocks.len() * (BLOCK + REQUEST_BYTES));
        for (at, &block) in blocks.iter().enumerate() {
            out.extend(request_for(Command::Write, at, block).emit());
            out.extend(contents(block, version));
        }
        self.stream.write_all(&out)
    }

    /// Makes all acknowledged writes durable.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        // A flush has neither offset nor length.
        let flush = Request { length: 0, ..request_for(Command::Flush, 0, 0) };
        self.stream.write_all(&flush.emit())?;
        self.replies(1, 0, |_, _| Ok(()))
    }

    /// Reads blocks and returns an error unless each has one of the versions in `allowed`.
    pub(super) fn verify(
        &mut self,
        blocks: &[u64],
        allowed: impl Fn(u64) -> std::ops::RangeInclusive<u64>,
    ) -> io::Result<()> {
        for blocks in blocks.chunks(DEPTH) {
            let mut out = Vec::with_capacity(blocks.len() * REQUEST_BYTES);
            for (at, &block) in blocks.iter().enumerate() {
                out.extend(request_for(Command::Read, at, block).emit());
            }
            self.stream.write_all(&out)?;
            self.replies(blocks.len(), BLOCK, |at, data| {
                let block = blocks[at];
                let is_right = allowed(block).any(|version| contents(block, version) == data);
                let wrong = || io::Error::other(format!("block {block} has the wrong contents"));
                if is_right { Ok(()) } else { Err(wrong()) }
            })?;
        }
        Ok(())
    }

    /// Receives `count` replies with `size` bytes of data each, in any order.
    fn replies(
        &mut self,
        count: usize,
        size: usize,
        mut check: impl FnMut(usize, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut data = vec![0; size];
        for _ in 0..count {
            let mut head = [0; SIMPLE_REPLY_BYTES];
            self.stream.read_exact(&mut head)?;
            let SimpleReply { cookie, result } =
                SimpleReply::parse(&head).map_err(io::Error::other)?;
            let at = cookie as usize;
            if at >= count {
                return Err(io::Error::other("an unexpected reply"));
            }
            result.map_err(|errno| io::Error::from_raw_os_error(errno.code() as i32))?;
            self.stream.read_exact(&mut data)?;
            check(at, &data)?;
        }
        Ok(())
    }
}

/// Returns the request with number `at` for one block.
fn request_for(command: Command, at: usize, block: u64) -> Request {
    Request {
        flags: 0,
        command,
        cookie: at as u64,
        offset: block * BLOCK as u64,
        length: BLOCK as u32,
    }
}

/// Returns the contents of a version of a block, which compress about 2:1.
fn contents(block: u64, version: u64) -> Vec<u8> {
    let mut state = (block << 8 | version).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut data = Vec::with_capacity(BLOCK);
    while data.len() < BLOCK / 2 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data.extend(state.to_le_bytes());
    }
    data.resize(BLOCK, version as u8);
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_differ_by_block_and_version() {
        let all = [(0, 1), (0, 2), (1, 1), (1, 2)].map(|(block, it)| contents(block, it));
        assert!(all.iter().all(|data| data.len() == BLOCK));
        assert!((0..4).all(|one| (0..one).all(|other| all[one] != all[other])));
    }
}
