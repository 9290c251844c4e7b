//! One connection in the transmission phase. It never waits for the socket.
//!
//! Invariants
//! - `ahead[from..to]` is the data that was received and not used, in order.
//! - An item that awaits a reply on a line does not move until the reply is complete or the line is
//!   dropped: the line receives into, and sends from, the memory of the item.
//! - Each request is answered once, on the line that sent it; otherwise the line is broken.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use hostftl_nbd_proto::{Errno, REQUEST_BYTES, Request, SIMPLE_REPLY_BYTES, SimpleReply};

use super::item::Item;
use super::link::Stream;
use crate::transfer::Call;

/// Maximum number of bytes received beyond the awaited payload.
const AHEAD: usize = 16 << 10;
/// Maximum number of pieces in one system call.
const PIECES: usize = 64;

/// Part of the outgoing data.
#[derive(Debug)]
enum Outgoing {
    /// Request, with the number of bytes already sent.
    Head([u8; REQUEST_BYTES], usize),
    /// Payload of an item.
    Data(libc::iovec),
}

#[derive(Debug)]
pub(super) struct Line {
    number: usize,
    /// Connection.
    stream: Stream,
    out: VecDeque<Outgoing>,
    ahead: Box<[u8]>,
    from: usize,
    to: usize,
    /// Cookie of the read whose payload comes next, and the memory that is still to be filled.
    filling: Option<u64>,
    fill: VecDeque<libc::iovec>,
}

// SAFETY: the pointers refer to memory of items, which belong to the same thread as the line.
unsafe impl Send for Line {}

/// Reply of the server: cookie and result.
pub(super) type ServerReply = (u64, Result<(), Errno>);

impl Line {
    pub(super) fn new(number: usize, stream: Stream) -> Self {
        let (out, fill, ahead) = (VecDeque::new(), VecDeque::new(), vec![0; AHEAD].into());
        Line { number, stream, out, ahead, from: 0, to: 0, filling: None, fill }
    }

    /// Returns the socket.
    pub(super) fn fd(&self) -> RawFd {
        self.stream.as_fd().as_raw_fd()
    }

    /// Returns whether data waits to be sent.
    pub(super) fn has_more(&self) -> bool {
        !self.out.is_empty() || self.stream.has_more()
    }

    /// Ends the session cleanly.
    pub(super) fn end(&mut self) {
        self.stream.end();
    }

    /// Queues a request, with the payload of the current part if it is a write.
    pub(super) fn push(&mut self, request: &Request, item: &Item) {
        self.out.push_back(Outgoing::Head(request.emit(), 0));
        if item.transfer.call() == Call::Write {
            self.out.extend(front(item).map(Outgoing::Data));
        }
    }

    /// Queues a request without a reply.
    pub(super) fn bid(&mut self, request: &Request) {
        self.out.push_back(Outgoing::Head(request.emit(), 0));
    }

    /// Sends as much as the socket accepts.
    pub(super) fn send(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            let mut slices = [IoSlice::new(&[]); PIECES];
            let mut used = 0;
            for (slice, bit) in slices.iter_mut().zip(&self.out) {
                *slice = match bit {
                    Outgoing::Head(bytes, from) => IoSlice::new(&bytes[*from..]),
                    // SAFETY: the item keeps its memory, which is not written meanwhile.
                    Outgoing::Data(piece) => IoSlice::new(unsafe {
                        std::slice::from_raw_parts(piece.iov_base.cast(), piece.iov_len)
                    }),
                };
                used += 1;
            }
            match self.stream.write_vectored(&slices[..used]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => self.sent(sent),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.stream.flush()
    }

    /// Removes the first `bytes` bytes of the outgoing data.
    fn sent(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let first = self.out.front_mut().expect("at most the pending bytes were sent");
            let (len, whole) = match first {
                Outgoing::Head(all, from) => {
                    let len = bytes.min(all.len() - *from);
                    *from += len;
                    (len, *from == all.len())
                }
                Outgoing::Data(piece) => take(piece, bytes),
            };
            bytes -= len;
            if whole {
                self.out.pop_front();
            }
        }
    }

    /// Receives available data, payload directly into the memory of `items`, and appends complete
    /// replies to `replies`.
    pub(super) fn receive(
        &mut self,
        items: &mut [Option<Item>],
        replies: &mut Vec<ServerReply>,
    ) -> io::Result<()> {
        loop {
            self.parse_replies(items, replies)?;
            // The rest is shorter than a reply header, and exists only when no payload is awaited.
            self.ahead.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
            let got = match self.receive_once() {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(got) => got,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let filled = self.filled(got);
            self.to += got - filled;
        }
    }

    fn receive_once(&mut self) -> io::Result<usize> {
        let mut slices = [const { None }; PIECES];
        let pieces = self.fill.iter().take(PIECES - 1);
        for (slice, piece) in slices.iter_mut().zip(pieces) {
            // SAFETY: the item keeps its memory, and only this line uses it.
            let memory = unsafe {
                std::slice::from_raw_parts_mut(piece.iov_base.cast::<u8>(), piece.iov_len)
            };
            *slice = Some(IoSliceMut::new(memory));
        }
        let used = self.fill.len().min(PIECES - 1);
        // Data beyond the payload may only be received if all of the payload's memory is in this
        // call.
        let whole = used == self.fill.len();
        let rest = if whole { &mut self.ahead[self.to..] } else { &mut [] };
        slices[used] = Some(IoSliceMut::new(rest));
        let mut slices = slices.map(|slice| slice.unwrap_or_else(|| IoSliceMut::new(&mut [])));
        self.stream.read_vectored(&mut slices[..=used])
    }

    /// Advances the payload's memory by received bytes. Returns how many of them were payload.
    fn filled(&mut self, bytes: usize) -> usize {
        let mut left = bytes;
        while left > 0 {
            let Some(first) = self.fill.front_mut() else { break };
            let (len, whole) = take(first, left);
            left -= len;
            if whole {
                self.fill.pop_front();
            }
        }
        bytes - left
    }

    /// Processes the received data.
    fn parse_replies(
        &mut self,
        items: &mut [Option<Item>],
        replies: &mut Vec<ServerReply>,
    ) -> io::Result<()> {
        loop {
            if self.filling.is_some() {
                self.fill_from_ahead();
                if !self.fill.is_empty() {
                    return Ok(());
                }
                replies.extend(self.filling.take().map(|cookie| (cookie, Ok(()))));
            }
            let received = &self.ahead[self.from..self.to];
            let Some(head) = received.first_chunk::<SIMPLE_REPLY_BYTES>() else { return Ok(()) };
            let reply = SimpleReply::parse(head).map_err(io::Error::other)?;
            self.from += SIMPLE_REPLY_BYTES;
            let item = usize::try_from(reply.cookie).ok().and_then(|place| items.get_mut(place));
            let item = item.and_then(Option::as_mut);
            let Some(item) = item.filter(|item| item.awaits == Some(self.number)) else {
                return Err(io::Error::other("the server sent an unexpected reply"));
            };
            item.awaits = None;
            if reply.result.is_ok() && item.transfer.call() == Call::Read {
                self.filling = Some(reply.cookie);
                self.fill.extend(front(item));
            } else {
                replies.push((reply.cookie, reply.result));
            }
        }
    }

    fn fill_from_ahead(&mut self) {
        while let Some(piece) = self.fill.front_mut().filter(|_| self.from < self.to) {
            let len = piece.iov_len.min(self.to - self.from);
            let known = self.ahead[self.from..self.from + len].as_ptr();
            // SAFETY: the item keeps its memory, which does not overlap the look-ahead buffer.
            unsafe { std::ptr::copy_nonoverlapping(known, piece.iov_base.cast(), len) };
            self.from += len;
            if take(piece, len).1 {
                self.fill.pop_front();
            }
        }
    }
}

/// Removes up to `bytes` bytes from the front of a piece. Returns their number and whether the
/// piece is now empty.
fn take(piece: &mut libc::iovec, bytes: usize) -> (usize, bool) {
    let len = bytes.min(piece.iov_len);
    piece.iov_base = piece.iov_base.cast::<u8>().wrapping_add(len).cast();
    piece.iov_len -= len;
    (len, piece.iov_len == 0)
}

/// Returns the memory of the current part of an item.
pub(super) fn front(item: &Item) -> impl Iterator<Item = libc::iovec> {
    let mut left = item.part as usize;
    item.transfer.pieces().iter().map_while(move |piece| {
        let len = left.min(piece.iov_len);
        left -= len;
        (len > 0).then_some(libc::iovec { iov_base: piece.iov_base, iov_len: len })
    })
}
