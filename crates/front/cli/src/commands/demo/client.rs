//! A small NBD client: writes blocks whose contents follow from their number, and verifies them.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Size of a block.
pub(super) const BLOCK: usize = 4096;
/// Number of requests in progress.
const DEPTH: usize = 32;
/// Time limit of a read or a write on the socket.
const PATIENCE: Duration = Duration::from_secs(60);

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
/// Client flags: fixed newstyle negotiation, and no zeroes after the reply to the option.
const FLAGS: u32 = 0b11;
/// Option that selects an export and ends the negotiation.
const EXPORT_NAME: u32 = 1;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;

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
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        let magic = |from: usize| u64::from_be_bytes(greeting[from..from + 8].try_into().unwrap());
        if (magic(0), magic(8)) != (MAGIC, OPTION_MAGIC) {
            return Err(io::Error::other("the server does not speak NBD"));
        }
        let mut hello = FLAGS.to_be_bytes().to_vec();
        hello.extend(OPTION_MAGIC.to_be_bytes());
        hello.extend(EXPORT_NAME.to_be_bytes());
        hello.extend(0u32.to_be_bytes());
        stream.write_all(&hello)?;
        // The size of the export and its flags.
        stream.read_exact(&mut [0; 10])?;
        Ok(Client { stream })
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
        let mut out = Vec::with_capacity(blocks.len() * (BLOCK + 28));
        for (at, &block) in blocks.iter().enumerate() {
            request(&mut out, WRITE, at, block);
            out.extend(contents(block, version));
        }
        self.stream.write_all(&out)
    }

    /// Makes all acknowledged writes durable.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let mut out = Vec::new();
        request(&mut out, FLUSH, 0, 0);
        // A flush has neither offset nor length.
        out[16..].fill(0);
        self.stream.write_all(&out)?;
        self.replies(1, 0, |_, _| Ok(()))
    }

    /// Reads blocks and returns an error unless each has one of the versions in `allowed`.
    pub(super) fn verify(
        &mut self,
        blocks: &[u64],
        allowed: impl Fn(u64) -> std::ops::RangeInclusive<u64>,
    ) -> io::Result<()> {
        for blocks in blocks.chunks(DEPTH) {
            let mut out = Vec::with_capacity(blocks.len() * 28);
            for (at, &block) in blocks.iter().enumerate() {
                request(&mut out, READ, at, block);
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
            let mut head = [0; 16];
            self.stream.read_exact(&mut head)?;
            let word = |from: usize| u32::from_be_bytes(head[from..from + 4].try_into().unwrap());
            let (magic, error, at) = (word(0), word(4), word(12) as usize);
            if magic != REPLY_MAGIC || at >= count {
                return Err(io::Error::other("an unexpected reply"));
            }
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error as i32));
            }
            self.stream.read_exact(&mut data)?;
            check(at, &data)?;
        }
        Ok(())
    }
}

/// Appends the head of a request for one block.
fn request(out: &mut Vec<u8>, kind: u16, at: usize, block: u64) {
    out.extend(REQUEST_MAGIC.to_be_bytes());
    out.extend([0, 0]);
    out.extend(kind.to_be_bytes());
    out.extend((at as u64).to_be_bytes());
    out.extend((block * BLOCK as u64).to_be_bytes());
    out.extend((BLOCK as u32).to_be_bytes());
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
