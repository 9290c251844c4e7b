//! Verifying a row that nobody knows to be durable: heads may have reached the devices before what
//! they list.
//!
//! Every record is checked. A chunk that can't be read, or has a record that is wrong, is made from
//! the others, and so is the first one when its head had to be; when that does not help in any way,
//! the row is not whole, and was never promised. A whole row is given back what it lacks: parity
//! may not have reached its device either. In a zone that is what is missing behind the pointer,
//! and nothing else can be.

use hostftl_core::{
    Cause, Command, DeviceError, Factors, Few, Gather, MAX_PIECES, Piece, SECTOR, Tally, Target,
    View,
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

/// How far it has come.
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
        self.sent.send(chunk as u16, command, &mut self.array.media.devices, cx);
    }

    /// The device of a chunk of the row.
    fn device_of(&self, number: u32) -> u8 {
        let At { segment, slot, .. } = self.found.at;
        let stripe = self.array.media.devices.stripe(segment);
        self.array.layout().chunk_of(number).device(stripe, (segment, slot))
    }

    /// How a chunk of the row is made from the others.
    fn rebuild(&self, wanted: Chunk) -> Option<Rebuild> {
        let At { segment, slot, .. } = self.found.at;
        let (stripe, chunks) = (self.array.media.devices.stripe(segment), self.found.head.chunks);
        Rebuild::new(stripe, (segment, slot), wanted, chunks.into(), 0)
    }

    /// Sectors of a chunk of the row.
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
            && !self.array.media.devices.has_lost(device)
            && !self.array.media.devices.lacks(device, first)
            && !self.array.media.devices.zones().has_failed(at.segment, device);
        let sent = usable.then(|| {
            begin + u64::from(self.array.media.devices.zones().sent(at.segment, device))
        })?;
        (sent < end).then_some((sent.max(first), end))
    }

    /// Whether a chunk may come into its zone: that is open, or can be opened. A device that was
    /// lost for a while, and no root came to say so, may have others open: then it lacks its chunk.
    fn may_open_for(&mut self, chunk: u32) -> bool {
        let (segment, device) = (self.found.at.segment, self.device_of(chunk));
        let zones = self.array.media.devices.zones();
        let may = zones.sent(segment, device) > 0 || zones.has_room(device);
        if !may {
            self.array.media.devices.membership_mut().claim_lack(segment, 1 << device);
        }
        may
    }

    /// The parities, as a set of bits.
    fn parities(&self) -> u32 {
        let layout = self.array.layout();
        layout.parities().fold(0, |set, it| set | 1 << layout.number_of(it))
    }

    /// All chunks that the row has, as a set of bits.
    fn chunks(&self) -> u32 {
        ((1 << self.found.head.chunks) - 1) | self.parities()
    }

    /// Whether any of these chunks is not in its zone and could still come there.
    fn lacks_any(&self, chunks: u32) -> bool {
        numbers(chunks).any(|chunk| self.lacking(chunk).is_some())
    }

    /// Whether so many of these chunks are not in their zones that the row was never promised: no
    /// flush covers one that could still come, and of others a row may lack what parity makes up
    /// for.
    fn never_came(&self, chunks: u32) -> bool {
        let at = self.found.at;
        let mut absent = 0;
        for chunk in numbers(chunks) {
            let (device, sectors) = (self.device_of(chunk), self.sectors_of(chunk));
            let lba = self.array.layout().lba(at);
            let unwritten = self.array.media.devices.is_unwritten(device, lba, sectors);
            absent += u32::from(unwritten || !self.array.media.devices.has_chunk(device, lba));
        }
        self.array.layout().zoned
            && (absent > u32::from(self.array.layout().parity) || self.lacks_any(chunks))
    }
}

/// The row that is being verified lies in the buffers of row 0. Sets are of the bits of the numbers
/// of chunks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verify {
    step: Step,
    /// Chunks that could not be read, or hold something wrong.
    bad: u32,
    /// How those of data were made from the others.
    made: [Option<Rebuild>; 2],
    /// What is to be written yet.
    lacks: u32,
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
            Step::Folding(rebuild) => self.fold_others(rebuild, with, cx)?,
            Step::Entry(index) => self.check_entry(index, with, cx)?,
            Step::Writing => self.write_next(with, cx),
            Step::Over => unreachable!("it is applied next"),
        }
        Some(true)
    }

    /// Reads all chunks of the row, and its parities.
    fn read_row(&mut self, with: &mut With, cx: &mut Cx) -> Option<()> {
        let (head, at) = (with.found.head, with.found.at);
        let most = with.array.media.devices.stripe(at.segment).width();
        let (chunks, full) = (head.chunks.into(), with.array.layout().chunk);
        let first = if chunks > 1 { full..=full } else { 1..=full - at.sector };
        let whole = chunks > 1 && with.array.layout().parity > 0;
        let last = if whole { full..=full } else { 1..=full };
        let sane = (1..=most).contains(&chunks)
            && first.contains(&head.first_sectors)
            && last.contains(&head.last_sectors);
        if !sane {
            return None;
        }
        self.step = Step::Reading;
        for number in numbers(with.chunks()) {
            let sectors = with.sectors_of(number);
            let buffer = Buffer::row(0, number);
            let into =
                Target::Data(with.array.media.buffers.at(buffer).view_mut_sectors(0, sectors));
            let (device, lba) = (with.device_of(number), with.array.layout().lba(at));
            let command = Command::Read { device, lba, into, cause: Cause::Map };
            with.send(number, command, cx);
        }
        Some(())
    }

    /// Chunks of data that are bad, and how many of those can be made.
    fn bad_data(&self, with: &With) -> (u32, u32) {
        let parities = with.parities();
        (self.bad & !parities, (parities & !self.bad).count_ones())
    }

    /// All that can be read is there.
    fn row_came(&mut self, with: &mut With, cx: &mut Cx) -> Option<bool> {
        let unread = self.bad_data(with).0;
        // What lies on the device in its place would go into the next parity, which would not agree
        // with the others then.
        self.bad |= u32::from(with.found.was_made);
        match self.bad_data(with) {
            (data, can_be_made) if data.count_ones() <= can_be_made => self.make_next(with)?,
            _ if with.never_came(self.bad) => return None,
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

    /// Makes the next bad chunk of data from the others; when none is left, records are checked.
    /// `None` when nothing makes it.
    fn make_next(&mut self, with: &mut With) -> Option<()> {
        let data = self.bad_data(with).0;
        let is_made = |chunk: u32| self.how(chunk).is_some();
        self.step = match numbers(data).find(|chunk| !is_made(*chunk)) {
            None => Step::Entry(0),
            Some(chunk) => {
                let places = |set: u32| {
                    let layout = with.array.layout();
                    numbers(set).fold(0, |set, it| set | 1 << layout.chunk_of(it).place())
                };
                let others = places(self.bad & !(1 << chunk));
                Step::Folding(with.rebuild(Chunk::Data(chunk as u8))?.without_all(others)?)
            }
        };
        Some(())
    }

    /// How a chunk of data was made, if it was.
    fn how(&self, chunk: u32) -> Option<Rebuild> {
        let is_it = |it: &Rebuild| it.wanted() == Chunk::Data(chunk as u8);
        self.made.into_iter().flatten().find(is_it)
    }

    /// Folds the next chunks into the one that is wanted, a few at a time.
    fn fold_others(&mut self, mut rebuild: Rebuild, with: &mut With, cx: &mut Cx) -> Option<()> {
        let wanted = rebuild.wanted();
        let into = with.array.layout().number_of(wanted);
        let sectors = with.sectors_of(into);
        let mut factors = Factors::plain(!rebuild.is_begin());
        let mut sources = Few::<View, MAX_PIECES>::new();
        while let Some(chunk) = rebuild.next().filter(|_| sources.len() < MAX_PIECES) {
            let buffer = Buffer::row(0, with.array.layout().number_of(chunk));
            factors.new[sources.len()] = rebuild.factors().0;
            sources.push(with.array.media.buffers.at(buffer).view_sectors(0, sectors));
            rebuild = rebuild.fold();
        }
        match (rebuild.next(), wanted) {
            (Some(_), _) => self.step = Step::Folding(rebuild),
            (None, Chunk::Parity(_)) => self.step = Step::Writing,
            (None, Chunk::Data(_)) => {
                let same = |it: &&mut Option<Rebuild>| it.is_none_or(|it| it.wanted() == wanted);
                let place = self.made.iter_mut().find(same);
                *place.expect("no more is made than there is parity") = Some(rebuild);
                self.make_next(with)?;
            }
        }
        let target = with.array.media.buffers.at(Buffer::row(0, into)).view_mut_sectors(0, sectors);
        with.send(into, Command::Fold { from: sources, into: target, factors }, cx);
        Some(())
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
        let stripe = with.array.media.devices.stripe(at.segment);
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
        let from = with.array.media.buffers.at(buffer).view(byte as u32, entry.place.len());
        let seed = seed(entry.block, entry.place.generation());
        with.send(chunk, Command::Digest { from, seed }, cx);
        Some(())
    }

    /// Begins to write what the row lacks: chunks that were made from the others, and parity.
    fn restore(&mut self, with: &mut With, cx: &mut Cx) {
        let (zoned, parity) = (with.array.layout().zoned, with.array.layout().parity);
        let made = numbers(self.bad_data(with).0).filter(|chunk| self.how(*chunk).is_some());
        let made = made.fold(0, |set, chunk| set | 1 << chunk);
        // Whether parity arrived costs as much to find out as to make it anew; but the only one
        // with which a chunk was made is as it should be.
        let anew = if parity == 1 && made != 0 { 0 } else { with.parities() };
        let done = parity == 0 || planted(Bug::ParityNotRestored);
        self.lacks = if done { 0 } else { made | anew };
        if zoned {
            let lacking = numbers(self.lacks).filter(|number| with.lacking(*number).is_some());
            let lacking = lacking.fold(0, |set, number| set | 1 << number);
            let may_come = numbers(lacking).filter(|number| with.may_open_for(*number));
            self.lacks = may_come.fold(0, |set, number| set | 1 << number);
        }
        self.write_next(with, cx);
    }

    /// Writes the next chunk that the row lacks; a parity is made first.
    fn write_next(&mut self, with: &mut With, cx: &mut Cx) {
        let Some(number) = numbers(self.lacks).next() else {
            self.step = Step::Over;
            return;
        };
        self.lacks &= !(1 << number);
        self.step = Step::Writing;
        match with.array.layout().chunk_of(number) {
            Chunk::Data(_) => self.write_back(number, with, cx),
            parity => {
                self.step = Step::Folding(with.rebuild(parity).expect("all data is here"));
            }
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
        gather.push(Piece::Data(with.array.media.buffers.at(buffer).view_sectors(from, sectors)));
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
                with.array.media.buffers.at(buffer).repay_mut(view);
                self.bad |= u32::from(ended.is_err()) << chunk;
            }
            Command::Fold { from, into, .. } => {
                from.into_iter().for_each(|view: View| with.array.media.buffers.repay_row(0, view));
                with.array.media.buffers.at(buffer).repay_mut(into);
                if self.step == Step::Writing {
                    self.write_back(chunk, with, cx);
                }
            }
            Command::Program { gather, .. } => {
                for piece in gather {
                    if let Piece::Data(view) = piece {
                        with.array.media.buffers.at(buffer).repay(view);
                    }
                }
            }
            Command::Digest { from, .. } => {
                with.array.media.buffers.at(buffer).repay(from);
                let crc = ended.expect("a checksum in memory can't fail").crc;
                return self.entry_checked(chunk, crc, with).is_some();
            }
            other => unreachable!("{other:?} verifies nothing"),
        }
        true
    }

    /// A record of a chunk has this checksum. When that is wrong the chunk is made from the others,
    /// in a way that was not tried yet. `None` when there is none.
    fn entry_checked(&mut self, chunk: u32, crc: u32, with: &mut With) -> Option<()> {
        let Step::Entry(index) = self.step else { unreachable!("an entry is being checked") };
        let listed = log::entry(&with.found.buf, index).expect("it was read before").crc;
        if crc == listed {
            self.step = Step::Entry(index + 1);
            return Some(());
        }
        if let Some(made) = self.how(chunk) {
            self.step = Step::Folding(made.again()?);
            return Some(());
        }
        self.bad |= 1 << chunk;
        let (data, can_be_made) = self.bad_data(with);
        let fits = data.count_ones() <= can_be_made;
        fits.then(|| self.make_next(with)).flatten()
    }
}

/// The numbers in a set of bits.
fn numbers(set: u32) -> impl Iterator<Item = u32> {
    let mut left = set;
    core::iter::from_fn(move || {
        let number = left.trailing_zeros();
        left &= left.checked_sub(1)?;
        Some(number)
    })
}
