//! Stream of numbers that ends with the CRC-64/NVME of the bytes before it.

use std::io::{self, Read, Write};

use crc_fast::{CrcAlgorithm, Digest};

/// A stream and the checksum of its bytes so far. The caller buffers the stream.
pub(super) struct Summed<T> {
    inner: T,
    crc: Digest,
}

impl<T> Summed<T> {
    /// Starts a checksum at the present position of `inner`.
    pub(super) fn new(inner: T) -> Self {
        Summed { inner, crc: Digest::new(CrcAlgorithm::Crc64Nvme) }
    }
}

impl<W: Write> Summed<W> {
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc.update(bytes);
        self.inner.write_all(bytes)
    }

    pub(super) fn put_u32(&mut self, number: u32) -> io::Result<()> {
        self.put(&number.to_le_bytes())
    }

    /// Writes a table in pieces of 4 KiB, which is faster than single numbers.
    pub(super) fn put_table(&mut self, table: &[u32]) -> io::Result<()> {
        let mut bytes = [0; 4096];
        for piece in table.chunks(1024) {
            for (place, number) in bytes.chunks_exact_mut(4).zip(piece) {
                place.copy_from_slice(&number.to_le_bytes());
            }
            self.put(&bytes[..piece.len() * 4])?;
        }
        Ok(())
    }

    pub(super) fn put_u64(&mut self, number: u64) -> io::Result<()> {
        self.put(&number.to_le_bytes())
    }

    /// Writes the checksum.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let sum = self.crc.finalize();
        self.inner.write_all(&sum.to_le_bytes())?;
        self.inner.flush()
    }
}

impl<R: Read> Summed<R> {
    pub(super) fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.read_exact(bytes)?;
        self.crc.update(bytes);
        Ok(())
    }

    pub(super) fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn take_u32(&mut self) -> io::Result<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// Reads a table that [`Summed::put_table`] wrote.
    pub(super) fn take_table(&mut self, table: &mut [u32]) -> io::Result<()> {
        let mut bytes = [0; 4096];
        for piece in table.chunks_mut(1024) {
            let bytes = &mut bytes[..piece.len() * 4];
            self.fill(bytes)?;
            for (number, place) in piece.iter_mut().zip(bytes.chunks_exact(4)) {
                *number = u32::from_le_bytes(place.try_into().expect("four bytes"));
            }
        }
        Ok(())
    }

    pub(super) fn take_u64(&mut self) -> io::Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// Reads the checksum at the end and returns whether it is right. A missing checksum is wrong.
    pub(super) fn ends_whole(mut self) -> io::Result<bool> {
        let mut sum = [0; 8];
        match self.inner.read_exact(&mut sum) {
            Ok(()) => Ok(u64::from_le_bytes(sum) == self.crc.finalize()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}
