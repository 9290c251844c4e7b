//! The stages of the script, one method each, and checks of their results.

use alloc::vec::Vec;

use hostftl_core::{
    ALL_ZEROS, ArrayVec, BLOCK, Cause, Codec, Command, DeviceError, Event, Factors, Gather,
    HostError, HostOp, MAX_PIECES, Nanos, Out, Output, Page, Part, Payload, Piece, Reply, Request,
    SECTOR, SECTORS_PER_BLOCK, Tally, Target, Ticket, Verdict,
};

use super::expect::Expect;
use super::{Exerciser, SCRATCH};

/// Bytes in the first piece of a gather list; deliberately not a multiple of a sector.
const ODD: u32 = 100;
/// Factors whose sum is 1, so that folding equal ranges with them returns the range.
const WEIGHTED: Factors = Factors { old: 0, new: [3, 7, 5, 0] };
/// Offset of the host's data in the first buffer, in bytes.
const SHIFT: u32 = SECTOR as u32;
/// Sectors of zeros in one program.
const ZERO_STEP: u64 = 100;
/// Index of the buffer for a read that is abandoned.
const LATE_BUFFER: usize = 4;

/// The stage of a request in the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Place,
    Pack,
    Unpack,
    Move,
    Fold,
    FoldKeep,
    FoldThree,
    Program,
    ReadBack,
    Compare,
    Flush,
    Reset,
    ReadZeros,
    /// A zeroing continues at its home.
    Zero,
    Home,
    Fua,
    Late,
    Answer,
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct Job {
    pub ticket: Ticket,
    pub data: Option<Payload>,
    pub stage: Stage,
    write: bool,
    lba: u64,
    sectors: u64,
    fua: bool,
    now: Nanos,
}

/// Results that a write has recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notes {
    digest: u32,
    zeros: u32,
    page: u32,
    packed: [Verdict; 2],
    zeroed: u64,
}

impl Job {
    fn bytes(&self) -> u32 {
        (self.sectors as usize * SECTOR) as u32
    }
}

impl Exerciser {
    fn job(&mut self) -> &mut Job {
        self.job.as_mut().expect("there is a request")
    }

    fn host(&mut self) -> &mut Payload {
        self.job().data.as_mut().expect("the request has a payload")
    }

    /// Starts a request: writes at the beginning of the script, all others at their home.
    pub(super) fn accept(&mut self, now: Nanos, request: Request, out: &mut Out) {
        let Request { ticket, op, lba, sectors, .. } = request;
        let (stage, fua) = match op {
            HostOp::Write { fua, .. } => (Stage::Place, fua),
            HostOp::Zeroes { fua } => (Stage::Zero, fua),
            HostOp::Trim { fua } => (Stage::Home, fua),
            HostOp::Read(_) | HostOp::Flush => (Stage::Home, false),
        };
        let first = match op {
            HostOp::Read(_) => Self::read_home,
            HostOp::Write { .. } => Self::place,
            HostOp::Flush => Self::flush_all,
            HostOp::Trim { .. } => Self::trim_home,
            HostOp::Zeroes { .. } => Self::zero_home,
        };
        let data = match op {
            HostOp::Read(data) | HostOp::Write { data, .. } => Some(data),
            _ => None,
        };
        let in_range = lba.checked_add(sectors) <= Some(self.limits.exported);
        if self.failed || !in_range {
            let result = Err(if in_range { HostError::Io } else { HostError::Range });
            return out.push(Output::Reply(Reply { ticket, data, result }));
        }
        let job = Job { ticket, data, stage, write: stage == Stage::Place, lba, sectors, fua, now };
        self.job = Some(job);
        self.notes = Notes::default();
        first(self, out);
    }

    /// Continues with the next stage after all commands of a stage, until one submits a command.
    pub(super) fn advance(&mut self, out: &mut Out) {
        if self.job.is_none() {
            if self.stopping && self.late == 0 {
                out.push(Output::Event(Event::Stopped));
            }
            return;
        }
        while self.waiting == 0 {
            if self.failed {
                return self.answer(out);
            }
            let mut stage = self.job().stage;
            if stage != Stage::Zero || self.notes.zeroed == self.job().sectors {
                stage = next(stage);
            }
            self.job().stage = stage;
            match stage {
                Stage::Place => unreachable!("a write begins at this sector"),
                Stage::Zero => self.zero_home(out),
                Stage::Pack => self.pack(out),
                Stage::Unpack => self.unpack(out),
                Stage::Move => self.move_whole(out),
                Stage::Fold => self.fold(&[0, 3], 2, Factors::SUM, out),
                Stage::FoldKeep => self.fold(&[1], 2, Factors::ADD, out),
                Stage::FoldThree => self.fold(&[0, 3, 2], 1, WEIGHTED, out),
                Stage::Program => self.program(out),
                Stage::ReadBack => self.read_back(out),
                Stage::Compare => self.compare(out),
                Stage::Flush => self.flush_all(out),
                Stage::Reset => self.reset(out),
                Stage::ReadZeros => self.read_zeros(out),
                Stage::Home => self.program_home(out),
                Stage::Fua if self.job().fua => {
                    self.submit(Expect::Plain, Command::Flush { device: 0 }, out);
                }
                Stage::Fua => {}
                Stage::Late => return self.late(out),
                Stage::Answer => return self.answer(out),
            }
        }
    }

    fn digest(&mut self, buffer: usize, from: u32, bytes: u32, expect: Expect, out: &mut Out) {
        let from = self.buffers[buffer].view(from, bytes);
        let seed = self.round;
        self.submit(expect, Command::Digest { from, seed }, out);
    }

    fn place(&mut self, out: &mut Out) {
        let (bytes, seed) = (self.job().bytes(), self.round);
        let from = self.host().view(0, bytes);
        self.submit(Expect::LearnData, Command::Digest { from, seed }, out);
        let from = Piece::Data(self.host().view(0, bytes));
        let into = self.buffers[0].view_mut(SHIFT, bytes);
        self.submit(Expect::Plain, Command::Place { from, into }, out);
        let into = self.buffers[0].view_mut(0, SHIFT);
        self.submit(Expect::Plain, Command::Place { from: Piece::zero_sectors(1), into }, out);
        let mut buf = self.metas.pop().expect("one entry per device");
        fill(&mut buf.pages_mut()[0], self.round, 0);
        let into = self.buffers[3].view_mut_sectors(0, SECTORS_PER_BLOCK);
        let from = Piece::Meta { buf, pages: 1 };
        self.submit(Expect::Plain, Command::Place { from, into }, out);
    }

    fn pack(&mut self, out: &mut Out) {
        let (bytes, seed) = (self.job().bytes(), self.round);
        self.digest(0, SHIFT, bytes, Expect::SameData, out);
        self.digest(0, 0, SHIFT, Expect::LearnZeros, out);
        self.digest(3, 0, BLOCK as u32, Expect::LearnPage, out);
        let codecs = [(Expect::PackLz4, Codec::Lz4), (Expect::PackZstd, Codec::Zstd(1))];
        for (buffer, (expect, codec)) in codecs.into_iter().enumerate() {
            let from = self.buffers[0].view(SHIFT, bytes);
            let room = self.buffers[1].sectors() * SECTOR as u32;
            let into = self.buffers[buffer + 1].view_mut(0, room);
            self.submit(expect, Command::Pack { from, into, codec, seed }, out);
        }
    }

    /// Unpacks both packed forms: LZ4 into the fourth buffer, Zstandard over the host's data.
    /// Incompressible data was not packed.
    fn unpack(&mut self, out: &mut Out) {
        let (bytes, seed, packed) = (self.job().bytes(), self.round, self.notes.packed);
        let moves = [(1, 3, 0, Codec::Lz4), (2, 0, SHIFT, Codec::Zstd(1))];
        for ((source, target, at, codec), Verdict { bytes: length, crc }) in
            moves.into_iter().zip(packed)
        {
            if length == 0 && target == 0 {
                continue; // The first buffer still has the data.
            }
            let noise = (length == 0).then(|| self.buffers[0].view(SHIFT, bytes));
            let into = self.buffers[target].view_mut(at, bytes);
            if length == ALL_ZEROS || noise.is_some() {
                let from = noise.map_or(Piece::Zeros(bytes), Piece::Data);
                self.submit(Expect::Plain, Command::Place { from, into }, out);
                continue;
            }
            let from = self.buffers[source].view(0, length);
            self.submit(Expect::Whole, Command::Unpack { from, into, codec, seed, crc }, out);
        }
    }

    /// Verifies the unpacked data, and copies it over its packed form.
    fn move_whole(&mut self, out: &mut Out) {
        let (bytes, crc, seed) = (self.job().bytes(), self.notes.digest, self.round);
        let from = self.buffers[3].view(0, bytes);
        let into = self.buffers[1].view_mut(0, bytes);
        let parts = Vec::from([Part { from: 0, into: 0, len: bytes, crc, seed }]);
        self.submit(Expect::Moved, Command::Move { from, into, parts }, out);
    }

    /// Folds buffers into one. Data in the first buffer starts after one sector.
    fn fold(&mut self, from: &[usize], into: usize, factors: Factors, out: &mut Out) {
        let bytes = self.job().bytes();
        let shift = |buffer: usize| if buffer == 0 { SHIFT } else { 0 };
        let mut views = ArrayVec::<_, MAX_PIECES>::new();
        for &buffer in from {
            views.push(self.buffers[buffer].view(shift(buffer), bytes));
        }
        let into = self.buffers[into].view_mut(shift(into), bytes);
        self.submit(Expect::Plain, Command::Fold { from: views, into, factors }, out);
    }

    /// Writes host data in two pieces of odd length, a page and a sector of zeros to the scratch
    /// area of each device. Meanwhile the folded data is verified.
    fn program(&mut self, out: &mut Out) {
        let (bytes, sectors) = (self.job().bytes(), self.job().sectors as u32);
        for buffer in 1..=3 {
            self.digest(buffer, 0, bytes, Expect::SameData, out);
        }
        for device in 0..self.devices.len() {
            let mut buf = self.metas.pop().expect("one entry per device");
            fill(&mut buf.pages_mut()[0], self.round, device);
            let gather = Gather::from_iter([
                Piece::Data(self.buffers[0].view(SHIFT, ODD)),
                Piece::Data(self.buffers[2].view(ODD, bytes - ODD)),
                Piece::Meta { buf, pages: 1 },
                Piece::zero_sectors(1),
            ]);
            let mut tally = Tally::single(Cause::Host, sectors);
            tally.add(Cause::Map, SECTORS_PER_BLOCK);
            tally.add(Cause::Pad, 1);
            let lba = self.devices[device] - SCRATCH;
            let device = device as u8;
            self.submit(
                Expect::Plain,
                Command::Program { device, lba, gather, tally, placement: 0 },
                out,
            );
        }
    }

    fn read(&mut self, device: usize, at: u64, into: Target, expect: Expect, out: &mut Out) {
        let lba = self.devices[device] - SCRATCH + at;
        let device = device as u8;
        self.submit(expect, Command::Read { device, lba, into, cause: Cause::Host }, out);
    }

    /// Reads data, page and zeros back into one buffer for each device; the first device's page
    /// also as payload.
    fn read_back(&mut self, out: &mut Out) {
        let sectors = self.job().sectors;
        for device in 0..self.devices.len() {
            let into = Target::Data(self.buffers[device].view_mut_sectors(0, sectors as u32));
            self.read(device, 0, into, Expect::Plain, out);
            let into = Target::Data(self.buffers[device].view_mut_sectors(sectors as u32, 1));
            let page = u64::from(SECTORS_PER_BLOCK);
            self.read(device, sectors + page, into, Expect::Plain, out);
            let buf = self.metas.pop().expect("one entry per device");
            self.read(device, sectors, Target::Meta { buf, pages: 1 }, Expect::Page, out);
        }
        let at = sectors as u32 + 1;
        let into = Target::Data(self.buffers[0].view_mut_sectors(at, SECTORS_PER_BLOCK));
        self.read(0, sectors, into, Expect::Plain, out);
    }

    fn compare(&mut self, out: &mut Out) {
        let bytes = self.job().bytes();
        for buffer in 0..self.devices.len() {
            self.digest(buffer, 0, bytes, Expect::SameData, out);
            self.digest(buffer, bytes, SECTOR as u32, Expect::SameZeros, out);
        }
        self.digest(0, bytes + SECTOR as u32, BLOCK as u32, Expect::SamePage, out);
        let from = self.buffers[0].view(bytes + SECTOR as u32, BLOCK as u32);
        let into = self.metas.pop().expect("one entry per device");
        self.submit(Expect::Peeked, Command::Peek { from, into, pages: 1 }, out);
    }

    /// Flushes every device.
    pub(super) fn flush_all(&mut self, out: &mut Out) {
        for device in 0..self.devices.len() as u8 {
            self.submit(Expect::Plain, Command::Flush { device }, out);
        }
    }

    fn reset(&mut self, out: &mut Out) {
        for device in 0..self.devices.len() {
            let lba = self.devices[device] - SCRATCH;
            let device = device as u8;
            self.submit(Expect::Plain, Command::Reset { device, lba, sectors: SCRATCH }, out);
        }
    }

    fn read_zeros(&mut self, out: &mut Out) {
        let sectors = self.job().sectors;
        for device in 0..self.devices.len() {
            let buf = self.metas.pop().expect("one entry per device");
            self.read(device, sectors, Target::Meta { buf, pages: 1 }, Expect::ZeroPage, out);
        }
    }

    fn program_home(&mut self, out: &mut Out) {
        let (lba, sectors) = (self.job().lba, self.job().sectors as u32);
        let gather = Gather::from_iter([Piece::Data(self.host().view_sectors(0, sectors))]);
        let tally = Tally::single(Cause::Host, sectors);
        self.submit(
            Expect::Plain,
            Command::Program { device: 0, lba, gather, tally, placement: 0 },
            out,
        );
    }

    /// Reads a request in two halves, both in flight concurrently.
    fn read_home(&mut self, out: &mut Out) {
        let (lba, sectors) = (self.job().lba, self.job().sectors as u32);
        let half = sectors / 2;
        for (from, count) in [(0, half), (half, sectors - half)] {
            if count > 0 {
                let into = Target::Data(self.host().view_mut_sectors(from, count));
                let lba = lba + u64::from(from);
                let read = Command::Read { device: 0, lba, into, cause: Cause::Host };
                self.submit(Expect::Plain, read, out);
            }
        }
    }

    fn trim_home(&mut self, out: &mut Out) {
        let (lba, sectors) = (self.job().lba, self.job().sectors);
        self.submit(Expect::Plain, Command::Reset { device: 0, lba, sectors }, out);
    }

    /// Writes zeros to the next part of the range.
    fn zero_home(&mut self, out: &mut Out) {
        let zeroed = self.notes.zeroed;
        let lba = self.job().lba + zeroed;
        let sectors = (self.job().sectors - zeroed).min(ZERO_STEP) as u32;
        self.notes.zeroed += u64::from(sectors);
        let gather = Gather::from_iter([Piece::zero_sectors(sectors)]);
        let tally = Tally::single(Cause::Host, sectors);
        self.submit(
            Expect::Plain,
            Command::Program { device: 0, lba, gather, tally, placement: 0 },
            out,
        );
    }

    /// Submits a digest of the host's data and a read after a write; both are abandoned if a timer
    /// fires first.
    fn late(&mut self, out: &mut Out) {
        let free = self.late == 0 && self.left.is_none();
        if !self.job().write || !free {
            return self.answer(out);
        }
        let (lba, sectors, seed) = (self.job().lba, self.job().sectors as u32, self.round);
        let from = self.host().view_sectors(0, sectors);
        self.submit(Expect::Late, Command::Digest { from, seed }, out);
        let into = Target::Data(self.buffers[LATE_BUFFER].view_mut_sectors(0, sectors));
        let read = Command::Read { device: 0, lba, into, cause: Cause::Host };
        self.submit(Expect::Late, read, out);
        self.wake = Some(self.job().now);
    }

    /// Checks the result of a command. A mismatch is a bug of the driver.
    pub(super) fn judge(
        &mut self,
        expect: Expect,
        command: &Command,
        result: Result<Verdict, DeviceError>,
    ) {
        let (Ok(verdict), round) = (result, self.round) else { return };
        match expect {
            Expect::Plain | Expect::Late => {}
            Expect::LearnData => self.notes.digest = verdict.crc,
            Expect::LearnZeros => self.notes.zeros = verdict.crc,
            Expect::SameData => {
                assert_eq!(verdict.crc, self.notes.digest, "a payload of the host: {command:?}");
            }
            Expect::SameZeros => {
                assert_eq!(verdict.crc, self.notes.zeros, "a sector of zeros: {command:?}");
            }
            Expect::LearnPage => self.notes.page = verdict.crc,
            Expect::SamePage => {
                assert_eq!(verdict.crc, self.notes.page, "a page as payload: {command:?}");
            }
            Expect::PackLz4 => self.notes.packed[0] = verdict,
            Expect::PackZstd => self.notes.packed[1] = verdict,
            Expect::Whole => assert_eq!(verdict.bytes, self.job().bytes(), "expanded in full"),
            Expect::Moved => assert_eq!(verdict.bytes, 1, "the part matches"),
            Expect::Peeked => {
                let Command::Peek { into, .. } = command else { unreachable!("it peeks") };
                let mut page = Page::default();
                // A driver without bytes returns an empty page.
                if self.notes.page != 0 {
                    fill(&mut page, round, 0);
                }
                assert!(into.pages()[0] == page, "the payload holds a different page");
            }
            Expect::Page | Expect::ZeroPage => {
                let Command::Read { device, into: Target::Meta { buf, .. }, .. } = command else {
                    unreachable!("only a read of metadata expects a page");
                };
                let mut page = Page::default();
                if expect == Expect::Page {
                    fill(&mut page, round, (*device).into());
                }
                assert!(buf.pages()[0] == page, "device {device} returned a different page");
            }
        }
    }
}

fn next(stage: Stage) -> Stage {
    match stage {
        Stage::Place => Stage::Pack,
        Stage::Pack => Stage::Unpack,
        Stage::Unpack => Stage::Move,
        Stage::Move => Stage::Fold,
        Stage::Fold => Stage::FoldKeep,
        Stage::FoldKeep => Stage::FoldThree,
        Stage::FoldThree => Stage::Program,
        Stage::Program => Stage::ReadBack,
        Stage::ReadBack => Stage::Compare,
        Stage::Compare => Stage::Flush,
        Stage::Flush => Stage::Reset,
        Stage::Reset => Stage::ReadZeros,
        Stage::ReadZeros => Stage::Home,
        Stage::Zero | Stage::Home => Stage::Fua,
        Stage::Fua => Stage::Late,
        Stage::Late | Stage::Answer => Stage::Answer,
    }
}

/// Fills the page that the script writes to `device` in `round`.
fn fill(page: &mut Page, round: u64, device: usize) {
    for (index, word) in page.0.chunks_exact_mut(8).enumerate() {
        let value = round << 16 | (device as u64) << 12 | index as u64;
        word.copy_from_slice(&value.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
}
