//! Executes a command as a whole at the time when the driver lets it complete.

use hostftl_compute::{Job, Tools};
use hostftl_core::{
    About, ArrayVec, BLOCK, Cause, Command, DeviceError, Gather, MAX_PIECES, MetaBuf, Piece,
    SECTOR, Tally, Target, Verdict, View, ViewMut,
};
use hostftl_format::report;

use crate::arena::Arena;
use crate::dice::Dice;
use crate::disk::{Disk, Kind, Refusal};

/// Result of a command, as a layer receives it.
pub(crate) type Outcome = Result<Verdict, DeviceError>;

/// Actual destination of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detour {
    /// The intended address.
    None,
    /// None: the device reports success and discards the data.
    Lost,
    /// Another sector.
    To(u64),
}

/// Payload memory and devices, with scratch memory.
#[derive(Debug, Default)]
pub struct Machine {
    /// Payload buffers.
    pub arena: Arena,
    /// Devices of the stack, in order.
    pub disks: Vec<Disk>,
    /// Indirection unit in sectors of the devices' collection hints; 0 when there are none.
    pub hint: u32,
    /// Reason why a segment refused the last command, if it did.
    pub refusal: Option<Refusal>,
    staging: Vec<u8>,
    tools: Tools,
}

impl Machine {
    /// Executes `command`. `stamp` is the value of [`Disk::begin_flush`] at the submission of a
    /// flush, or of [`Disk::epoch`] at the submission of a program.
    pub fn run(
        &mut self,
        command: &mut Command,
        stamp: u32,
        detour: Detour,
        dice: &mut Dice,
    ) -> Outcome {
        self.refusal = None;
        match command {
            Command::Read { device, lba, into, .. } => {
                return self.read(*device as usize, *lba, into);
            }
            Command::Program { device, lba, gather, tally, .. } => {
                self.gather(gather);
                let disk = &mut self.disks[*device as usize];
                if disk.segment_at(*lba).is_some() {
                    if detour == Detour::Lost {
                        self.staging.fill(0);
                    }
                    let kinds = Kinds::new(gather, tally, stamp);
                    let done = disk.append(*lba, &self.staging, |sector| kinds.get(sector));
                    return self.ended(done);
                }
                let at = match detour {
                    Detour::None => *lba,
                    Detour::Lost => return Ok(Verdict::default()),
                    Detour::To(other) => other,
                };
                let kinds = Kinds::new(gather, tally, stamp);
                disk.write(at, &self.staging, |sector| kinds.get(sector), dice);
            }
            Command::Reset { device, lba, sectors } => {
                let disk = &mut self.disks[*device as usize];
                if disk.segment_at(*lba).is_some() {
                    let done = disk.wipe(*lba, *sectors, dice);
                    return self.ended(done);
                }
                disk.trim(*lba, *sectors, dice);
            }
            Command::Mark { device, lba, bad } => {
                let done = self.disks[*device as usize].mark_segment(*lba, *bad);
                return self.ended(done);
            }
            Command::Flush { device } => self.disks[*device as usize].flush(stamp),
            Command::Report { about: About::Collectible, into, .. } if self.hint > 0 => {
                return Ok(hint(self.disks[0].sectors(), self.hint, into, dice));
            }
            Command::Report { device, about, into } => {
                return self.disks[*device as usize].report(*about, into);
            }
            Command::Peek { from, into, pages } => return self.peek(from, into, *pages),
            _ => return self.compute(command),
        }
        Ok(Verdict::default())
    }

    /// Returns the outcome of a command to a segment.
    fn ended(&mut self, done: Result<(), Refusal>) -> Outcome {
        self.refusal = done.err();
        done.map(|()| Verdict::default()).map_err(DeviceError::from)
    }

    /// Copies payload to metadata pages.
    fn peek(&mut self, from: &View, into: &mut MetaBuf, pages: u32) -> Outcome {
        let bytes = self.arena.slice(from.id(), from.from(), from.bytes());
        let pages = &mut into.pages_mut()[..pages as usize];
        assert_eq!(bytes.len(), size_of_val(pages), "source and destination have the same length");
        for (page, bytes) in pages.iter_mut().zip(bytes.chunks_exact(BLOCK)) {
            Job::Copy.run(&ArrayVec::from_iter([bytes]), &mut page.0, &mut self.tools)?;
        }
        Ok(Verdict::default())
    }

    /// Executes a command that uses no device.
    fn compute(&mut self, command: &Command) -> Outcome {
        let job = Job::new(command).expect("it goes to no device");
        let range = |view: &View| (view.id(), view.from(), view.bytes());
        let target = |view: &ViewMut| (view.id(), view.from(), view.bytes());
        let (from, into): (ArrayVec<_, MAX_PIECES>, _) = match command {
            Command::Place { from: Piece::Data(from), into }
            | Command::Pack { from, into, .. }
            | Command::Unpack { from, into, .. }
            | Command::Move { from, into, .. } => {
                (ArrayVec::from_iter([range(from)]), target(into))
            }
            Command::Place { from: Piece::Zeros(_), into } => (ArrayVec::new(), target(into)),
            Command::Place { from: Piece::Meta { buf, pages }, into } => {
                self.staging.clear();
                let pages = &buf.pages()[..*pages as usize];
                pages.iter().for_each(|page| self.staging.extend_from_slice(&page.0));
                let into = self.arena.slice_mut(into.id(), into.from(), into.bytes());
                return job.run(&ArrayVec::from_iter([&self.staging[..]]), into, &mut self.tools);
            }
            Command::Digest { from, .. } => {
                let bytes = self.arena.slice(from.id(), from.from(), from.bytes());
                return job.run(&ArrayVec::from_iter([bytes]), &mut [], &mut self.tools);
            }
            Command::Fold { from, into, .. } => (from.iter().map(range).collect(), target(into)),
            other => unreachable!("{other:?} goes to a device"),
        };
        let (from, into) = self.arena.apart(&from, into);
        job.run(&from, into, &mut self.tools)
    }

    fn read(&mut self, device: usize, lba: u64, into: &mut Target) -> Outcome {
        let readable = self.disks[device].may_read(lba, into.sectors().into());
        if readable.is_err() {
            return self.ended(readable);
        }
        let bytes = self.disks[device].read(lba, into.sectors()).ok_or(DeviceError::Media)?;
        match into {
            Target::Data(view) => {
                self.arena.slice_mut(view.id(), view.from(), view.bytes()).copy_from_slice(bytes);
            }
            Target::Meta { buf, .. } => {
                for (page, bytes) in buf.pages_mut().iter_mut().zip(bytes.chunks_exact(BLOCK)) {
                    page.0.copy_from_slice(bytes);
                }
            }
        }
        Ok(Verdict::default())
    }

    /// Copies the bytes of a gather list to `staging`, in order.
    fn gather(&mut self, gather: &Gather) {
        self.staging.clear();
        for piece in gather.iter() {
            match piece {
                Piece::Data(view) => {
                    let bytes = self.arena.slice(view.id(), view.from(), view.bytes());
                    self.staging.extend_from_slice(bytes);
                }
                Piece::Meta { buf, pages } => {
                    for page in &buf.pages()[..*pages as usize] {
                        self.staging.extend_from_slice(&page.0);
                    }
                }
                Piece::Zeros(bytes) => {
                    self.staging.resize(self.staging.len() + *bytes as usize, 0);
                }
            }
        }
        assert_eq!(self.staging.len() % SECTOR, 0, "a program writes whole sectors");
    }

    /// Executes part of a failing command to a device without segments: each sector is either
    /// written into the cache or not.
    pub fn run_in_part(&mut self, command: &Command, stamp: u32, dice: &mut Dice) {
        match command {
            Command::Program { device, lba, gather, tally, .. } => {
                self.gather(gather);
                let kinds = Kinds::new(gather, tally, stamp);
                let disk = &mut self.disks[*device as usize];
                for (index, bytes) in (0..).zip(self.staging.chunks_exact(SECTOR)) {
                    if dice.chance(500) {
                        let at = *lba + u64::from(index);
                        disk.write(at, bytes, |_| kinds.get(index), dice);
                    }
                }
            }
            Command::Reset { device, lba, sectors } => {
                let disk = &mut self.disks[*device as usize];
                for at in *lba..lba + sectors {
                    if dice.chance(500) {
                        disk.trim(at, 1, dice);
                    }
                }
            }
            other => unreachable!("{other:?} writes nothing"),
        }
    }

    /// Executes part of a command in flight at a power cut: each of its sectors is written with a
    /// probability of `permille` in 1000; within a segment only a prefix. Returns the numbers of
    /// sectors that were and were not written.
    pub fn tear(
        &mut self,
        command: &Command,
        stamp: u32,
        permille: u32,
        dice: &mut Dice,
    ) -> (u32, u32) {
        let mut count = (0, 0);
        let mut each = |disk: &mut Disk, sector: u64, bytes: &[u8], kind: Kind| {
            if dice.chance(permille) {
                disk.survive_in_flight(sector, bytes, kind);
                count.0 += 1;
            } else {
                count.1 += 1;
            }
        };
        match command {
            Command::Program { device, lba, gather, tally, .. } => {
                self.gather(gather);
                let kinds = Kinds::new(gather, tally, stamp);
                let disk = &mut self.disks[*device as usize];
                if disk.segment_at(*lba).is_some() {
                    let keep = || dice.chance(permille);
                    return disk.tear_append(*lba, &self.staging, |at| kinds.get(at), keep);
                }
                for (index, bytes) in self.staging.chunks_exact(SECTOR).enumerate() {
                    each(disk, lba + index as u64, bytes, kinds.get(index as u32));
                }
            }
            Command::Reset { device, lba, sectors } => {
                let disk = &mut self.disks[*device as usize];
                if disk.segment_at(*lba).is_some() {
                    if dice.chance(permille) {
                        disk.tear_wipe(*lba, *sectors, dice);
                    }
                    return (0, 0);
                }
                (*lba..lba + sectors).for_each(|at| each(disk, at, &[0; SECTOR], Kind::Data));
            }
            _ => {}
        }
        count
    }
}

/// Purpose of each sector of a program.
#[derive(Clone, Copy, Debug)]
struct Kinds {
    meta: [(u32, u32); MAX_PIECES],
    kind: Kind,
}

impl Kinds {
    /// Finds the metadata in a gather list; it is log metadata if the tally contains log sectors.
    fn new(gather: &Gather, tally: &Tally, epoch: u32) -> Self {
        let is_log = tally.get(Cause::Map) + tally.get(Cause::Journal) > 0;
        let kind = if is_log { Kind::Log(epoch) } else { Kind::Meta };
        let mut meta = [(0, 0); MAX_PIECES];
        let mut at = 0;
        for (range, piece) in meta.iter_mut().zip(gather.iter()) {
            let end = at + piece.bytes();
            if matches!(piece, Piece::Meta { .. }) {
                *range = (at / SECTOR as u32, end.div_ceil(SECTOR as u32));
            }
            at = end;
        }
        Kinds { meta, kind }
    }

    fn get(&self, index: u32) -> Kind {
        let is_meta = self.meta.iter().any(|&(from, to)| (from..to).contains(&index));
        if is_meta { self.kind } else { Kind::Data }
    }
}

/// Returns whether a gather list contains metadata.
pub(crate) fn has_meta(gather: &Gather) -> bool {
    gather.iter().any(|piece| matches!(piece, Piece::Meta { .. }))
}

/// Fills a collection hint with random indirection units of `unit` sectors, because guarantees must
/// not depend on hints.
fn hint(sectors: u64, unit: u32, into: &mut MetaBuf, dice: &mut Dice) -> Verdict {
    let (units, mut count) = (sectors / u64::from(unit), 0);
    for _ in 0..dice.below(16) {
        let lba = dice.below(units) * u64::from(unit);
        count += usize::from(report::put_unit(into.pages_mut(), count, lba));
    }
    Verdict { bytes: (count * report::UNIT_BYTES) as u32, crc: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chaos device without segments reports nothing, and a layer must handle that.
    #[test]
    fn a_report_is_refused() {
        for about in [About::Collectible, About::Segments(0)] {
            let mut command = Command::Report { device: 0, about, into: MetaBuf::new(1) };
            let (mut machine, mut dice) = (Machine::default(), Dice::new(1, 0));
            machine.disks.push(Disk::default());
            let outcome = machine.run(&mut command, 0, Detour::None, &mut dice);
            assert_eq!(outcome, Err(DeviceError::Unsupported));
        }
    }
}
