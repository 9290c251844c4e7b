//! Receives the requests of one client and passes them to the volume.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hostftl_core::{HostError, SECTOR};
use hostftl_nbd_proto::flags::{CMD_DF, CMD_FAST_ZERO, CMD_FUA, CMD_NO_HOLE, CMD_REQ_ONE};
use hostftl_nbd_proto::{Command, Errno, MAX_PAYLOAD, Request};
use hostftl_volume::front::{Answer, Answers, Buffer, Export, Job, JobOp, Port, is_hung_up};

use crate::connection::ConnectionError;
use crate::fault::{Fault, READ_ONLY};
use crate::inlet::Inlet;
use crate::limit::Throttle;
use crate::outlet::Outlet;
use crate::source::Source;
use crate::split::parts;
use crate::table::{Entry, ReplyKind, part_cookie};
use crate::witness::{RequestKind, RequestObserver};

/// Receiving half of one client. When it is dropped, the connection ends after the answers to the
/// requests in flight.
pub(crate) struct Reader<'a> {
    pub(crate) inlet: Inlet<Source<'a>>,
    pub(crate) port: &'a Port,
    /// Properties of the volume at the time when the client connected.
    pub(crate) export: Arc<Export>,
    pub(crate) outlet: Arc<Outlet>,
    pub(crate) stopping: &'a AtomicBool,
    pub(crate) witness: Option<&'a dyn RequestObserver>,
    /// Limit shared by all clients of the export.
    pub(crate) throttle: &'a Throttle,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // Jobs that this thread pushed must not wait for it: leaving processes them and lets
        // another thread drive the devices.
        self.inlet.source().submitter.leave();
        self.outlet.close();
    }
}

impl Reader<'_> {
    /// Receives requests until the client disconnects; returns their number.
    pub(crate) fn run(mut self) -> Result<u64, ConnectionError> {
        let mut taken = 0;
        while let Some(head) = self.inlet.head()? {
            let request = Request::parse(&head)?;
            if request.command == Command::Disconnect {
                break;
            }
            taken += 1;
            self.take(&request)?;
        }
        Ok(taken)
    }

    fn take(&mut self, request: &Request) -> io::Result<()> {
        if let Err(fault) = self.judge(request) {
            if request.command == Command::Write {
                self.inlet.skip(request.length)?;
            }
            self.answer(request, Some(fault));
            return Ok(());
        }
        self.keep_to_the_limit(request)?;
        if let (Some(witness), Some(what)) = (self.witness, seen(request.command)) {
            witness.observe(what, request.offset, request.length.into());
        }
        let fua = request.flags & CMD_FUA != 0;
        match request.command {
            Command::Read | Command::Write => return self.transfer(request, fua),
            Command::Flush => self.whole(request, ReplyKind::Done, JobOp::Flush),
            Command::Trim => self.whole(request, ReplyKind::Done, JobOp::Trim { fua }),
            Command::WriteZeroes => self.whole(request, ReplyKind::Done, JobOp::Zeroes { fua }),
            // CACHE is a hint, and there is no cache between the volume and its devices.
            Command::Cache => self.answer(request, None),
            Command::BlockStatus => {
                let one = request.flags & CMD_REQ_ONE != 0;
                self.whole(request, ReplyKind::Status { one }, JobOp::Status);
            }
            Command::Disconnect | Command::Other(_) => unreachable!("it was refused"),
        }
        Ok(())
    }

    /// Waits until the export's limit has room for the request, or the server stops. Meanwhile the
    /// client's payload stays in its socket, and other threads drive the volume.
    fn keep_to_the_limit(&mut self, request: &Request) -> io::Result<()> {
        if self.throttle.is_free() {
            return Ok(());
        }
        let moves = matches!(request.command, Command::Read | Command::Write);
        let bytes = if moves { request.length } else { 0 };
        let (throttle, stopping, source) = (self.throttle, self.stopping, self.inlet.source());
        let socket = source.socket();
        let is_stopping = || stopping.load(Ordering::Relaxed);
        let gives_up = || is_stopping() || is_hung_up(socket.as_fd());
        let is_paid = throttle.pay(bytes.into(), || source.submitter.leave(), gives_up);
        if is_paid || is_stopping() {
            return Ok(());
        }
        Err(io::Error::other("the client disconnected while its request waited for the limit"))
    }

    /// Checks a request. The errors are those of the NBD protocol: a range past the end is
    /// `Invalid`, or `NoSpace` for writes.
    fn judge(&self, request: &Request) -> Result<(), Fault> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(Fault::new(Errno::Shutdown, "the server is stopping"));
        }
        let invalid = |why| Err(Fault::new(Errno::Invalid, why));
        let allowed = CMD_FUA
            | match request.command {
                Command::Read if self.outlet.table.agreed().structured => CMD_DF,
                // NO_HOLE is accepted as a hint: over a sparse file, space may still be missing
                // later.
                Command::WriteZeroes => CMD_NO_HOLE | CMD_FAST_ZERO,
                Command::BlockStatus => CMD_REQ_ONE,
                _ => 0,
            };
        let (offset, length) = (request.offset, request.length);
        let aligned = offset.is_multiple_of(SECTOR as u64) && length.is_multiple_of(SECTOR as u32);
        let end = offset.checked_add(length.into());
        let export = &self.export;
        let within = end.is_some_and(|end| end <= export.bytes);
        let fast = request.flags & CMD_FAST_ZERO != 0;
        match request.command {
            _ if request.flags & !allowed != 0 => invalid("invalid flag for the command"),
            Command::Disconnect | Command::Other(_) => invalid("unknown command"),
            Command::Flush if offset == 0 && length == 0 => Ok(()),
            Command::Flush => invalid("a flush cannot have a range"),
            Command::BlockStatus if self.outlet.table.agreed().numbers().next().is_none() => {
                invalid("no metadata context selected")
            }
            Command::Read if length > MAX_PAYLOAD => invalid("more than 32 MiB in one request"),
            Command::Write | Command::Trim | Command::WriteZeroes if export.read_only => {
                Err(READ_ONLY)
            }
            _ if length == 0 => invalid("an empty range"),
            _ if !aligned => invalid("the range is not aligned to 512 bytes"),
            Command::Write | Command::WriteZeroes if !within => {
                Err(Fault::new(Errno::NoSpace, "the range ends beyond the volume"))
            }
            _ if !within => invalid("the range ends beyond the volume"),
            Command::WriteZeroes if fast && !export.fast_zeroes => {
                Err(Fault::new(Errno::Unsupported, "fast zeroes are not supported on this volume"))
            }
            _ => Ok(()),
        }
    }

    /// Passes a read or a write to the volume, split into parts if it is long.
    fn transfer(&mut self, request: &Request, fua: bool) -> io::Result<()> {
        let (most, align) = (self.export.max_transfer, self.export.align);
        let list = || parts(request.offset, request.length, most, align);
        let read = request.command == Command::Read;
        let one_piece = request.flags & CMD_DF != 0;
        let slot = self.enter(Entry {
            bytes: request.length,
            parts: list().count() as u32,
            ..entry(request, if read { ReplyKind::Data { one_piece } } else { ReplyKind::Done })
        });
        for (offset, bytes) in list() {
            let cookie = part_cookie(slot, offset - request.offset);
            let op = if read {
                JobOp::Read(self.buffer(bytes))
            } else {
                match self.receive(bytes) {
                    Ok(data) => JobOp::Write { data, fua },
                    Err(error) => {
                        let rest = list().skip_while(|(other, _)| *other < offset).count();
                        self.break_off(cookie, rest);
                        return Err(error);
                    }
                }
            };
            self.push(op, offset, bytes.into(), cookie);
        }
        Ok(())
    }

    /// Completes `parts` parts of a request with an error because their payload never arrived. The
    /// request ends when its other parts are answered.
    fn break_off(&self, cookie: u64, parts: usize) {
        for _ in 0..parts {
            self.outlet.take(Answer::new(cookie, Err(HostError::Io), None));
        }
        self.outlet.flush();
    }

    /// Receives a payload into a buffer of the volume. While the client pauses, the buffer is
    /// returned to the volume for other requests and the payload is collected in memory from the
    /// budget.
    fn receive(&mut self, bytes: u32) -> io::Result<Buffer> {
        let (mut data, mut done) = (self.buffer(bytes), 0);
        if self.inlet.fill(&mut data, &mut done)? {
            return Ok(data);
        }
        let Some(_grant) = self.outlet.table.budget().ask_for(bytes) else {
            return Err(io::Error::other("the client stalled, and memory is short"));
        };
        let mut own = data.to_vec();
        drop(data);
        while !self.inlet.fill(&mut own, &mut done)? {}
        let mut data = self.buffer(bytes);
        data.copy_from_slice(&own);
        Ok(data)
    }

    /// Returns a buffer, waiting until the volume has a free one.
    fn buffer(&mut self, bytes: u32) -> Buffer {
        let submitter = &mut self.inlet.source().submitter;
        self.port.try_buffer(bytes).unwrap_or_else(|| {
            submitter.leave();
            self.port.buffer(bytes)
        })
    }

    /// Enters a request into the table, waiting until the window has room.
    fn enter(&mut self, entry: Entry) -> u32 {
        self.outlet.table.try_enter(entry).unwrap_or_else(|| {
            self.inlet.source().submitter.leave();
            self.outlet.table.enter(entry)
        })
    }

    /// Passes a request without payload to the volume.
    fn whole(&mut self, request: &Request, kind: ReplyKind, op: JobOp) {
        let slot = self.enter(entry(request, kind));
        self.push(op, request.offset, request.length.into(), part_cookie(slot, 0));
    }

    fn push(&mut self, op: JobOp, offset: u64, bytes: u64, cookie: u64) {
        let reply = self.outlet.clone();
        self.inlet.source().submitter.push(Job { op, offset, bytes, cookie, reply });
    }

    /// Answers a request without the volume, through the table like every reply.
    fn answer(&mut self, request: &Request, fault: Option<Fault>) {
        let slot = self.enter(Entry { fault, ..entry(request, ReplyKind::Done) });
        self.outlet.take(Answer::new(part_cookie(slot, 0), Ok(()), None));
        self.outlet.flush();
    }
}

/// Returns the kind of command that a witness records.
fn seen(command: Command) -> Option<RequestKind> {
    match command {
        Command::Read => Some(RequestKind::Read),
        Command::Write => Some(RequestKind::Write),
        Command::Flush => Some(RequestKind::Flush),
        Command::Trim => Some(RequestKind::Trim),
        Command::WriteZeroes => Some(RequestKind::Zeroes),
        _ => None,
    }
}

/// Returns the table entry of a request with one part and no payload.
fn entry(request: &Request, kind: ReplyKind) -> Entry {
    let Request { cookie, offset, .. } = *request;
    Entry { cookie, kind, offset, bytes: 0, parts: 1, fault: None }
}
