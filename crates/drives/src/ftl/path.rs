//! The way of one operation: lock, read what is needed, program, answer.

use hostftl_core::{Cause, Command, Done, Gather, Out, Output, Piece, Tally, Target, Token};

use super::map::Place;
use super::op::OpKind;
use super::{ERASE, SuperpageFtl};

impl SuperpageFtl {
    /// Reads go ahead; the others need the superpage's lock.
    pub(super) fn begin(&mut self, index: u16, place: Place, out: &mut Out) {
        let logical = self.ops.get(index).part.logical;
        match (self.ops.get(index).kind, place) {
            (OpKind::Read, Place::Locked(holder)) => match self.ops.get(holder).old {
                Some(phys) => self.read(index, phys, out),
                None => self.end(index, out),
            },
            (OpKind::Read, Place::At(phys)) => self.read(index, phys, out),
            (_, Place::Locked(holder)) => self.ops.wait(index, holder),
            (_, place) => {
                self.map.lock(logical, index);
                self.ops.get(index).old = match place {
                    Place::At(phys) => Some(phys),
                    _ => None,
                };
                self.run(index, out);
            }
        }
    }

    fn read(&mut self, index: u16, phys: u32, out: &mut Out) {
        self.map.pin(phys);
        let op = self.ops.get(index);
        op.old = Some(phys);
        let (job, part) = (op.job, op.part);
        let lba = u64::from(phys) * u64::from(self.unit) + u64::from(part.offset);
        let job = self.job(job);
        let cause = job.read_cause();
        let data = job.data.as_mut().expect("a read has a payload");
        let into = Target::Data(data.view_mut_sectors(part.at, part.sectors));
        let command = Command::Read { device: 0, lba, into, cause };
        out.push(Output::Submit(Token(index.into()), command));
    }

    /// Goes on with an operation that has its lock.
    pub(super) fn run(&mut self, index: u16, out: &mut Out) {
        let unit = self.unit;
        let op = self.ops.get(index);
        match (op.kind, op.old) {
            (OpKind::Trim, old) => {
                if let Some(phys) = old {
                    self.map.kill(phys);
                }
                self.release(index, None);
                self.end(index, out);
            }
            (OpKind::Write, Some(phys)) if op.part.sectors < unit => {
                let into = Target::Data(op.buffer.view_mut_sectors(0, unit));
                let lba = u64::from(phys) * u64::from(unit);
                let command = Command::Read { device: 0, lba, into, cause: Cause::Rmw };
                out.push(Output::Submit(Token(index.into()), command));
            }
            (OpKind::Write, _) => {
                let (gather, tally) = self.merge(index);
                self.program(index, gather, tally, out);
            }
            (OpKind::Read | OpKind::Copy, _) => unreachable!("reads and copies never wait"),
        }
    }

    /// What a write programs: its own sectors between those that were there, or zeros.
    fn merge(&mut self, index: u16) -> (Gather, Tally) {
        let unit = self.unit;
        let op = self.ops.get(index);
        let part = op.part;
        let has_old = op.old.is_some();
        let mut rest = |from: u32, sectors: u32| match has_old {
            true => Piece::Data(op.buffer.view_sectors(from, sectors)),
            false => Piece::zero_sectors(sectors),
        };
        let behind = part.offset + part.sectors;
        let head = (part.offset > 0).then(|| rest(0, part.offset));
        let tail = (behind < unit).then(|| rest(behind, unit - behind));
        let job = op.job;
        let job = self.job(job);
        let mut tally = job.take_tally(part.sectors);
        tally.add(Cause::Rmw, unit - part.sectors);
        let own = match &mut job.data {
            Some(data) => Piece::Data(data.view_sectors(part.at, part.sectors)),
            None => Piece::zero_sectors(part.sectors),
        };
        (head.into_iter().chain([own]).chain(tail).collect(), tally)
    }

    fn program(&mut self, index: u16, gather: Gather, tally: Tally, out: &mut Out) {
        let phys = self.map.allocate();
        let op = self.ops.get(index);
        op.new = phys;
        if op.kind == OpKind::Write {
            self.reserved -= 1;
        }
        let lba = u64::from(phys) * u64::from(self.unit);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        out.push(Output::Submit(Token(index.into()), command));
    }

    pub(super) fn done(&mut self, done: Done, out: &mut Out) {
        done.result.expect("modelled flash does not fail");
        if done.token == ERASE {
            return self.erased();
        }
        let index = done.token.0 as u16;
        match done.command {
            Command::Read { into: Target::Data(view), .. } => {
                let kind = self.ops.get(index).kind;
                if kind == OpKind::Read {
                    let op = self.ops.get(index);
                    let (job, phys) = (op.job, op.old.expect("it was read from somewhere"));
                    self.map.unpin(phys);
                    self.job(job).data.as_mut().expect("a read has a payload").repay_mut(view);
                    return self.end(index, out);
                }
                let op = self.ops.get(index);
                op.buffer.repay_mut(view);
                let (gather, tally) = if kind == OpKind::Copy {
                    let whole = Piece::Data(op.buffer.view_sectors(0, self.unit));
                    (Gather::from_iter([whole]), Tally::of(Cause::DriveGc, self.unit))
                } else {
                    self.merge(index)
                };
                self.program(index, gather, tally, out);
            }
            Command::Program { gather, .. } => self.programmed(index, gather, out),
            other => unreachable!("the drive never sent {other:?}"),
        }
    }

    fn programmed(&mut self, index: u16, gather: Gather, out: &mut Out) {
        let op = self.ops.get(index);
        let (kind, job, logical, new, old) = (op.kind, op.job, op.part.logical, op.new, op.old);
        for piece in gather {
            let Piece::Data(view) = piece else { continue };
            let op = self.ops.get(index);
            if view.id() == op.buffer.id() {
                op.buffer.repay(view);
            } else {
                self.job(job).data.as_mut().expect("it lent a view").repay(view);
            }
        }
        self.map.programmed(logical, new, old);
        self.release(index, Some(new));
        if kind == OpKind::Copy {
            self.copied();
            return self.ops.give(index);
        }
        self.end(index, out);
    }

    /// Gives the lock on, with the superpage now at `place`.
    fn release(&mut self, index: u16, place: Option<u32>) {
        let logical = self.ops.get(index).part.logical;
        self.map.unlock(logical, place);
        if let Some(heir) = self.ops.wake(index) {
            self.map.lock(logical, heir);
            self.ops.get(heir).old = place;
            self.woken.push_back(heir);
        }
    }

    /// An operation for a request is over.
    fn end(&mut self, index: u16, out: &mut Out) {
        let job = self.ops.get(index).job;
        self.ops.give(index);
        self.leave(job, out);
    }

    /// One thing less is pending for a request; the last one answers it.
    pub(super) fn leave(&mut self, index: u16, out: &mut Out) {
        let job = self.job(index);
        job.pending -= 1;
        if job.pending == 0 {
            let job = self.jobs[index as usize].take().expect("it was there just now");
            self.free_jobs.push(index);
            out.push(Output::Reply(job.answer()));
        }
    }
}
