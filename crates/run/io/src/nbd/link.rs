//! Connection to a server: the socket, the handshake, and the checks of the export.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hostftl_core::{BLOCK, Page, SECTOR};
use hostftl_nbd_proto::flags::{READ_ONLY, SEND_FLUSH};
use hostftl_nbd_proto::{
    ClientHandshake, ClientOutcome, Command, Negotiated, ProtoError, Refusal, Request,
    SIMPLE_REPLY_BYTES, SimpleReply,
};

use super::tls::Session;
use super::uri::{ServerAddress, Uri};
use crate::connect::{connect_tcp, connect_unix};
use crate::deadline::{Deadline, Timed};

/// Time without an acknowledgement after which the kernel closes a TCP connection.
const LOST_AFTER: Duration = Duration::from_secs(15);

/// A connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Calls a method of either socket type.
macro_rules! each {
    ($stream:expr, $socket:ident => $body:expr) => {
        match $stream {
            Socket::Unix($socket) => $body,
            Socket::Tcp($socket) => $body,
        }
    };
}

impl Socket {
    /// Connects with a non-blocking socket.
    fn connect(place: &ServerAddress, deadline: &Deadline) -> io::Result<Self> {
        match place {
            ServerAddress::Unix(path) => connect_unix(path, deadline).map(Socket::Unix),
            ServerAddress::Tcp(host, port) => {
                let places: Vec<_> = (host.as_str(), *port).to_socket_addrs()?.collect();
                let socket = connect_tcp(&places, deadline)?;
                // A request must not wait for the acknowledgement of the previous one.
                socket.set_nodelay(true)?;
                notice_death(&socket)?;
                Ok(Socket::Tcp(socket))
            }
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        each!(self, socket => socket.read(into))
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        each!(self, socket => socket.read_vectored(into))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        each!(self, socket => socket.as_fd())
    }
}

impl Write for Socket {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        each!(self, socket => socket.write(from))
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        each!(self, socket => socket.write_vectored(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connection with or without TLS.
#[derive(Debug)]
pub(super) struct Stream {
    socket: Socket,
    session: Option<Session>,
}

impl Stream {
    /// Wraps a socket without TLS.
    pub(super) fn plain(socket: Socket) -> Self {
        Stream { socket, session: None }
    }

    /// Returns whether accepted data waits to be sent.
    pub(super) fn has_more(&self) -> bool {
        self.session.as_ref().is_some_and(Session::has_more)
    }

    /// Ends the session cleanly.
    pub(super) fn end(&mut self) {
        if let Some(session) = &mut self.session {
            session.end(&mut self.socket);
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(into)])
    }

    /// Receives available data.
    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.read(&mut self.socket, into),
            None => self.socket.read_vectored(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(from)])
    }

    /// Sends as much as the socket accepts.
    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.write(&mut self.socket, from),
            None => self.socket.write_vectored(from),
        }
    }

    /// Sends accepted data, as much as the socket takes.
    fn flush(&mut self) -> io::Result<()> {
        self.session.as_mut().map_or(Ok(()), |session| session.flush(&mut self.socket))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Makes the kernel detect that the other machine has disappeared.
fn notice_death(stream: &TcpStream) -> io::Result<()> {
    let seconds = LOST_AFTER.as_secs() as libc::c_int;
    let options = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds / 3),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds / 3),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 2),
        // Keepalive only covers an idle connection; this covers unacknowledged data.
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, seconds * 1000),
    ];
    for (level, option, value) in options {
        let (fd, len) = (stream.as_raw_fd(), size_of_val(&value) as libc::socklen_t);
        let place: *const libc::c_int = &value;
        // SAFETY: an open socket, and an int of the given length.
        if unsafe { libc::setsockopt(fd, level, option, place.cast(), len) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Connects to the server, negotiates the export and reads its first block, all before the
/// deadline. The returned connection is non-blocking.
pub(super) fn call(uri: &Uri, deadline: &Deadline) -> io::Result<(Stream, Negotiated, Page)> {
    let mut stream = Stream::plain(Socket::connect(&uri.place, deadline)?);
    let export = negotiate(&mut stream, uri, deadline)?;
    let why = if export.flags & READ_ONLY != 0 {
        "the export is read-only"
    } else if export.flags & SEND_FLUSH == 0 {
        "the server does not support flush"
    } else if export.block.is_some_and(|block| block.min > SECTOR as u32) {
        "the server needs blocks larger than 512 bytes"
    } else if export.bytes < BLOCK as u64 {
        "the export is smaller than 4 KiB"
    } else {
        let head = read_head(&mut Timed::new(&mut stream, deadline))?;
        return Ok((stream, export, head));
    };
    Err(io::Error::other(why))
}

fn negotiate(stream: &mut Stream, uri: &Uri, deadline: &Deadline) -> io::Result<Negotiated> {
    let handshake = ClientHandshake::new(&uri.export);
    let mut handshake = if uri.security.is_some() { handshake.secure() } else { handshake };
    let (mut input, mut out) = (Vec::new(), Vec::new());
    loop {
        let (used, outcome) = handshake.feed(&input, &mut out).map_err(refused)?;
        input.drain(..used);
        match outcome {
            // A server sends replies only after requests.
            ClientOutcome::Transmission(_) if !input.is_empty() => {
                return Err(io::Error::other("the server sent an unexpected message"));
            }
            ClientOutcome::Transmission(export) => return Ok(export),
            ClientOutcome::Secure => {
                let security = uri.security.as_ref().expect("the option was requested");
                let mut socket = Timed::new(&mut stream.socket, deadline);
                stream.session = Some(Session::begin(security, &mut socket)?);
                continue;
            }
            ClientOutcome::More => {}
        }
        let mut timed = Timed::new(&mut *stream, deadline);
        timed.write_all(&out)?;
        out.clear();
        let mut more = [0; 4096];
        match timed.read(&mut more)? {
            0 => return Err(io::Error::other("the server closed the connection")),
            got => input.extend_from_slice(&more[..got]),
        }
    }
}

/// Converts the server's refusal into an error with the remedy.
fn refused(why: ProtoError) -> io::Error {
    match why {
        ProtoError::Refused { code, .. } if code == Refusal::TlsRequired.code() => {
            io::Error::other("the server requires TLS; write nbds://…?tls-certificates=FOLDER")
        }
        _ => io::Error::other(why),
    }
}

/// Reads the first block, which identifies an export after a reconnect.
fn read_head(stream: &mut (impl Read + Write)) -> io::Result<Page> {
    let length = BLOCK as u32;
    let request = Request { flags: 0, command: Command::Read, cookie: 0, offset: 0, length };
    stream.write_all(&request.emit())?;
    let mut head = [0; SIMPLE_REPLY_BYTES];
    stream.read_exact(&mut head)?;
    let reply = SimpleReply::parse(&head).map_err(io::Error::other)?;
    if let Err(errno) = reply.result {
        return Err(io::Error::from_raw_os_error(errno.code() as i32));
    }
    let mut page = Page::default();
    stream.read_exact(&mut page.0)?;
    Ok(page)
}
