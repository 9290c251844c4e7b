//! Verifying a row that nobody knows to be durable: heads may have reached the devices before what
//! they list.
//!
//! Every record is checked. A chunk that can't be read, or has a record that is wrong, is made from
//! the others once, and so is the first one when its head had to be; when that does not help, the
//! row is not whole, and was never promised. A whole row is given back what it lacks: parity may
//! not have reached its device either. In a zone that is what is missing behind the pointer, and
//! nothing else can be.

use hostftl_core::{
    Cause, Command, DeviceError, Few, Gather, MAX_PIECES, Piece, SECTOR, Tally, Target, View,
};
use hostftl_format::log::{self, Kind, seed};

use crate::planted::{Bug, planted};

use crate::kit::shell::Ended;
use crate::log::Array;
use crate::log::buffers::Buffer;
use crate::log::layout::At;
use crate::log::ops::{Cx, count_sent, fail};
use crate::log::recovery::UnderWay;
use crate::log::recovery::replay::Found;
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

/// The row, and what is needed to verify it.
#[derive(Debug)]
pub struct With<'a> {
    /// What its head says.
    pub found: &'a Found,
    /// Commands under way.
    pub sent: &'a mut UnderWay,
    /// Its buffers and devices.
    pub array: &'a mut Array,
}

impl With<'_> {
    fn send(&mut self, chunk: u32, command: Command, cx: &mut Cx) {
        self.sent.send(chunk as u16, command, &mut self.array.devices, cx);
    }

    /// The device of a chunk of the row, or of its parity.
    fn device_of(&self, chunk: u32) -> u8 {
        let width = self.array.layout().width();
        let At { segment, slot, .. } = self.found.at;
        let stripe = self.array.devices.stripe(segment);
        match chunk == width {
            true => stripe.parity_device(segment, slot),
            false => stripe.device(segment, slot, chunk),
        }
    }

    /// Sectors of a chunk of the row, or of its parity.
    fn sectors_of(&self, chunk: u32) -> u32 {
        let head = self.found.head;
        let last = chunk + 1 == head.chunks.into();
        if last { head.last_sectors } else { head.first_sectors }
    }

    /// The first sector of a chunk of the row that is not in its zone, and where the chunk ends.
    fn lacking(&self, chunk: u32) -> Option<(u64, u64)> {
        let at = self.found.at;
        let (device, first) = (self.device_of(chunk), self.array.layout().lba(at));
        let end = first + u64::from(self.sectors_of(chunk));
        let begin = self.array.layout().lba(At { slot: 0, sector: 0, ..at });
        let usable = self.array.layout().zoned
            && !self.array.devices.has_lost(device)
            && !self.array.devices.zones().has_failed(at.segment, device);
        let sent = usable
            .then(|| begin + u64::from(self.array.devices.zones().sent(at.segment, device)))?;
        (sent < end).then_some((sent.max(first), end))
    }

    /// The chunks that the row has, and its parity, as a set of bits.
    fn chunks(&self) -> u32 {
        let parity = u32::from(self.array.layout().parity) << self.array.layout().width();
        ((1 << self.found.head.chunks) - 1) | parity
    }

    /// Whether any of these chunks is not in its zone and could still come there.
    fn lacks_any(&self, chunks: u32) -> bool {
        (0..=self.array.layout().width())
            .any(|chunk| chunks >> chunk & 1 == 1 && self.lacking(chunk).is_some())
    }

    /// Whether so many of these chunks are not in their zones that the row was never promised: no
    /// flush covers one that could still come, and of others a row may lack what parity makes up
    /// for.
    fn never_came(&self, chunks: u32) -> bool {
        let at = self.found.at;
        let mut absent = 0;
        for chunk in (0..=self.array.layout().width()).filter(|chunk| chunks >> chunk & 1 == 1) {
            let (device, sectors) = (self.device_of(chunk), self.sectors_of(chunk));
            let unwritten =
                self.array.devices.is_unwritten(device, self.array.layout().lba(at), sectors);
            absent += u32::from(unwritten || self.array.devices.has_lost(device));
        }
        self.array.layout().zoned
            && (absent > u32::from(self.array.layout().parity) || self.lacks_any(chunks))
    }

    /// The number of a chunk of the row, that of the parity being the greatest.
    fn number_of(&self, chunk: Chunk) -> u32 {
        match chunk {
            Chunk::Data(chunk) => chunk.into(),
            Chunk::Parity => self.array.layout().width(),
        }
    }

    /// The buffer of a chunk of the row.
    fn buffer_of(&self, chunk: Chunk) -> Buffer {
        Buffer::row(0, self.number_of(chunk))
    }
}

/// The row that is being verified lies in the buffers of row 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verify {
    step: Step,
    /// Chunks that could not be read, or whose head is wrong.
    bad: u32,
    /// The chunk that was made from the others.
    mended: Option<u32>,
}

impl Verify {
    /// Whether the row is whole.
    pub fn is_over(&self) -> bool {
        self.step == Step::Over
    }

    /// The next step, and whether anything moved; nothing of recovery is under way. `None` when the
    /// row is not whole.
    pub fn pump(&mut self, with: &mut With, cx: &mut Cx) -> Option<bool> {
        match self.step {
            Step::Begin => self.read_row(with, cx)?,
            Step::Reading => return self.row_came(with, cx),
            Step::Folding(rebuild) => self.fold_others(rebuild, with, cx),
            Step::Entry(index) => self.check_entry(index, with, cx)?,
            Step::Writing => self.step = Step::Over,
            Step::Over => unreachable!("it is applied next"),
        }
        Some(true)
    }

    /// Reads all chunks of the row, and the parity.
    fn read_row(&mut self, with: &mut With, cx: &mut Cx) -> Option<()> {
        let (head, at) = (with.found.head, with.found.at);
        let (width, most) =
            (with.array.layout().width(), with.array.devices.stripe(at.segment).width());
        let (chunks, full) = (head.chunks.into(), with.array.layout().chunk);
        let first = if chunks > 1 { full..=full } else { 1..=full - at.sector };
        let last = if chunks > 1 && with.array.layout().parity { full..=full } else { 1..=full };
        let sane = (1..=most).contains(&chunks)
            && first.contains(&head.first_sectors)
            && last.contains(&head.last_sectors);
        if !sane {
            return None;
        }
        self.step = Step::Reading;
        let parity = with.array.layout().parity.then_some(width);
        for chunk in (0..chunks).chain(parity) {
            let sectors = with.sectors_of(chunk);
            let buffer = Buffer::row(0, chunk);
            let into = Target::Data(with.array.buffers.at(buffer).view_mut_sectors(0, sectors));
            let (device, lba) = (with.device_of(chunk), with.array.layout().lba(at));
            let command = Command::Read { device, lba, into, cause: Cause::Map };
            with.send(chunk, command, cx);
        }
        Some(())
    }

    /// All that can be read is there.
    fn row_came(&mut self, with: &mut With, cx: &mut Cx) -> Option<bool> {
        let width = with.array.layout().width();
        let unread = self.bad & !(1 << width);
        // A head that is wrong on its device would be lost with the next parity.
        self.bad |= u32::from(with.found.was_made && !with.array.layout().zoned);
        let bad = self.bad;
        let data = bad & !(1 << width);
        match (data.count_ones(), bad == data && with.array.layout().parity) {
            (0, _) => self.step = Step::Entry(0),
            (1, true) => self.mend_chunk(data.trailing_zeros(), with),
            _ if with.never_came(bad) => return None,
            // A head that is torn where parity lacks was never promised: no device has failed.
            _ if unread == 0 => return None,
            _ => {
                let device = with.device_of(unread.trailing_zeros());
                fail(device, DeviceError::Media, cx);
                return Some(false);
            }
        }
        Some(true)
    }

    /// Makes a chunk from the others.
    fn mend_chunk(&mut self, chunk: u32, with: &mut With) {
        self.mended = Some(chunk);
        self.make_chunk(Chunk::Data(chunk as u8), with);
    }

    fn make_chunk(&mut self, wanted: Chunk, with: &mut With) {
        let At { segment, slot, .. } = with.found.at;
        let (stripe, chunks) = (with.array.devices.stripe(segment), with.found.head.chunks);
        let rebuild = Rebuild::new(stripe, (segment, slot), wanted, chunks.into());
        self.step = Step::Folding(rebuild);
    }

    /// Folds the next chunks into the one that is wanted, a few at a time.
    fn fold_others(&mut self, mut rebuild: Rebuild, with: &mut With, cx: &mut Cx) {
        let wanted = rebuild.wanted();
        let into = with.number_of(wanted);
        let sectors = with.sectors_of(into);
        let keep = !rebuild.is_begin();
        let mut sources = Few::new();
        while let Some(chunk) = rebuild.next().filter(|_| sources.len() < MAX_PIECES) {
            let buffer = with.buffer_of(chunk);
            sources.push(with.array.buffers.at(buffer).view_sectors(0, sectors));
            rebuild = rebuild.fold();
        }
        self.step = match (rebuild.next(), wanted) {
            (Some(_), _) => Step::Folding(rebuild),
            (None, Chunk::Parity) => Step::Writing,
            (None, Chunk::Data(_)) => Step::Entry(0),
        };
        let into_buffer = with.buffer_of(wanted);
        let target = with.array.buffers.at(into_buffer).view_mut_sectors(0, sectors);
        let command = Command::Fold { from: sources, into: target, keep };
        with.send(into, command, cx);
    }

    /// Checks entry `index` of the row.
    fn check_entry(&mut self, index: u32, with: &mut With, cx: &mut Cx) -> Option<()> {
        let (head, at) = (with.found.head, with.found.at);
        if index == head.entries {
            self.restore(with, cx);
            return Some(());
        }
        let entry = log::entry(&with.found.buf, index)?;
        if entry.kind != Kind::Data {
            self.step = Step::Entry(index + 1);
            return Some(());
        }
        let stripe = with.array.devices.stripe(at.segment);
        let chunk = (0..u32::from(head.chunks))
            .find(|chunk| stripe.device(at.segment, at.slot, *chunk) == entry.place.device());
        let first = with.array.layout().lba(at) * SECTOR as u64;
        let byte = entry.place.byte().checked_sub(first);
        let (Some(chunk), Some(byte)) = (chunk, byte) else { return None };
        if byte + u64::from(entry.place.len())
            > u64::from(with.array.layout().chunk) * SECTOR as u64
        {
            return None;
        }
        let buffer = Buffer::row(0, chunk);
        let from = with.array.buffers.at(buffer).view(byte as u32, entry.place.len());
        let seed = seed(entry.block, entry.place.generation());
        with.send(chunk, Command::Digest { from, seed }, cx);
        Some(())
    }

    /// Writes what the row lacks: a chunk that was made from the others, or the parity.
    fn restore(&mut self, with: &mut With, cx: &mut Cx) {
        let width = with.array.layout().width();
        let (parity, mended) = (with.array.layout().parity, self.mended);
        let all = with.chunks();
        if with.array.layout().zoned && !with.lacks_any(all) {
            self.step = Step::Over;
            return;
        }
        match mended {
            _ if !parity || planted(Bug::ParityNotRestored) => self.step = Step::Over,
            Some(chunk) if chunk != width => {
                self.step = Step::Writing;
                self.write_back(chunk, with, cx);
            }
            Some(_) => unreachable!("the parity is made last"),
            // The parity is always made anew: whether it arrived costs as much to find out.
            None => self.make_chunk(Chunk::Parity, with),
        }
    }

    fn write_back(&mut self, chunk: u32, with: &mut With, cx: &mut Cx) {
        let (at, stream) = (with.found.at, with.found.head.stream);
        let (device, first) = (with.device_of(chunk), with.array.layout().lba(at));
        let all = (first, first + u64::from(with.sectors_of(chunk)));
        let (lba, end) = with.lacking(chunk).unwrap_or(all);
        let sectors = (end - lba) as u32;
        let buffer = Buffer::row(0, chunk);
        let mut gather = Gather::new();
        let from = (lba - first) as u32;
        gather.push(Piece::Data(with.array.buffers.at(buffer).view_sectors(from, sectors)));
        let tally = Tally::of(Cause::Parity, sectors);
        count_sent(&tally, cx);
        let command = Command::Program { device, lba, gather, tally, placement: stream };
        with.send(chunk, command, cx);
    }

    /// A command of verifying is over. Whether the row is whole, as far as that is known.
    pub fn done(
        &mut self,
        index: u16,
        command: Command,
        ended: Ended,
        with: &mut With,
        cx: &mut Cx,
    ) -> bool {
        let chunk = u32::from(index);
        let buffer = Buffer::row(0, chunk);
        match command {
            Command::Read { into: Target::Data(view), .. } => {
                with.array.buffers.at(buffer).repay_mut(view);
                self.bad |= u32::from(ended.is_err()) << chunk;
            }
            Command::Fold { from, into, .. } => {
                from.into_iter().for_each(|view: View| with.array.buffers.repay_row(0, view));
                with.array.buffers.at(buffer).repay_mut(into);
                if self.step == Step::Writing {
                    self.write_back(chunk, with, cx);
                }
            }
            Command::Program { gather, .. } => {
                for piece in gather {
                    if let Piece::Data(view) = piece {
                        with.array.buffers.at(buffer).repay(view);
                    }
                }
            }
            Command::Digest { from, .. } => {
                with.array.buffers.at(buffer).repay(from);
                return self.entry_checked(
                    chunk,
                    ended.expect("a checksum in memory can't fail").crc,
                    with,
                );
            }
            other => unreachable!("{other:?} verifies nothing"),
        }
        true
    }

    fn entry_checked(&mut self, chunk: u32, crc: u32, with: &mut With) -> bool {
        let Step::Entry(index) = self.step else { unreachable!("an entry is being checked") };
        let listed = log::entry(&with.found.buf, index).expect("it was read before").crc;
        let Verify { bad, mended, .. } = *self;
        if crc == listed {
            self.step = Step::Entry(index + 1);
        } else if with.array.layout().parity && bad == 0 && mended.is_none() {
            self.mend_chunk(chunk, with);
        } else {
            return false;
        }
        true
    }
}
