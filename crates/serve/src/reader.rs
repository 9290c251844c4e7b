//! Takes the requests of one client from its socket and hands them to the volume.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use hostftl_core::SECTOR;
use hostftl_nbd_proto::flags::{CMD_FUA, CMD_NO_HOLE};
use hostftl_nbd_proto::{Command, Errno, MAX_PAYLOAD, Request};
use hostftl_volume::front::{Answer, Job, JobOp, Port};

use crate::connection::ConnectionError;
use crate::inlet::Inlet;
use crate::split::parts;
use crate::table::{Entry, Table, part_cookie};

/// One client's requests on their way in. When it is dropped, the answers end with those in flight.
pub(crate) struct Reader<'a> {
    pub(crate) inlet: Inlet<&'a UnixStream>,
    pub(crate) port: &'a Port,
    pub(crate) table: &'a Table,
    pub(crate) reply: Sender<Answer>,
    pub(crate) stopping: &'a AtomicBool,
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
        if let Err(error) = self.judge(request) {
            if request.command == Command::Write {
                self.inlet.skip(request.length)?;
            }
            self.refuse(request, error);
            return Ok(());
        }
        let fua = request.flags & CMD_FUA != 0;
        match request.command {
            Command::Read | Command::Write => return self.transfer(request, fua),
            Command::Flush => self.whole(request, JobOp::Flush),
            Command::Trim => self.whole(request, JobOp::Trim { fua }),
            Command::WriteZeroes => self.whole(request, JobOp::Zeroes { fua }),
            Command::Disconnect | Command::Other(_) => unreachable!("it was refused"),
        }
        Ok(())
    }

    /// Whether the request can be done at all. The errors are those of the protocol: what reaches
    /// past the end is `Invalid`, or `NoSpace` when it would write.
    fn judge(&self, request: &Request) -> Result<(), Errno> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(Errno::Shutdown);
        }
        let allowed = match request.command {
            // Accepted as a hint: over a sparse backing file a hole may still lack its space later.
            Command::WriteZeroes => CMD_FUA | CMD_NO_HOLE,
            _ => CMD_FUA,
        };
        let (offset, length) = (request.offset, request.length);
        let aligned = offset.is_multiple_of(SECTOR as u64) && length.is_multiple_of(SECTOR as u32);
        let end = offset.checked_add(length.into());
        let within = end.is_some_and(|end| end <= self.port.export().bytes);
        match request.command {
            _ if request.flags & !allowed != 0 => Err(Errno::Invalid),
            Command::Disconnect | Command::Other(_) => Err(Errno::Invalid),
            Command::Flush if offset == 0 && length == 0 => Ok(()),
            Command::Flush => Err(Errno::Invalid),
            Command::Read if length > MAX_PAYLOAD => Err(Errno::Invalid),
            _ if length == 0 || !aligned => Err(Errno::Invalid),
            Command::Write | Command::WriteZeroes if !within => Err(Errno::NoSpace),
            _ if !within => Err(Errno::Invalid),
            _ => Ok(()),
        }
    }

    /// Hands over a read or a write, in parts when it is long.
    fn transfer(&mut self, request: &Request, fua: bool) -> io::Result<()> {
        let export = self.port.export();
        let list = || parts(request.offset, request.length, export.max_transfer, export.align);
        let read = request.command == Command::Read;
        let slot = self.table.enter(Entry {
            cookie: request.cookie,
            read,
            bytes: request.length,
            parts: list().count() as u32,
            error: None,
        });
        for (offset, bytes) in list() {
            let mut data = self.port.buffer(bytes);
            let op = if read {
                JobOp::Read(data)
            } else {
                self.inlet.fill(&mut data)?;
                JobOp::Write { data, fua }
            };
            let cookie = part_cookie(slot, offset - request.offset);
            self.submit(op, offset, bytes.into(), cookie);
        }
        Ok(())
    }

    /// Hands over a request without payload.
    fn whole(&self, request: &Request, op: JobOp) {
        let slot = self.table.enter(Entry {
            cookie: request.cookie,
            read: false,
            bytes: 0,
            parts: 1,
            error: None,
        });
        self.submit(op, request.offset, request.length.into(), part_cookie(slot, 0));
    }

    fn submit(&self, op: JobOp, offset: u64, bytes: u64, cookie: u64) {
        self.port.submit(Job { op, offset, bytes, cookie, reply: self.reply.clone() });
    }

    /// Sends an error the way that every reply goes.
    fn refuse(&self, request: &Request, error: Errno) {
        let slot = self.table.enter(Entry {
            cookie: request.cookie,
            read: false,
            bytes: 0,
            parts: 1,
            error: Some(error),
        });
        let answer = Answer { cookie: part_cookie(slot, 0), result: Ok(()), data: None };
        self.reply.send(answer).ok();
    }
}
