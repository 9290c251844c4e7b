//! Connection to a client: a unix or TCP socket, plain or under TLS.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hostftl_volume::front::set_send_room;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};
use socket2::{SockRef, TcpKeepalive};

use crate::tls::Tls;

/// Send buffer of a unix socket in bytes, so that replies to a usual queue depth are sent without
/// waiting for the client. TCP sockets grow their buffer themselves.
const SEND_ROOM: u32 = 2 << 20;

/// Idle time of a TCP peer before keepalive probes start, and time limit for acknowledgement of
/// sent data.
const SILENCE: Duration = Duration::from_secs(60);
/// Interval between the four keepalive probes.
const PROBE: Duration = Duration::from_secs(15);

/// Connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    /// Client on this machine.
    Unix(UnixStream),
    /// Client of any address.
    Tcp(TcpStream),
}

/// Calls the same method on either variant.
macro_rules! each {
    ($self:ident, $kind:ident: $socket:ident => $body:expr) => {
        match $self {
            $kind::Unix($socket) => $body,
            $kind::Tcp($socket) => $body,
        }
    };
}

impl Socket {
    pub(crate) fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        each!(self, Socket: socket => socket.set_read_timeout(time))
    }

    pub(crate) fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        each!(self, Socket: socket => socket.set_write_timeout(time))
    }

    /// Enlarges the send buffer, so that long replies are sent in one call.
    pub(crate) fn make_room(&self) {
        if let Socket::Unix(socket) = self {
            set_send_room(socket.as_fd(), SEND_ROOM);
        }
    }

    /// Enables detection of a peer that vanished without closing: keepalive probes for an idle
    /// peer, and a timeout for unacknowledged data.
    pub(crate) fn watch_peer(&self) {
        let Socket::Tcp(socket) = self else { return };
        let socket = SockRef::from(socket);
        let probes = TcpKeepalive::new().with_time(SILENCE).with_interval(PROBE).with_retries(4);
        // Both options are optional: without them a vanished peer is only noticed later.
        socket.set_tcp_keepalive(&probes).ok();
        socket.set_tcp_user_timeout(Some(SILENCE)).ok();
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        each!(self, Socket: socket => socket.shutdown(how))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        each!(self, Socket: socket => socket.as_fd())
    }
}

impl Read for &Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        each!(self, Socket: socket => (&*socket).read(into))
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        each!(self, Socket: socket => (&*socket).read_vectored(into))
    }
}

impl Write for &Socket {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        each!(self, Socket: socket => (&*socket).write(from))
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        each!(self, Socket: socket => (&*socket).write_vectored(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Non-blocking view of a socket: returns [`io::ErrorKind::WouldBlock`] when the socket is not
/// ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NonBlocking<'a>(pub(crate) &'a Socket);

impl Read for NonBlocking<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(into)])
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut nothing = RecvAncillaryBuffer::default();
        let got = recvmsg(self.0, into, &mut nothing, RecvFlags::DONTWAIT)?;
        Ok(got.bytes)
    }
}

impl Write for NonBlocking<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(from)])
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        let (mut nothing, flags) = (SendAncillaryBuffer::default(), SendFlags::DONTWAIT);
        Ok(sendmsg(self.0, from, &mut nothing, flags | SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Byte stream of a client, used in both directions at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Channel<'a> {
    /// Plain socket.
    Plain(&'a Socket),
    /// TLS session.
    Secure(&'a Tls<'a>),
}

impl<'a> Channel<'a> {
    /// Returns the underlying socket.
    pub(crate) fn socket(&self) -> &'a Socket {
        match self {
            Channel::Plain(socket) => socket,
            Channel::Secure(tls) => tls.socket(),
        }
    }
}

impl Read for Channel<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => socket.read(into),
            Channel::Secure(tls) => tls.read(into),
        }
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => socket.read_vectored(into),
            Channel::Secure(tls) => match into.iter_mut().find(|buffer| !buffer.is_empty()) {
                Some(first) => tls.read(first),
                None => Ok(0),
            },
        }
    }
}

impl Write for Channel<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(from)])
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => socket.write_vectored(from),
            Channel::Secure(tls) => tls.write_vectored(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Channel::Plain(_) => Ok(()),
            Channel::Secure(tls) => tls.flush(),
        }
    }
}
