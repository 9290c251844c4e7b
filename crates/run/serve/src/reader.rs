//! Takes the requests of one client from its socket and hands them to the volume.

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
use crate::table::{Entry, Wants, part_cookie};
use crate::witness::{Seen, Witness};

/// One client's requests on their way in. When it is dropped, the answers end with those in flight.
pub(crate) struct Reader<'a> {
    pub(crate) inlet: Inlet<Source<'a>>,
    pub(crate) port: &'a Port,
    /// The volume as it was when the client came.
    pub(crate) export: Arc<Export>,
    pub(crate) outlet: Arc<Outlet>,
    pub(crate) stopping: &'a AtomicBool,
    pub(crate) witness: Option<&'a dyn Witness>,
    /// What all clients of the export may ask.
    pub(crate) throttle: &'a Throttle,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // The volume is not left with jobs that nobody does.
        self.inlet.source().seat.leave();
        self.outlet.close();
    }
}

impl Reader<'_> {
    /// Takes requests until the client is done; returns how many.
    ///
    /// # Errors
    /// When the client breaks the protocol or the connection.
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
            witness.saw(what, request.offset, request.length.into());
        }
        let fua = request.flags & CMD_FUA != 0;
        match request.command {
            Command::Read | Command::Write => return self.transfer(request, fua),
            Command::Flush => self.whole(request, Wants::Done, JobOp::Flush),
            Command::Trim => self.whole(request, Wants::Done, JobOp::Trim { fua }),
            Command::WriteZeroes => self.whole(request, Wants::Done, JobOp::Zeroes { fua }),
            // A hint: nothing between the volume and its devices could keep the range.
            Command::Cache => self.answer(request, None),
            Command::BlockStatus => {
                let one = request.flags & CMD_REQ_ONE != 0;
                self.whole(request, Wants::Status { one }, JobOp::Status);
            }
            Command::Disconnect | Command::Other(_) => unreachable!("it was refused"),
        }
        Ok(())
    }

    /// Waits until the export's limit has room for the request, or the server stops. Meanwhile the
    /// client's payload stays in its socket, and the volume is driven by others.
    ///
    /// # Errors
    /// When the client goes away before: its request takes up nothing of the limit then.
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
        let is_paid = throttle.pay(bytes.into(), || source.seat.leave(), gives_up);
        if is_paid || is_stopping() {
            return Ok(());
        }
        Err(io::Error::other("the client went away while its request waited for the limit"))
    }

    /// Whether the request can be done at all. The errors are those of the protocol: what reaches
    /// past the end is `Invalid`, or `NoSpace` when it would write.
    fn judge(&self, request: &Request) -> Result<(), Fault> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(Fault::new(Errno::Shutdown, "the server is stopping"));
        }
        let invalid = |why| Err(Fault::new(Errno::Invalid, why));
        let allowed = CMD_FUA
            | match request.command {
                Command::Read if self.outlet.table.agreed().structured => CMD_DF,
                // Accepted as a hint: over a sparse file a hole may still lack its space later.
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
            _ if request.flags & !allowed != 0 => invalid("a flag that the command does not have"),
            Command::Disconnect | Command::Other(_) => invalid("an unknown command"),
            Command::Flush if offset == 0 && length == 0 => Ok(()),
            Command::Flush => invalid("a flush has no range"),
            Command::BlockStatus if self.outlet.table.agreed().numbers().next().is_none() => {
                invalid("no context was chosen")
            }
            Command::Read if length > MAX_PAYLOAD => invalid("more than 32 MiB at once"),
            Command::Write | Command::Trim | Command::WriteZeroes if export.read_only => {
                Err(READ_ONLY)
            }
            _ if length == 0 => invalid("a range of no bytes"),
            _ if !aligned => invalid("the range is not whole sectors of 512 bytes"),
            Command::Write | Command::WriteZeroes if !within => {
                Err(Fault::new(Errno::NoSpace, "the range reaches past the end of the volume"))
            }
            _ if !within => invalid("the range reaches past the end of the volume"),
            Command::WriteZeroes if fast && !export.fast_zeroes => {
                Err(Fault::new(Errno::Unsupported, "zeroes are as slow as data on this volume"))
            }
            _ => Ok(()),
        }
    }

    /// Hands over a read or a write, in parts when it is long.
    fn transfer(&mut self, request: &Request, fua: bool) -> io::Result<()> {
        let (most, align) = (self.export.max_transfer, self.export.align);
        let list = || parts(request.offset, request.length, most, align);
        let read = request.command == Command::Read;
        let one_piece = request.flags & CMD_DF != 0;
        let slot = self.enter(Entry {
            bytes: request.length,
            parts: list().count() as u32,
            ..entry(request, if read { Wants::Data { one_piece } } else { Wants::Done })
        });
        for (offset, bytes) in list() {
            let cookie = part_cookie(slot, offset - request.offset);
            let op = match read {
                true => JobOp::Read(self.buffer(bytes)),
                false => match self.receive(bytes) {
                    Ok(data) => JobOp::Write { data, fua },
                    Err(error) => {
                        let rest = list().skip_while(|(other, _)| *other < offset).count();
                        self.break_off(cookie, rest);
                        return Err(error);
                    }
                },
            };
            self.push(op, offset, bytes.into(), cookie);
        }
        Ok(())
    }

    /// So many parts of a request never come: it is over when those are that came.
    fn break_off(&self, cookie: u64, parts: usize) {
        for _ in 0..parts {
            self.outlet.take(Answer::new(cookie, Err(HostError::Io), None));
        }
        self.outlet.flush();
    }

    /// A payload of the client, in a buffer of the volume. A client that stands still has none: the
    /// buffer is for others until the payload is there.
    fn receive(&mut self, bytes: u32) -> io::Result<Buffer> {
        let (mut data, mut done) = (self.buffer(bytes), 0);
        if self.inlet.fill(&mut data, &mut done)? {
            return Ok(data);
        }
        let Some(_grant) = self.outlet.table.budget().ask_for(bytes) else {
            return Err(io::Error::other("the client stood still, and memory is short"));
        };
        let mut own = data.to_vec();
        drop(data);
        while !self.inlet.fill(&mut own, &mut done)? {}
        let mut data = self.buffer(bytes);
        data.copy_from_slice(&own);
        Ok(data)
    }

    /// A buffer, when the volume has one.
    fn buffer(&mut self, bytes: u32) -> Buffer {
        let seat = &mut self.inlet.source().seat;
        self.port.try_buffer(bytes).unwrap_or_else(|| {
            seat.leave();
            self.port.buffer(bytes)
        })
    }

    /// A slot for a request, when the window has room.
    fn enter(&mut self, entry: Entry) -> u32 {
        self.outlet.table.try_enter(entry).unwrap_or_else(|| {
            self.inlet.source().seat.leave();
            self.outlet.table.enter(entry)
        })
    }

    /// Hands over a request without payload.
    fn whole(&mut self, request: &Request, wants: Wants, op: JobOp) {
        let slot = self.enter(entry(request, wants));
        self.push(op, request.offset, request.length.into(), part_cookie(slot, 0));
    }

    fn push(&mut self, op: JobOp, offset: u64, bytes: u64, cookie: u64) {
        let reply = self.outlet.clone();
        self.inlet.source().seat.push(Job { op, offset, bytes, cookie, reply });
    }

    /// Answers without the volume, but the way that every reply goes.
    fn answer(&mut self, request: &Request, fault: Option<Fault>) {
        let slot = self.enter(Entry { fault, ..entry(request, Wants::Done) });
        self.outlet.take(Answer::new(part_cookie(slot, 0), Ok(()), None));
        self.outlet.flush();
    }
}

/// What a witness is told of a command.
fn seen(command: Command) -> Option<Seen> {
    match command {
        Command::Read => Some(Seen::Read),
        Command::Write => Some(Seen::Write),
        Command::Flush => Some(Seen::Flush),
        Command::Trim => Some(Seen::Trim),
        Command::WriteZeroes => Some(Seen::Zeroes),
        _ => None,
    }
}

/// A request of one part that holds no payload.
fn entry(request: &Request, wants: Wants) -> Entry {
    let Request { cookie, offset, .. } = *request;
    Entry { cookie, wants, offset, bytes: 0, parts: 1, fault: None }
}
