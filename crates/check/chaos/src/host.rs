//! Host side of a life: sends requests, and checks the replies.
//!
//! Invariants
//! - A host buffer is in `free` exactly when no payload of it is outstanding.
//! - The layer's credits are queried before each request.

use hostftl_core::{
    Cause, HostError, HostOp, Input, Layer, Payload, Reply, Request, SECTOR, SECTORS_PER_BLOCK,
    Tally, Ticket,
};
use hostftl_layers::AnyLayer;

use crate::arena::GARBAGE;
use crate::content::{fill, identify};
use crate::errors::Errors;
use crate::events::{Named, Tallies};
use crate::model::{Moment, Span, Wrong};
use crate::reported_damage::ReportedDamage;
use crate::transient_faults::TransientFaults;
use crate::workload::{Kind, PlannedRequest};
use crate::world::World;

/// Number of steps without a reply to a pending request that counts as a stall.
const PATIENCE: u64 = 200_000;

/// Request without a reply.
#[derive(Clone, Copy, Debug)]
struct Pending {
    request: PlannedRequest,
    /// Range and version that it writes; version 0 for other requests.
    span: Span,
    begin: Moment,
    /// Whether the layer knew at its submission that a device has failed.
    after_death: bool,
}

/// Kinds of requests completed since the last completed flush, for the table of events.
#[derive(Clone, Copy, Debug, Default)]
struct Unflushed {
    trim: bool,
    zeroes: bool,
    fua: bool,
    flush: bool,
}

/// Excuses for an error reply to the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Excuses<'a> {
    /// Errors that the layer received.
    pub errors: &'a Errors,
    /// Transient faults among them.
    pub transient_faults: &'a TransientFaults,
    /// Damage that the layer reported.
    pub reported_damage: &'a ReportedDamage,
}

#[derive(Debug)]
pub(crate) struct Host {
    pending: Vec<Option<Pending>>,
    waiting: usize,
    free: Vec<u32>,
    failed_writes: Vec<Span>,
    served: u64,
    unflushed: Unflushed,
    /// Step of the last reply, or of the last time without pending requests.
    last_reply: u64,
}

impl Host {
    /// Creates a host with at most `depth` requests in flight and the buffers `free`.
    pub(crate) fn new(depth: usize, free: Vec<u32>) -> Self {
        Host {
            pending: (0..depth).map(|_| None).collect(),
            waiting: 0,
            free,
            failed_writes: Vec::new(),
            served: 0,
            unflushed: Unflushed::default(),
            last_reply: 0,
        }
    }

    /// Returns the number of pending requests.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns whether no request was sent in this life.
    pub(crate) fn is_unserved(&self) -> bool {
        self.served == 0
    }

    /// Checks after a step that no request has been pending for too long. With `idle` the layer
    /// cannot make progress.
    pub(crate) fn observe_stall(&mut self, steps: u64, idle: bool) -> Result<(), String> {
        if self.waiting == 0 || idle {
            self.last_reply = steps;
        } else if steps - self.last_reply > PATIENCE {
            return Err(format!("no request was answered for {PATIENCE} steps"));
        }
        Ok(())
    }

    /// Counts the events of a power cut or kill.
    pub(crate) fn note_cut(&self, tallies: &mut Tallies) {
        tallies.note_if(self.unflushed.trim, Named::TrimThenCut);
        tallies.note_if(self.unflushed.zeroes, Named::ZeroesThenCut);
        tallies.note_if(self.unflushed.fua, Named::FuaThenCut);
        tallies.note_if(self.unflushed.flush, Named::FlushThenCut);
    }

    /// Abandons every request at the end of a life.
    pub(crate) fn abandon_all(&mut self, w: &mut World) {
        let spans = self.pending.iter_mut().filter_map(Option::take).map(|pending| pending.span);
        for span in spans.chain(self.failed_writes.drain(..)) {
            if span.version > 0 {
                w.model.abandon(span);
            }
        }
    }

    /// Returns a host payload to the free buffers.
    pub(crate) fn regain(&mut self, payload: Payload) {
        self.free.push(payload.surrender());
    }

    /// Returns whether the host has a request and the layer accepts it.
    pub(crate) fn may_ask(&self, layer: &AnyLayer, w: &World) -> bool {
        let wants = self.served < w.swarm.life && !w.enough();
        (wants || w.workload.auditing())
            && self.waiting < self.pending.len()
            && !self.free.is_empty()
            && layer.credits().requests > 0
    }

    /// Creates the next request.
    pub(crate) fn ask(&mut self, layer: &AnyLayer, errors: &Errors, w: &mut World) -> Input {
        let most = layer.credits().sectors.min(w.plan.limits.max_transfer);
        let request = w.workload.next(&w.swarm, most, &mut w.dice);
        let PlannedRequest { kind, lba, sectors, fua } = request;
        let slot = self.pending.iter().position(Option::is_none).expect("a request may be sent");
        // A page that is still moving off a failed device is lost until the move completes.
        let after_death = errors.any_death()
            && !layer.members().lost().is_empty()
            && !is_lost(request, errors, layer, w);
        let span = Span { lba, sectors, version: 0 };
        let mut pending = Pending { request, span, begin: 0, after_death };
        let model = &mut w.model;
        match kind {
            Kind::Write => pending.span = model.begin_write(lba, sectors, false),
            Kind::Trim | Kind::Zeroes => pending.span = model.begin_write(lba, sectors, true),
            Kind::Read => pending.begin = model.begin_read(),
            Kind::Flush => pending.begin = model.begin_flush(),
            Kind::Beyond => {}
        }
        self.note_request(&pending, w);
        let op = match kind {
            Kind::Read | Kind::Beyond => HostOp::Read(self.payload(sectors, None, w)),
            Kind::Write => {
                HostOp::Write { data: self.payload(sectors, Some(pending.span), w), fua }
            }
            Kind::Flush => HostOp::Flush,
            Kind::Trim => HostOp::Trim { fua },
            Kind::Zeroes => HostOp::Zeroes { fua },
        };
        let tally = match kind {
            Kind::Write => Tally::single(Cause::Host, sectors as u32),
            _ => Tally::default(),
        };
        self.pending[slot] = Some(pending);
        self.waiting += 1;
        self.served += 1;
        w.sent.0 += 1;
        let ticket = Ticket::issue(slot as u64);
        Input::Host(Request { ticket, op, lba, sectors, tally, placement: 0 })
    }

    /// Returns a host buffer, filled with the data to write, or with bytes that no host wrote.
    fn payload(&mut self, sectors: u64, written: Option<Span>, w: &mut World) -> Payload {
        let id = self.free.pop().expect("a request may be sent");
        let bytes = w.machine.arena.slice_mut(id, 0, (sectors as usize * SECTOR) as u32);
        match written {
            None => bytes.fill(GARBAGE),
            Some(span) => {
                for (lba, sector) in (span.lba..).zip(bytes.chunks_exact_mut(SECTOR)) {
                    fill(sector, w.volume, lba, span.version);
                }
            }
        }
        Payload::issue(id, sectors as u32)
    }

    fn note_request(&self, pending: &Pending, w: &mut World) {
        let tallies = &mut w.tallies;
        let PlannedRequest { kind, sectors, fua, .. } = pending.request;
        match kind {
            Kind::Flush => return tallies.note(Named::Flush),
            Kind::Beyond => return tallies.note(Named::OutOfRange),
            Kind::Trim => tallies.note(Named::Trim),
            Kind::Zeroes => tallies.note(Named::Zeroes),
            Kind::Write | Kind::Read => {}
        }
        let write = kind != Kind::Read;
        let whole = kind == Kind::Trim && sectors == w.plan.limits.exported;
        tallies.note_if(whole, Named::TrimAll);
        tallies.note_if(write && fua, Named::Fua);
        if write {
            w.sent.1 += sectors;
        }
        let is_write = |other: &&Pending| !matches!(other.request.kind, Kind::Read | Kind::Beyond);
        let mut others = self.pending.iter().flatten().filter(is_write);
        if others.any(|other| other.span.overlaps(&pending.span)) {
            tallies.note(if write { Named::Overlap } else { Named::ReadDuringWrite });
        }
    }

    /// Checks a reply of a step.
    pub(crate) fn answered(
        &mut self,
        reply: Reply,
        steps: u64,
        excuses: Excuses,
        layer: &AnyLayer,
        w: &mut World,
    ) -> Result<(), String> {
        let Reply { ticket, data, result } = reply;
        let slot = ticket.close() as usize;
        let pending = self.pending[slot].take().expect("a ticket is answered once");
        self.waiting -= 1;
        self.last_reply = steps;
        let Pending { request, begin, .. } = pending;
        let is_write = matches!(request.kind, Kind::Write | Kind::Trim | Kind::Zeroes);
        let judged = match (request.kind, result) {
            (Kind::Trim | Kind::Zeroes | Kind::Flush, _) if data.is_some() => {
                Err(format!("{request:?} came back with a payload"))
            }
            (Kind::Beyond, Err(HostError::Range)) => Ok(()),
            (Kind::Beyond, _) => Err(format!("{request:?} was answered {result:?}")),
            (Kind::Read, Ok(())) => match &data {
                Some(payload) => judge(pending.span, begin, payload.id(), w),
                None => Err(format!("{request:?} came back without its payload")),
            },
            (_, Ok(())) if is_write => {
                w.model.end_write(pending.span, request.fua);
                self.unflushed.trim |= request.kind == Kind::Trim && !request.fua;
                self.unflushed.zeroes |= request.kind == Kind::Zeroes && !request.fua;
                self.unflushed.fua |= request.fua;
                Ok(())
            }
            (_, Ok(())) => {
                match w.places.host_range(request.lba) {
                    Some(sectors) => w.model.end_flush_in(sectors, begin),
                    None => w.model.end_flush(begin),
                }
                self.unflushed = Unflushed { flush: true, ..Default::default() };
                Ok(())
            }
            (_, Err(error)) => self.refused(&pending, error, excuses, layer, w),
        };
        if request.kind == Kind::Read {
            w.model.end_read(begin);
        }
        if let Some(payload) = data {
            self.regain(payload);
        }
        judged
    }

    /// Checks an error reply.
    fn refused(
        &mut self,
        &Pending { request, span, after_death, .. }: &Pending,
        error: HostError,
        excuses: Excuses,
        layer: &AnyLayer,
        w: &mut World,
    ) -> Result<(), String> {
        let Excuses { errors, transient_faults, reported_damage } = excuses;
        if request.kind == Kind::Read && after_death && !is_lost(request, errors, layer, w) {
            return Err(format!("{request:?} is an error, and no dead device alone has it"));
        }
        // A block with lost sectors cannot be written in part either.
        let block = u64::from(SECTORS_PER_BLOCK);
        let whole = request.lba.is_multiple_of(block) && request.sectors.is_multiple_of(block);
        let given_up = w.gave_up && (request.kind == Kind::Read || !whole);
        // Damage is found when the data is read, which may be long after the start.
        let excused = errors.excuses() > 0 || w.damaged || given_up;
        let unreported = || {
            reported_damage
                .unreported(request, error, layer, w)
                .filter(|_| request.kind == Kind::Read)
        };
        if w.is_out_of_room(request.kind, error, layer) {
            w.tallies.note(Named::OutOfRoom);
        } else if w.is_too_small(request.kind, error) {
            w.tallies.note(Named::TooSmall);
        } else if !excused || error == HostError::Range {
            return Err(format!("{request:?} was answered {error:?} and no device had failed"));
        } else if w.places.is_unharmed(request.lba) {
            return Err(format!(
                "{request:?} was answered {error:?} and another target had failed"
            ));
        } else if let Some(why) =
            unreported().or_else(|| transient_faults.wrong_error(request.kind, error, errors, w))
        {
            return Err(format!("{request:?} was answered {error:?} {why}"));
        }
        w.tallies.note(Named::HostError);
        if span.version > 0 {
            self.failed_writes.push(span);
        }
        Ok(())
    }
}

/// Returns whether data of a read may be only on a failed device. Layers that track lost ranges
/// must read everything else.
fn is_lost(request: PlannedRequest, errors: &Errors, layer: &AnyLayer, w: &World) -> bool {
    let tells = w.promises().knows_lost && errors.are_deaths_alone();
    let end = request.lba + request.sectors;
    let overlaps = |&(lba, sectors): &(u64, u64)| request.lba < lba + sectors && lba < end;
    !tells || w.damaged || layer.lost_ranges().iter().any(overlaps)
}

/// Compares the data of a read with the versions that it may return.
fn judge(span: Span, begin: Moment, buffer: u32, w: &mut World) -> Result<(), String> {
    let bytes = (span.sectors as usize * SECTOR) as u32;
    let data = w.machine.arena.slice(buffer, 0, bytes);
    for (lba, sector) in (span.lba..).zip(data.chunks_exact(SECTOR)) {
        let found = identify(sector, w.volume);
        if let Err(wrong) = w.model.judge(lba, found, begin) {
            return Err(format!("sector {lba}: {}", describe(wrong)));
        }
    }
    Ok(())
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
