//! The host's side of a life: sends requests, and judges the replies.

use hostftl_core::{
    Cause, HostError, HostOp, Input, Layer, Payload, Reply, Request, SECTOR, SECTORS_PER_BLOCK,
    Tally, Ticket,
};

use crate::arena::GARBAGE;
use crate::content::{fill, identify};
use crate::events::Named;
use crate::life::{Life, Phase};
use crate::model::{Moment, Span, Wrong};
use crate::workload::{Kind, Wish};

/// A request that waits for its reply.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    wish: Wish,
    span: Span,
    begin: Moment,
    /// Whether the layer knew that a device is dead when it was sent.
    after_death: bool,
}

impl Pending {
    /// What it writes; version 0 when nothing.
    pub fn span(&self) -> Span {
        self.span
    }
}

impl Life<'_> {
    /// Whether the host has something to ask and the layer will take it.
    pub(crate) fn may_ask(&self) -> bool {
        let wants = self.served < self.w.swarm.life && !self.w.enough();
        self.phase == Phase::Ready
            && (wants || self.w.workload.auditing())
            && self.waiting < self.pending.len()
            && !self.free.is_empty()
            && self.layer.credits().requests > 0
    }

    /// The next request.
    pub(crate) fn ask(&mut self) -> Input {
        let most = self.layer.credits().sectors.min(self.w.plan.limits.max_transfer);
        let wish = self.w.workload.next(&self.w.swarm, most, &mut self.w.dice);
        let Wish { kind, lba, sectors, fua } = wish;
        let slot = self.pending.iter().position(Option::is_none).expect("a request may be sent");
        // A page that is on its way home from a dead device is lost until it is there.
        let after_death = self.deaths > 0 && self.layer.lost_devices() != 0 && !self.is_lost(wish);
        let span = Span { lba, sectors, version: 0 };
        let mut pending = Pending { wish, span, begin: 0, after_death };
        let model = &mut self.w.model;
        match kind {
            Kind::Write => pending.span = model.begin_write(lba, sectors, false),
            Kind::Trim | Kind::Zeroes => pending.span = model.begin_write(lba, sectors, true),
            Kind::Read => pending.begin = model.begin_read(),
            Kind::Flush => pending.begin = model.begin_flush(),
            Kind::Beyond => {}
        }
        self.note_request(&pending);
        let op = match kind {
            Kind::Read | Kind::Beyond => HostOp::Read(self.payload(sectors, None)),
            Kind::Write => HostOp::Write { data: self.payload(sectors, Some(pending.span)), fua },
            Kind::Flush => HostOp::Flush,
            Kind::Trim => HostOp::Trim { fua },
            Kind::Zeroes => HostOp::Zeroes { fua },
        };
        let tally = match kind {
            Kind::Write => Tally::of(Cause::Host, sectors as u32),
            _ => Tally::default(),
        };
        self.pending[slot] = Some(pending);
        self.waiting += 1;
        self.served += 1;
        self.w.sent.0 += 1;
        let ticket = Ticket::issue(slot as u64);
        Input::Host(Request { ticket, op, lba, sectors, tally })
    }

    /// A host buffer: filled with what is written, or with bytes that nobody wrote.
    fn payload(&mut self, sectors: u64, written: Option<Span>) -> Payload {
        let id = self.free.pop().expect("a request may be sent");
        let bytes = self.w.machine.arena.slice_mut(id, 0, (sectors as usize * SECTOR) as u32);
        match written {
            None => bytes.fill(GARBAGE),
            Some(span) => {
                for (lba, sector) in (span.lba..).zip(bytes.chunks_exact_mut(SECTOR)) {
                    fill(sector, self.w.volume, lba, span.version);
                }
            }
        }
        Payload::issue(id, sectors as u32)
    }

    fn note_request(&mut self, pending: &Pending) {
        let tallies = &mut self.w.tallies;
        let Wish { kind, sectors, fua, .. } = pending.wish;
        match kind {
            Kind::Flush => return tallies.note(Named::Flush),
            Kind::Beyond => return tallies.note(Named::OutOfRange),
            Kind::Trim => tallies.note(Named::Trim),
            Kind::Zeroes => tallies.note(Named::Zeroes),
            Kind::Write | Kind::Read => {}
        }
        let write = kind != Kind::Read;
        let whole = kind == Kind::Trim && sectors == self.w.plan.limits.exported;
        tallies.note_if(whole, Named::TrimAll);
        tallies.note_if(write && fua, Named::Fua);
        if write {
            self.w.sent.1 += sectors;
        }
        let is_write = |other: &&Pending| !matches!(other.wish.kind, Kind::Read | Kind::Beyond);
        let mut others = self.pending.iter().flatten().filter(is_write);
        if others.any(|other| other.span.overlaps(&pending.span)) {
            tallies.note(if write { Named::Overlap } else { Named::ReadDuringWrite });
        }
    }

    /// Judges a reply.
    pub(crate) fn answered(&mut self, reply: Reply) {
        let Reply { ticket, data, result } = reply;
        let slot = ticket.close() as usize;
        let pending = self.pending[slot].take().expect("a ticket is answered once");
        self.waiting -= 1;
        self.last_reply = self.steps;
        let Pending { wish, span, begin, after_death } = pending;
        let wants_payload = matches!(wish.kind, Kind::Read | Kind::Write | Kind::Beyond);
        if data.is_some() && !wants_payload {
            self.fail(format!("{wish:?} came back with a payload"));
        }
        match (wish.kind, result) {
            (Kind::Beyond, Err(HostError::Range)) => {}
            (Kind::Beyond, _) => self.fail(format!("{wish:?} was answered {result:?}")),
            (Kind::Read, Ok(())) => match &data {
                Some(payload) => self.judge(span, begin, payload.id()),
                None => self.fail(format!("{wish:?} came back without its payload")),
            },
            (Kind::Write | Kind::Trim | Kind::Zeroes, Ok(())) => {
                self.w.model.end_write(span, wish.fua);
                self.unflushed.trim |= wish.kind == Kind::Trim && !wish.fua;
                self.unflushed.zeroes |= wish.kind == Kind::Zeroes && !wish.fua;
                self.unflushed.fua |= wish.fua;
            }
            (Kind::Flush, Ok(())) => {
                self.w.model.end_flush(begin);
                self.unflushed = crate::life::Unflushed { flush: true, ..Default::default() };
            }
            (Kind::Read, Err(_)) if after_death && !self.is_lost(wish) => {
                self.fail(format!("{wish:?} is an error, and no dead device alone has it"));
            }
            (_, Err(error)) => self.refused(wish, span, error),
        }
        if wish.kind == Kind::Read {
            self.w.model.end_read(begin);
        }
        if let Some(payload) = data {
            self.regain(payload);
        }
    }

    /// Whether what a read asks for may be on a dead device alone. Some layers know what is, and
    /// read all else.
    fn is_lost(&self, wish: Wish) -> bool {
        let tells = self.w.promises().knows_lost && self.excuses == self.deaths;
        let end = wish.lba + wish.sectors;
        let overlaps = |&(lba, sectors): &(u64, u64)| wish.lba < lba + sectors && lba < end;
        !tells || self.w.damaged || self.layer.lost_ranges().iter().any(overlaps)
    }

    fn refused(&mut self, wish: Wish, span: Span, error: HostError) {
        // Of what was given up, a part of a block can't be written either.
        let block = u64::from(SECTORS_PER_BLOCK);
        let whole = wish.lba.is_multiple_of(block) && wish.sectors.is_multiple_of(block);
        let given_up = self.w.gave_up && (wish.kind == Kind::Read || !whole);
        // What was damaged is found when it is needed, which may be long after the start.
        let excused = self.excuses > 0 || self.w.damaged || given_up;
        if !excused || error == HostError::Range {
            self.fail(format!("{wish:?} was answered {error:?} and no device had failed"));
        } else if let Some(why) = self.untold(wish, error).filter(|_| wish.kind == Kind::Read) {
            self.fail(format!("{wish:?} was answered {error:?} {why}"));
        } else if let Some(why) = self.wrong_error(wish.kind, error) {
            self.fail(format!("{wish:?} was answered {error:?} {why}"));
        }
        self.w.tallies.note(Named::HostError);
        if span.version > 0 {
            self.failed_writes.push(span);
        }
    }

    /// Compares what a read found with what it may find.
    fn judge(&mut self, span: Span, begin: Moment, buffer: u32) {
        let bytes = (span.sectors as usize * SECTOR) as u32;
        let data = self.w.machine.arena.slice(buffer, 0, bytes);
        for (lba, sector) in (span.lba..).zip(data.chunks_exact(SECTOR)) {
            let found = identify(sector, self.w.volume);
            if let Err(wrong) = self.w.model.judge(lba, found, begin) {
                return self.fail(format!("sector {lba}: {}", describe(wrong)));
            }
        }
    }
}

fn describe(wrong: Wrong) -> String {
    match wrong {
        Wrong::Garbage => "expected a version or zeros, found bytes that no host wrote".into(),
        Wrong::Misplaced(other) => format!("expected its own content, found sector {other}'s"),
        Wrong::Unknown(version) => {
            format!("expected a version that may still be there, found version {version}")
        }
        Wrong::Old { found, newer, durable } => {
            let why = if durable { "durable before the cut" } else { "completed before the read" };
            format!("expected version {newer} ({why}) or newer, found version {found}")
        }
    }
}
