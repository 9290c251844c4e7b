//! Verifying a row that nobody knows to be durable: heads may have reached the devices before what
//! they list.
//!
//! Every record is checked. A chunk that can't be read, or has a record that is wrong, is made from
//! the others once; when that does not help, the row is not whole, and was never promised. A whole
//! row is given back what it lacks: parity may not have reached its device either. In a zone that
//! is what is missing behind the pointer, and nothing else can be.

use hostftl_core::{
    Cause, Command, DeviceError, Few, Gather, MAX_PIECES, Piece, SECTOR, Tally, Target, Verdict,
    View,
};
use hostftl_format::log::{self, Kind, seed};

use crate::planted::{Bug, planted};

use crate::log::Engine;
use crate::log::buffers::Buffer;
use crate::log::layout::At;
use crate::log::ops::{Cx, count_sent, fail};
use crate::log::redundancy::rebuild::{Chunk, Rebuild};

/// How far it has come. Chunk `width` is the parity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Begin,
    /// Chunks are being read.
    Reading,
    /// A chunk is made from the others.
    Folding(Rebuild),
    /// This entry is next.
    Entry(u32),
    /// What the row lacks is written.
    Writing,
    Over,
}

/// The row that is being verified lies in the buffers of row 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verify {
    step: Step,
    /// Chunks that could not be read.
    bad: u32,
    /// The chunk that was made from the others.
    mended: Option<u32>,
}

impl Verify {
    /// Whether the row is whole.
    pub fn is_over(&self) -> bool {
        self.step == Step::Over
    }
}

impl Engine {
    fn verify(&mut self) -> &mut Verify {
        &mut self.replay().verify
    }

    /// The next step; nothing of recovery is under way.
    pub(in crate::log) fn pump_verify(&mut self, cx: &mut Cx) -> bool {
        match self.verify().step {
            Step::Begin => self.read_row(cx),
            Step::Reading => self.row_came(cx),
            Step::Folding(rebuild) => self.fold_others(rebuild, cx),
            Step::Entry(index) => self.check_entry(index, cx),
            Step::Writing => {
                self.verify().step = Step::Over;
                true
            }
            Step::Over => unreachable!("it is applied next"),
        }
    }

    /// The device of a chunk of the row, or of its parity.
    fn verified_device(&mut self, chunk: u32) -> u8 {
        let width = self.layout.width();
        let At { segment, slot, .. } = self.first_found().at;
        let stripe = self.devices.stripe(segment);
        match chunk == width {
            true => stripe.parity_device(segment, slot),
            false => stripe.device(segment, slot, chunk),
        }
    }

    /// Sectors of a chunk of the row, or of its parity.
    fn verified_sectors(&mut self, chunk: u32) -> u32 {
        let head = self.first_found().head;
        let last = chunk + 1 == head.chunks.into();
        if last { head.last_sectors } else { head.first_sectors }
    }

    /// Reads all chunks of the row, and the parity.
    fn read_row(&mut self, cx: &mut Cx) -> bool {
        let (head, at) = (self.first_found().head, self.first_found().at);
        let (width, most) = (self.layout.width(), self.devices.stripe(at.segment).width());
        let (chunks, full) = (head.chunks.into(), self.layout.chunk);
        let first = if chunks > 1 { full..=full } else { 1..=full - at.sector };
        let last = if chunks > 1 && self.layout.parity { full..=full } else { 1..=full };
        let sane = (1..=most).contains(&chunks)
            && first.contains(&head.first_sectors)
            && last.contains(&head.last_sectors);
        if !sane {
            return self.end_here();
        }
        self.verify().step = Step::Reading;
        let parity = self.layout.parity.then_some(width);
        for chunk in (0..chunks).chain(parity) {
            let sectors = self.verified_sectors(chunk);
            let buffer = Buffer::row(0, chunk);
            let into = Target::Data(self.buffers.at(buffer).view_mut_sectors(0, sectors));
            let (device, lba) = (self.verified_device(chunk), self.layout.lba(at));
            let command = Command::Read { device, lba, into, cause: Cause::Map };
            self.recover(chunk as u16, command, cx);
        }
        true
    }

    /// All that can be read is there.
    fn row_came(&mut self, cx: &mut Cx) -> bool {
        let width = self.layout.width();
        let bad = self.verify().bad;
        let data = bad & !(1 << width);
        match (data.count_ones(), bad == data && self.layout.parity) {
            (0, _) => self.verify().step = Step::Entry(0),
            (1, true) => self.mend_chunk(data.trailing_zeros()),
            _ if self.never_came(bad) => return self.end_here(),
            _ => {
                let device = self.verified_device(data.trailing_zeros());
                fail(device, DeviceError::Media, cx);
                return false;
            }
        }
        true
    }

    /// The first sector of a chunk of the row that is not in its zone, and where the chunk ends.
    fn lacking(&mut self, chunk: u32) -> Option<(u64, u64)> {
        let at = self.first_found().at;
        let (device, first) = (self.verified_device(chunk), self.layout.lba(at));
        let end = first + u64::from(self.verified_sectors(chunk));
        let begin = self.layout.lba(At { slot: 0, sector: 0, ..at });
        let usable = self.layout.zoned
            && !self.devices.has_lost(device)
            && !self.devices.zones().has_failed(at.segment, device);
        let sent =
            usable.then(|| begin + u64::from(self.devices.zones().sent(at.segment, device)))?;
        (sent < end).then_some((sent.max(first), end))
    }

    /// The chunks that the row has, and its parity, as a set of bits.
    fn chunks_of_row(&mut self) -> u32 {
        let parity = u32::from(self.layout.parity) << self.layout.width();
        ((1 << self.first_found().head.chunks) - 1) | parity
    }

    /// Whether any of these chunks is not in its zone and could still come there.
    fn lacks_any(&mut self, chunks: u32) -> bool {
        (0..=self.layout.width())
            .any(|chunk| chunks >> chunk & 1 == 1 && self.lacking(chunk).is_some())
    }

    /// Whether so many of these chunks are not in their zones that the row was never promised: no
    /// flush covers one that could still come, and of others a row may lack what parity makes up
    /// for.
    fn never_came(&mut self, chunks: u32) -> bool {
        let at = self.first_found().at;
        let mut absent = 0;
        for chunk in (0..=self.layout.width()).filter(|chunk| chunks >> chunk & 1 == 1) {
            let (device, sectors) = (self.verified_device(chunk), self.verified_sectors(chunk));
            let unwritten = self.devices.is_unwritten(device, self.layout.lba(at), sectors);
            absent += u32::from(unwritten || self.devices.has_lost(device));
        }
        self.layout.zoned && (absent > u32::from(self.layout.parity) || self.lacks_any(chunks))
    }

    /// Makes a chunk from the others.
    fn mend_chunk(&mut self, chunk: u32) {
        self.verify().mended = Some(chunk);
        self.make_chunk(Chunk::Data(chunk as u8));
    }

    fn make_chunk(&mut self, wanted: Chunk) {
        let At { segment, slot, .. } = self.first_found().at;
        let (stripe, chunks) = (self.devices.stripe(segment), self.first_found().head.chunks);
        let rebuild = Rebuild::new(stripe, (segment, slot), wanted, chunks.into());
        self.verify().step = Step::Folding(rebuild);
    }

    /// The buffer of a chunk of the row.
    fn buffer_of(&self, chunk: Chunk) -> Buffer {
        Buffer::row(0, self.number_of(chunk))
    }

    /// The number of a chunk of the row, that of the parity being the greatest.
    fn number_of(&self, chunk: Chunk) -> u32 {
        match chunk {
            Chunk::Data(chunk) => chunk.into(),
            Chunk::Parity => self.layout.width(),
        }
    }

    /// Folds the next chunks into the one that is wanted, a few at a time.
    fn fold_others(&mut self, mut rebuild: Rebuild, cx: &mut Cx) -> bool {
        let wanted = rebuild.wanted();
        let into = self.number_of(wanted);
        let sectors = self.verified_sectors(into);
        let keep = !rebuild.is_begin();
        let mut sources = Few::new();
        while let Some(chunk) = rebuild.next().filter(|_| sources.len() < MAX_PIECES) {
            let buffer = self.buffer_of(chunk);
            sources.push(self.buffers.at(buffer).view_sectors(0, sectors));
            rebuild = rebuild.fold();
        }
        self.verify().step = match (rebuild.next(), wanted) {
            (Some(_), _) => Step::Folding(rebuild),
            (None, Chunk::Parity) => Step::Writing,
            (None, Chunk::Data(_)) => Step::Entry(0),
        };
        let target = self.buffers.at(self.buffer_of(wanted)).view_mut_sectors(0, sectors);
        let command = Command::Fold { from: sources, into: target, keep };
        self.recover(into as u16, command, cx);
        true
    }

    /// Checks entry `index` of the row.
    fn check_entry(&mut self, index: u32, cx: &mut Cx) -> bool {
        let (head, at) = (self.first_found().head, self.first_found().at);
        if index == head.entries {
            return self.restore(cx);
        }
        let Some(entry) = log::entry(&self.first_found().buf, index) else {
            return self.end_here();
        };
        if entry.kind != Kind::Data {
            self.verify().step = Step::Entry(index + 1);
            return true;
        }
        let stripe = self.devices.stripe(at.segment);
        let chunk = (0..u32::from(head.chunks))
            .find(|chunk| stripe.device(at.segment, at.slot, *chunk) == entry.place.device());
        let first = self.layout.lba(at) * SECTOR as u64;
        let byte = entry.place.byte().checked_sub(first);
        let (Some(chunk), Some(byte)) = (chunk, byte) else { return self.end_here() };
        if byte + u64::from(entry.place.len()) > u64::from(self.layout.chunk) * SECTOR as u64 {
            return self.end_here();
        }
        let buffer = Buffer::row(0, chunk);
        let from = self.buffers.at(buffer).view(byte as u32, entry.place.len());
        let seed = seed(entry.block, entry.place.generation());
        self.recover(chunk as u16, Command::Digest { from, seed }, cx);
        true
    }

    /// Writes what the row lacks: a chunk that was made from the others, or the parity.
    fn restore(&mut self, cx: &mut Cx) -> bool {
        let width = self.layout.width();
        let (parity, mended) = (self.layout.parity, self.verify().mended);
        let all = self.chunks_of_row();
        if self.layout.zoned && !self.lacks_any(all) {
            self.verify().step = Step::Over;
            return true;
        }
        match mended {
            _ if !parity || planted(Bug::ParityNotRestored) => self.verify().step = Step::Over,
            Some(chunk) if chunk != width => {
                self.verify().step = Step::Writing;
                self.write_back(chunk, cx);
            }
            Some(_) => unreachable!("the parity is made last"),
            // The parity is always made anew: whether it arrived costs as much to find out.
            None => self.make_chunk(Chunk::Parity),
        }
        true
    }

    fn write_back(&mut self, chunk: u32, cx: &mut Cx) {
        let (at, stream) = (self.first_found().at, self.first_found().head.stream);
        let (device, first) = (self.verified_device(chunk), self.layout.lba(at));
        let all = (first, first + u64::from(self.verified_sectors(chunk)));
        let (lba, end) = self.lacking(chunk).unwrap_or(all);
        let sectors = (end - lba) as u32;
        let buffer = Buffer::row(0, chunk);
        let mut gather = Gather::new();
        let from = (lba - first) as u32;
        gather.push(Piece::Data(self.buffers.at(buffer).view_sectors(from, sectors)));
        let tally = Tally::of(Cause::Parity, sectors);
        count_sent(&tally, cx);
        let command = Command::Program { device, lba, gather, tally, placement: stream };
        self.recover(chunk as u16, command, cx);
    }

    /// A command of verifying is over.
    pub(in crate::log) fn verified(
        &mut self,
        index: u16,
        command: Command,
        result: Result<Verdict, DeviceError>,
        cx: &mut Cx,
    ) {
        let chunk = u32::from(index);
        let buffer = Buffer::row(0, chunk);
        match command {
            Command::Read { into: Target::Data(view), .. } => {
                self.buffers.at(buffer).repay_mut(view);
                self.verify().bad |= u32::from(result.is_err()) << chunk;
            }
            Command::Fold { from, into, .. } => {
                from.into_iter().for_each(|view: View| self.buffers.repay_row(0, view));
                self.buffers.at(buffer).repay_mut(into);
                if self.verify().step == Step::Writing {
                    self.write_back(chunk, cx);
                }
            }
            Command::Program { gather, .. } => {
                for piece in gather {
                    if let Piece::Data(view) = piece {
                        self.buffers.at(buffer).repay(view);
                    }
                }
            }
            Command::Digest { from, .. } => {
                self.buffers.at(buffer).repay(from);
                self.entry_checked(chunk, result.expect("a checksum in memory can't fail").crc);
            }
            other => unreachable!("{other:?} verifies nothing"),
        }
    }

    fn entry_checked(&mut self, chunk: u32, crc: u32) {
        let Step::Entry(index) = self.verify().step else {
            unreachable!("an entry is being checked")
        };
        let listed = log::entry(&self.first_found().buf, index).expect("it was read before").crc;
        let Verify { bad, mended, .. } = *self.verify();
        if crc == listed {
            self.verify().step = Step::Entry(index + 1);
        } else if self.layout.parity && bad == 0 && mended.is_none() {
            self.mend_chunk(chunk);
        } else {
            self.end_here();
        }
    }
}
