//! A request under way in the drive, superpage by superpage.

use hostftl_core::{Cause, HostOp, Payload, Reply, Request, Tally, Ticket};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    Read,
    Write,
    Trim,
}

/// One request.
#[derive(Debug)]
pub struct Job {
    ticket: Ticket,
    pub data: Option<Payload>,
    pub kind: JobKind,
    /// The first sector.
    lba: u64,
    /// The first sector that has no operation yet.
    cursor: u64,
    end: u64,
    /// Sectors that no program has taken yet, by cause; a read keeps its own cause here.
    tally: Tally,
    /// Operations under way, and one more while the request is queued.
    pub pending: u32,
}

/// The part of a request that lies in one superpage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The superpage.
    pub logical: u32,
    /// The first sector in the superpage.
    pub offset: u32,
    /// How many sectors.
    pub sectors: u32,
    /// The first sector in the request.
    pub at: u32,
}

impl Job {
    /// A read, write, trim or zeroes. A trim keeps only the superpages that it covers whole.
    pub fn new(request: Request, unit: u32) -> Self {
        let Request { ticket, op, lba, sectors, tally } = request;
        let (kind, data) = match op {
            HostOp::Read(data) => (JobKind::Read, Some(data)),
            HostOp::Write { data, .. } => (JobKind::Write, Some(data)),
            HostOp::Zeroes { .. } => (JobKind::Write, None),
            HostOp::Trim { .. } => (JobKind::Trim, None),
            HostOp::Flush => unreachable!("a flush is answered at once"),
        };
        let (mut cursor, mut end) = (lba, lba + sectors);
        if kind == JobKind::Trim {
            end -= end % u64::from(unit);
            cursor = cursor.next_multiple_of(unit.into()).min(end);
        }
        Job { ticket, data, kind, lba, cursor, end, tally, pending: 1 }
    }

    /// The next part that has no operation yet; stays the same until [`Job::advance`].
    pub fn part(&self, unit: u32) -> Option<Part> {
        let unit = u64::from(unit);
        let offset = self.cursor % unit;
        let sectors = (unit - offset).min(self.end - self.cursor);
        (sectors > 0).then(|| Part {
            logical: (self.cursor / unit) as u32,
            offset: offset as u32,
            sectors: sectors as u32,
            at: (self.cursor - self.lba) as u32,
        })
    }

    /// `part` has its operation.
    pub fn advance(&mut self, part: Part) {
        self.cursor += u64::from(part.sectors);
    }

    /// Takes `sectors` off the tally, in the order of the causes. Zeroes are the host's.
    pub fn take_tally(&mut self, sectors: u32) -> Tally {
        if self.data.is_none() {
            return Tally::of(Cause::Host, sectors);
        }
        let (mut taken, mut rest, mut left) = (Tally::default(), Tally::default(), sectors);
        for cause in Cause::ALL {
            let has = self.tally.get(cause);
            let take = has.min(left);
            taken.add(cause, take);
            rest.add(cause, has - take);
            left -= take;
        }
        assert_eq!(left, 0, "a write's tally is shorter than the write");
        self.tally = rest;
        taken
    }

    /// Why a read is made: the cause that its tally has.
    pub fn read_cause(&self) -> Cause {
        Cause::ALL.into_iter().find(|&cause| self.tally.get(cause) > 0).unwrap_or(Cause::Host)
    }

    /// The answer.
    pub fn answer(self) -> Reply {
        Reply { ticket: self.ticket, data: self.data, result: Ok(()) }
    }

    /// The power is off.
    pub fn void(self) {
        self.ticket.close();
        if let Some(data) = self.data {
            data.void();
        }
    }
}
