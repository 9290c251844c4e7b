//! Operations: the sequence of commands for one part of a request.

use core::ops::Range;

use hostftl_core::{
    ArrayVec, Cause, Command, Factors, Gather, MAX_PIECES, Out, Payload, Piece, Tally, Target, View,
};

use super::{Part, Raid5, host};

/// The next step of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Reads data for the host.
    Read,
    /// Reads the blocks that the new parity needs.
    Old,
    /// Computes the new parity from the blocks read, or from all data of a stripe.
    Fold,
    /// Writes data and parity.
    Write,
    /// Flushes all devices.
    Flush,
    /// Ends the operation.
    Over,
}

/// An operation on one part of a request.
#[derive(Debug)]
pub(super) struct Op {
    /// The request that the part belongs to.
    pub request: u16,
    /// Number of commands in flight.
    pub pending: u32,
    part: Option<Part>,
    step: Step,
    /// The rows being written.
    pub rows: Option<Range<u64>>,
    /// Whether a whole stripe is written.
    whole: bool,
    /// Number of chunks folded into the parity of a whole stripe so far.
    folded: u32,
}

impl Step {
    /// Returns whether an operation that starts with this step writes.
    pub(super) fn writes(self) -> bool {
        matches!(self, Step::Fold | Step::Old)
    }
}

impl Op {
    pub(super) fn new(
        request: u16,
        part: Option<Part>,
        step: Step,
        rows: Option<Range<u64>>,
    ) -> Self {
        Op { request, pending: 0, part, step, rows, whole: step == Step::Fold, folded: 0 }
    }
}

impl Raid5 {
    /// Submits the commands of the next step, or ends the operation.
    pub(super) fn advance(&mut self, slot: u16, out: &mut Out) {
        let op = self.ops[slot as usize].as_mut().expect("an active operation");
        let (step, whole) = (op.step, op.whole);
        // A part is not written if any of its reads failed.
        let failed =
            self.requests[op.request as usize].as_ref().is_some_and(|it| it.result.is_err());
        op.step = match step {
            Step::Old => Step::Fold,
            Step::Fold if !failed => Step::Write,
            _ => Step::Over,
        };
        match (step, op.part) {
            (Step::Flush, _) => self.flush(slot, out),
            (Step::Read, Some(part)) => self.read(slot, part, out),
            (Step::Old, Some(part)) => self.read_needed(slot, part, out),
            (Step::Fold, Some(part)) if !failed => self.fold(slot, part, whole, out),
            (Step::Write, Some(part)) => self.write(slot, part, whole, out),
            _ => self.end(slot, out),
        }
    }

    fn flush(&mut self, slot: u16, out: &mut Out) {
        for device in 0..self.devices {
            self.submit(slot, device, Command::Flush { device }, out);
        }
    }

    fn data(&mut self, slot: u16) -> &mut Payload {
        let request =
            self.ops[slot as usize].as_ref().expect("the operation is in progress").request;
        let request = self.requests[request as usize].as_mut().expect("the request is unanswered");
        request.data.as_mut().expect("a transfer has a payload")
    }

    /// Returns the first sector of a part on its device.
    fn lba(&self, part: Part) -> u64 {
        part.stripe * u64::from(self.chunk) + u64::from(part.at % self.chunk)
    }

    fn read(&mut self, slot: u16, part: Part, out: &mut Out) {
        let into = Target::Data(self.data(slot).view_mut_sectors(part.from, part.sectors));
        let (device, lba) = (self.device(part.stripe, part.at / self.chunk), self.lba(part));
        self.submit(slot, 0, Command::Read { device, lba, into, cause: Cause::Host }, out);
    }

    /// Returns the one or two chunks that the new parity needs besides the new data: all other data
    /// if that is no more than old data and old parity, as in md.
    fn needed(&self, part: Part) -> ArrayVec<u32, 2> {
        let written = part.at / self.chunk;
        match self.width() {
            2 | 3 => (0..self.width()).filter(|chunk| *chunk != written).collect(),
            _ => [written, self.width()].into_iter().collect(),
        }
    }

    /// Reads the needed chunks. The last one goes into the second buffer, where the parity is
    /// computed.
    fn read_needed(&mut self, slot: u16, part: Part, out: &mut Out) {
        let needed = self.needed(part);
        for (index, chunk) in (2 - needed.len() as u8..).zip(needed) {
            let buffer = &mut self.buffers[2 * usize::from(slot) + usize::from(index)];
            let into = Target::Data(buffer.view_mut_sectors(0, part.sectors));
            let (device, lba) = (self.device(part.stripe, chunk), self.lba(part));
            let command = Command::Read { device, lba, into, cause: Cause::Rmw };
            self.submit(slot, index, command, out);
        }
    }

    /// Computes the parity into the second buffer.
    fn fold(&mut self, slot: u16, part: Part, whole: bool, out: &mut Out) {
        let [old, parity] = [2 * usize::from(slot), 2 * usize::from(slot) + 1];
        let mut from = ArrayVec::<View, MAX_PIECES>::new();
        if !whole {
            from.push(self.data(slot).view_sectors(part.from, part.sectors));
            if self.needed(part).len() == 2 {
                from.push(self.buffers[old].view_sectors(0, part.sectors));
            }
            let into = self.buffers[parity].view_mut_sectors(0, part.sectors);
            return self.submit(slot, 0, Command::Fold { from, into, factors: Factors::ADD }, out);
        }
        let (chunk, done) = (self.chunk, self.folded(slot));
        let end = (done + MAX_PIECES as u32).min(self.width());
        for index in done..end {
            from.push(self.data(slot).view_sectors(part.from + index * chunk, chunk));
        }
        let into = self.buffers[parity].view_mut_sectors(0, chunk);
        let op = self.ops[slot as usize].as_mut().expect("the operation is in progress");
        op.folded = end;
        if end < u32::from(self.devices) - 1 {
            op.step = Step::Fold;
        }
        let factors = Factors::plain(done > 0);
        self.submit(slot, 0, Command::Fold { from, into, factors }, out);
    }

    fn folded(&self, slot: u16) -> u32 {
        self.ops[slot as usize].as_ref().expect("the operation is in progress").folded
    }

    fn write(&mut self, slot: u16, part: Part, whole: bool, out: &mut Out) {
        let (first, chunks) = if whole { (0, self.width()) } else { (part.at / self.chunk, 1) };
        let (lba, sectors) = (self.lba(part), part.sectors / chunks);
        for index in 0..chunks {
            let view = self.data(slot).view_sectors(part.from + index * sectors, sectors);
            let gather = Gather::from_iter([Piece::Data(view)]);
            let (device, tally) = (self.device(part.stripe, first + index), host(sectors));
            let command = Command::Program { device, lba, gather, tally, placement: 0 };
            self.submit(slot, index as u8, command, out);
        }
        let view = self.buffers[2 * usize::from(slot) + 1].view_sectors(0, sectors);
        let gather = Gather::from_iter([Piece::Data(view)]);
        let device = self.device(part.stripe, self.width());
        let tally = Tally::single(Cause::Parity, sectors);
        let command = Command::Program { device, lba, gather, tally, placement: 0 };
        self.submit(slot, chunks as u8, command, out);
    }

    /// Takes back views borrowed from the request or from the operation's buffers.
    pub(super) fn repay(&mut self, slot: u16, request: u16, command: Command) {
        let (first, mut owned) = (2 * usize::from(slot), ArrayVec::<View, MAX_PIECES>::new());
        let mut filled = None;
        match command {
            Command::Read { into: Target::Data(view), .. } => filled = Some(view),
            Command::Program { gather, .. } => {
                for piece in gather {
                    if let Piece::Data(view) = piece {
                        owned.push(view);
                    }
                }
            }
            Command::Fold { from, into, .. } => (owned, filled) = (from, Some(into)),
            Command::Flush { .. } => {}
            other => unreachable!("raid5 never sent {other:?}"),
        }
        let request = self.requests[request as usize].as_mut().expect("the request is unanswered");
        let own = &mut self.buffers[first..first + 2];
        for view in owned {
            match own.iter_mut().find(|buffer| buffer.id() == view.id()) {
                Some(buffer) => buffer.repay(view),
                None => request.data.as_mut().expect("the operation has a payload").repay(view),
            }
        }
        if let Some(view) = filled {
            match own.iter_mut().find(|buffer| buffer.id() == view.id()) {
                Some(buffer) => buffer.repay_mut(view),
                None => request.data.as_mut().expect("the operation has a payload").repay_mut(view),
            }
        }
    }
}
