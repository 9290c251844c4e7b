//! A request in flight in `passthrough`, as a short list of commands.

use core::mem;

use hostftl_core::{
    Cause, Command, Event, Gather, HostError, HostOp, MetaBuf, Nanos, Out, Output, Payload, Piece,
    Reply, Request, Tally, Target, Ticket, Token,
};

use crate::planted::{Bug, planted};

/// The next command of a slot.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Read,
    Write { fua: bool },
    Reset { fua: bool },
    Zero { fua: bool },
    Flush,
    Over,
}

/// A flush of the layer itself, which ends with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    /// The flush before requests are accepted, so that all data read is durable.
    First,
    /// The flush before the layer stops.
    Last,
}

/// A request. Without a ticket it is the layer's own flush, or was abandoned.
#[derive(Debug)]
pub(super) struct Slot {
    ticket: Option<Ticket>,
    data: Option<Payload>,
    stage: Stage,
    lba: u64,
    left: u64,
    tally: Tally,
    placement: u8,
    own: Option<Own>,
    pub deadline: Nanos,
}

impl Slot {
    #[inline]
    pub(super) fn new(request: Request, deadline: Nanos) -> Self {
        let Request { ticket, op, lba, sectors, tally, placement } = request;
        let (stage, data) = match op {
            HostOp::Read(data) => (Stage::Read, Some(data)),
            HostOp::Write { data, fua } => (Stage::Write { fua }, Some(data)),
            HostOp::Flush => (Stage::Flush, None),
            HostOp::Trim { fua } => (Stage::Reset { fua }, None),
            HostOp::Zeroes { fua } => (Stage::Zero { fua }, None),
        };
        let (ticket, left, own) = (Some(ticket), sectors, None);
        Slot { ticket, data, stage, lba, left, tally, placement, own, deadline }
    }

    /// Creates the flush with which the layer starts or stops.
    pub(super) fn own_flush(own: Own, deadline: Nanos) -> Self {
        Slot {
            ticket: None,
            data: None,
            stage: Stage::Flush,
            lba: 0,
            left: 0,
            tally: Tally::default(),
            placement: 0,
            own: Some(own),
            deadline,
        }
    }

    /// Submits the next command as `token`. Returns `false` if the request is complete. `most` is
    /// the maximum length of a transfer in sectors.
    #[inline]
    pub(super) fn send(&mut self, token: Token, most: u32, out: &mut Out) -> bool {
        let lba = self.lba;
        let after = |fua: bool| {
            if fua && !planted(Bug::FuaWithoutFlush) { Stage::Flush } else { Stage::Over }
        };
        match self.stage {
            Stage::Over => return false,
            Stage::Flush => {
                self.stage = Stage::Over;
                if planted(Bug::FlushForgotten) {
                    return false;
                }
                out.push_with(|| Output::Submit(token, Command::Flush { device: 0 }));
            }
            Stage::Read => {
                self.stage = Stage::Over;
                let data = self.data.as_mut().expect("a read has a payload");
                let (cause, sectors) = (Cause::Host, self.left as u32);
                out.push_with(|| {
                    let into = Target::Data(data.view_mut_sectors(0, sectors));
                    Output::Submit(token, Command::Read { device: 0, lba, into, cause })
                });
            }
            Stage::Write { fua } => {
                self.stage = after(fua);
                let data = self.data.as_mut().expect("a write has a payload");
                let sectors = self.left as u32;
                let piece = || Piece::Data(data.view_sectors(0, sectors));
                program(token, (lba, self.placement), piece, &self.tally, out);
            }
            Stage::Reset { fua } => {
                self.stage = after(fua);
                let sectors = self.left;
                out.push_with(|| Output::Submit(token, Command::Reset { device: 0, lba, sectors }));
            }
            Stage::Zero { fua } => {
                let sectors = self.left.min(most.into()) as u32;
                self.lba += u64::from(sectors);
                self.left -= u64::from(sectors);
                if self.left == 0 {
                    self.stage = after(fua);
                }
                let tally = Tally::single(Cause::Host, sectors);
                let at = (lba, self.placement);
                program(token, at, || Piece::zero_sectors(sectors), &tally, out);
            }
        }
        true
    }

    /// Takes back the view that a command borrowed.
    #[inline]
    pub(super) fn repay(&mut self, command: &mut Command) {
        match command {
            Command::Program { gather, .. } => {
                for piece in gather.drain(..) {
                    if let Piece::Data(view) = piece {
                        self.data.as_mut().expect("a write has a payload").repay(view);
                    }
                }
            }
            Command::Read { into, .. } => {
                let nothing = Target::Meta { buf: MetaBuf::default(), pages: 0 };
                if let Target::Data(view) = mem::replace(into, nothing) {
                    self.data.as_mut().expect("a read has a payload").repay_mut(view);
                }
            }
            Command::Reset { .. } | Command::Flush { .. } => {}
            other => unreachable!("passthrough never sent {other:?}"),
        }
    }

    /// Answers the request, or ends the layer's own flush.
    #[inline]
    pub(super) fn answer(&mut self, result: Result<(), HostError>, out: &mut Out) {
        let Slot { ticket, data, .. } = self;
        match ticket {
            Some(_) => out.push_with(|| {
                let ticket = ticket.take().expect("the entry exists");
                Output::Reply(Reply { ticket, data: data.take(), result })
            }),
            None => out.push(Output::Event(self.end(result.is_ok()))),
        }
    }

    /// Answers with an error while the device still uses the payload.
    pub(super) fn abandon(&mut self, out: &mut Out) {
        self.stage = Stage::Over;
        let end = self.end(false);
        self.own = None;
        out.push(match self.ticket.take() {
            Some(ticket) => Output::Reply(Reply { ticket, data: None, result: Err(HostError::Io) }),
            None => Output::Event(end),
        });
    }

    /// Returns the event that ends a flush of the layer itself.
    fn end(&self, ok: bool) -> Event {
        match self.own {
            Some(Own::First) if ok => Event::Ready { replayed: 0, dropped: 0 },
            Some(Own::First) => Event::Unrecoverable("the device can't be flushed"),
            _ => Event::Stopped,
        }
    }

    /// Returns whether only the payload is left.
    #[inline]
    pub(super) fn is_abandoned(&self) -> bool {
        self.ticket.is_none() && self.own.is_none()
    }

    /// Returns the payload of an abandoned slot.
    pub(super) fn reclaim(self, out: &mut Out) {
        if let Some(data) = self.data {
            out.push(Output::Reclaim(data));
        }
    }

    /// Discards the slot after a power cut.
    pub(super) fn void(self) {
        if let Some(ticket) = self.ticket {
            ticket.close();
        }
        if let Some(data) = self.data {
            data.void();
        }
    }
}

/// Submits a program of one piece to a sector, with a placement id.
#[inline]
fn program(
    token: Token,
    (lba, placement): (u64, u8),
    piece: impl FnOnce() -> Piece,
    tally: &Tally,
    out: &mut Out,
) {
    out.push_with(|| {
        let (gather, tally) = (Gather::from_iter([piece()]), *tally);
        Output::Submit(token, Command::Program { device: 0, lba, gather, tally, placement })
    });
}
