//! Byte source of a connection. While the client sends nothing, its thread drives the volume.

use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use hostftl_io::polling::Wait;
use hostftl_volume::front::Submitter;

use crate::channel::{Channel, NonBlocking, Socket};

/// Time without data after which a source returns a timeout.
pub(crate) const TICK: Duration = Duration::from_millis(250);

/// Byte source that drives the volume while it waits.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    channel: Channel<'a>,
    /// Access of this thread to the volume.
    pub(crate) submitter: Submitter,
    /// Whether the last read returned less than requested, so the socket is probably empty.
    dry: bool,
}

impl<'a> Source<'a> {
    pub(crate) fn new(channel: Channel<'a>, submitter: Submitter) -> Self {
        Source { channel, submitter, dry: true }
    }

    /// Returns the client's socket.
    pub(crate) fn socket(&self) -> &'a Socket {
        self.channel.socket()
    }
}

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(into)])
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Channel::Plain(socket) = self.channel else {
            // The TLS session decides when to read from the socket, and blocks there.
            self.submitter.leave();
            return self.channel.read_vectored(into);
        };
        loop {
            // A thread that waits only for its client can block in the read: one system call
            // instead of two.
            let alone = self.dry && self.submitter.is_free();
            if self.dry && !alone && !self.submitter.wait_readable(socket.as_fd(), Some(TICK)) {
                return Err(ErrorKind::WouldBlock.into());
            }
            let read = if alone {
                wait_for(socket, self.submitter.polls(), into)
            } else {
                NonBlocking(socket).read_vectored(into)
            };
            match read {
                Err(error) if error.kind() == ErrorKind::WouldBlock && alone => return Err(error),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.dry = true,
                Err(error) => return Err(error),
                Ok(got) => {
                    self.dry = got < into.iter().map(|buffer| buffer.len()).sum();
                    return Ok(got);
                }
            }
        }
    }
}

/// Polls briefly if `polls` permits it, then blocks until data arrives or the socket's timeout.
fn wait_for(
    mut socket: &Socket,
    mut polls: Option<Wait<'_>>,
    into: &mut [IoSliceMut<'_>],
) -> io::Result<usize> {
    while polls.as_mut().is_some_and(Wait::keeps_polling) {
        match NonBlocking(socket).read_vectored(into) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
    socket.read_vectored(into)
}
