//! Verification of a stripe that is not known to be durable: its head may have reached the devices
//! before the data that it lists.
//!
//! Every record is checked. A chunk that is unreadable or has a wrong record is rebuilt from the
//! others, and so is the first chunk if its head had to be rebuilt. If no rebuild succeeds, the
//! stripe is incomplete and was never acknowledged. The missing chunks of a complete stripe are
//! written, since parity may not have reached its device either. In a zone only the part after the
//! write pointer can be missing, and only that can be written.

use hostftl_core::{
    ArrayVec, Cause, Command, DeviceError, Factors, Gather, MAX_PIECES, Piece, SECTOR, Tally,
    Target, View,
};
use hostftl_format::log::{self, Kind, seed};

use crate::planted::{Bug, planted};

use crate::kit::shell::Ended;
use crate::log::buffers::Buffer;
use crate::log::layout::Layout;
use crate::log::media::Media;
use crate::log::ops::{Cx, count_sent, fail};
use crate::log::recovery::found::{Found, HeadOrigin, numbers, parities};
use crate::log::recovery::under_way::UnderWay;
use crate::log::redundancy::rebuild::{Chunk, Rebuild};

/// Progress of the verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Begin,
    /// Chunks are being read.
    Reading,
    /// A chunk is rebuilt from the others.
    Folding(Rebuild),
    /// This entry is checked next.
    Entry(u32),
    /// Missing chunks are written.
    Writing,
    Over,
}

/// Verification of one stripe, which is in the buffers of stripe 0. Sets of chunks are bit masks of
/// chunk numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Verify {
    step: Step,
    /// Chunks that are unreadable or have wrong contents.
    bad: u32,
    /// Successful rebuilds of data chunks.
    made: [Option<Rebuild>; 2],
    /// Chunks that remain to be written.
    lacks: u32,
}

impl Verify {
    /// Returns whether the stripe is complete.
    pub(super) fn is_over(&self) -> bool {
        self.step == Step::Over
    }

    /// Performs the next step while no recovery command is in flight. Returns whether progress was
    /// made, or `None` if the stripe is incomplete.
    pub(super) fn pump(
        &mut self,
        found: &Found,
        sent: &mut UnderWay,
        media: &mut Media,
        cx: &mut Cx,
    ) -> Option<bool> {
        match self.step {
            Step::Begin => self.read_stripe(found, sent, media, cx)?,
            Step::Reading => return self.stripe_came(found, media, cx),
            Step::Folding(rebuild) => self.fold_others(rebuild, found, sent, media, cx)?,
            Step::Entry(index) => self.check_entry(index, found, sent, media, cx)?,
            Step::Writing => self.write_next(found, sent, media, cx),
            Step::Over => unreachable!("the stripe is applied next"),
        }
        Some(true)
    }

    /// Reads all chunks of the stripe, including parity.
    fn read_stripe(
        &mut self,
        found: &Found,
        sent: &mut UnderWay,
        media: &mut Media,
        cx: &mut Cx,
    ) -> Option<()> {
        let (head, at) = (found.head, found.at);
        let most = media.devices.placement(at.segment).width();
        let (chunks, full) = (head.chunks.into(), media.layout().chunk);
        let first = if chunks > 1 { full..=full } else { 1..=full - at.sector };
        let whole = chunks > 1 && media.layout().parity > 0;
        let last = if whole { full..=full } else { 1..=full };
        // All chunks but the last are full, and with parity the last one is full as well.
        let sane = (1..=most).contains(&chunks)
            && first.contains(&head.first_sectors)
            && last.contains(&head.last_sectors);
        if !sane {
            return None;
        }
        self.step = Step::Reading;
        for number in numbers(found.chunks(media.layout())) {
            let sectors = found.chunk_sectors(number);
            let buffer = Buffer::stripe(0, number);
            let into = Target::Data(media.buffers.at(buffer).view_mut_sectors(0, sectors));
            let (device, lba) = (found.chunk_device(number, media), media.layout().lba(at));
            let command = Command::Read { device, lba, into, cause: Cause::Map };
            sent.send(number as u16, command, &mut media.devices, cx);
        }
        Some(())
    }

    /// Returns the set of bad data chunks, and the number of chunks that can be rebuilt.
    fn bad_data(&self, layout: &Layout) -> (u32, u32) {
        let parities = parities(layout);
        (self.bad & !parities, (parities & !self.bad).count_ones())
    }

    /// Continues when all readable chunks are in memory.
    fn stripe_came(&mut self, found: &Found, media: &mut Media, cx: &mut Cx) -> Option<bool> {
        // The contents of that chunk on its device would be included in the new parity, which then
        // would not match the other chunks.
        self.bad |= u32::from(found.origin != HeadOrigin::Device);
        match self.bad_data(media.layout()) {
            (data, can_be_made) if data.count_ones() <= can_be_made => {
                self.make_next(found, media)?
            }
            _ if found.never_came(self.bad, media) => return None,
            // A flush is acknowledged only when the head is on its device. An unreadable chunk
            // elsewhere must not make a volume unrecoverable for a stripe that a cut tore.
            _ if found.origin == HeadOrigin::Torn => return None,
            _ => {
                let device = found.chunk_device(self.bad.trailing_zeros(), media);
                fail(device, DeviceError::Media, cx);
                return Some(false);
            }
        }
        Some(true)
    }

    /// Rebuilds the next bad data chunk from the others; if none is left, checks the records.
    /// Returns `None` if no rebuild is possible.
    fn make_next(&mut self, found: &Found, media: &mut Media) -> Option<()> {
        let data = self.bad_data(media.layout()).0;
        let is_made = |chunk: u32| self.how(chunk).is_some();
        self.step = match numbers(data).find(|chunk| !is_made(*chunk)) {
            None => Step::Entry(0),
            Some(chunk) => {
                let places = |set: u32| {
                    let layout = media.layout();
                    numbers(set).fold(0, |set, it| set | 1 << layout.chunk_at(it).place())
                };
                let others = places(self.bad & !(1 << chunk));
                Step::Folding(found.rebuild(Chunk::Data(chunk as u8), media)?.without_all(others)?)
            }
        };
        Some(())
    }

    /// Returns the rebuild of a data chunk, if it was rebuilt.
    fn how(&self, chunk: u32) -> Option<Rebuild> {
        let is_it = |it: &Rebuild| it.wanted() == Chunk::Data(chunk as u8);
        self.made.into_iter().flatten().find(is_it)
    }

    /// Folds the next chunks into the rebuilt one, at most `MAX_PIECES` at a time.
    fn fold_others(
        &mut self,
        mut rebuild: Rebuild,
        found: &Found,
        sent: &mut UnderWay,
        media: &mut Media,
        cx: &mut Cx,
    ) -> Option<()> {
        let wanted = rebuild.wanted();
        let into = media.layout().chunk_number(wanted);
        let sectors = found.chunk_sectors(into);
        let mut factors = Factors::plain(!rebuild.is_begin());
        let mut sources = ArrayVec::<View, MAX_PIECES>::new();
        while let Some(chunk) = rebuild.next().filter(|_| sources.len() < MAX_PIECES) {
            let buffer = Buffer::stripe(0, media.layout().chunk_number(chunk));
            factors.new[sources.len()] = rebuild.factors().0;
            sources.push(media.buffers.at(buffer).view_sectors(0, sectors));
            rebuild = rebuild.fold();
        }
        match (rebuild.next(), wanted) {
            (Some(_), _) => self.step = Step::Folding(rebuild),
            (None, Chunk::Parity(_)) => self.step = Step::Writing,
            (None, Chunk::Data(_)) => {
                let same = |it: &&mut Option<Rebuild>| it.is_none_or(|it| it.wanted() == wanted);
                let place = self.made.iter_mut().find(same);
                *place.expect("parity covers the missing chunks") = Some(rebuild);
                self.make_next(found, media)?;
            }
        }
        let target = media.buffers.at(Buffer::stripe(0, into)).view_mut_sectors(0, sectors);
        sent.send(
            into as u16,
            Command::Fold { from: sources, into: target, factors },
            &mut media.devices,
            cx,
        );
        Some(())
    }

    /// Checks entry `index` of the stripe.
    fn check_entry(
        &mut self,
        index: u32,
        found: &Found,
        sent: &mut UnderWay,
        media: &mut Media,
        cx: &mut Cx,
    ) -> Option<()> {
        let (head, at) = (found.head, found.at);
        if index == head.entries {
            self.restore(found, sent, media, cx);
            return Some(());
        }
        let entry = log::entry(&found.buf, index)?;
        if entry.kind != Kind::Data {
            self.step = Step::Entry(index + 1);
            return Some(());
        }
        let placement = media.devices.placement(at.segment);
        let chunk = (0..u32::from(head.chunks))
            .find(|chunk| placement.device(at.segment, at.slot, *chunk) == entry.place.device());
        let first = media.layout().lba(at) * SECTOR as u64;
        let byte = entry.place.byte().checked_sub(first);
        let (Some(chunk), Some(byte)) = (chunk, byte) else { return None };
        if byte + u64::from(entry.place.len()) > u64::from(media.layout().chunk) * SECTOR as u64 {
            return None;
        }
        let buffer = Buffer::stripe(0, chunk);
        let from = media.buffers.at(buffer).view(byte as u32, entry.place.len());
        let seed = seed(entry.block, entry.place.generation());
        sent.send(chunk as u16, Command::Digest { from, seed }, &mut media.devices, cx);
        Some(())
    }

    /// Starts writing the missing chunks of the stripe: rebuilt chunks and parity.
    fn restore(&mut self, found: &Found, sent: &mut UnderWay, media: &mut Media, cx: &mut Cx) {
        let (zoned, parity) = (media.layout().zoned, media.layout().parity);
        let made =
            numbers(self.bad_data(media.layout()).0).filter(|chunk| self.how(*chunk).is_some());
        let made = made.fold(0, |set, chunk| set | 1 << chunk);
        // Checking whether parity arrived costs as much as writing it again. But single parity that
        // was used for a rebuild is known to be valid.
        let anew = if parity == 1 && made != 0 { 0 } else { parities(media.layout()) };
        let done = parity == 0 || planted(Bug::ParityNotRestored);
        self.lacks = if done { 0 } else { made | anew };
        if zoned {
            let lacking =
                numbers(self.lacks).filter(|number| found.lacking(*number, media).is_some());
            let lacking = lacking.fold(0, |set, number| set | 1 << number);
            let may_come = numbers(lacking).filter(|number| found.may_open_for(*number, media));
            self.lacks = may_come.fold(0, |set, number| set | 1 << number);
        }
        self.write_next(found, sent, media, cx);
    }

    /// Writes the next missing chunk; a parity chunk is computed first.
    fn write_next(&mut self, found: &Found, sent: &mut UnderWay, media: &mut Media, cx: &mut Cx) {
        let Some(number) = numbers(self.lacks).next() else {
            self.step = Step::Over;
            return;
        };
        self.lacks &= !(1 << number);
        self.step = Step::Writing;
        match media.layout().chunk_at(number) {
            Chunk::Data(_) => self.write_back(number, found, sent, media, cx),
            parity => {
                self.step =
                    Step::Folding(found.rebuild(parity, media).expect("all data is present"));
            }
        }
    }

    fn write_back(
        &mut self,
        chunk: u32,
        found: &Found,
        sent: &mut UnderWay,
        media: &mut Media,
        cx: &mut Cx,
    ) {
        let (at, stream) = (found.at, found.head.stream);
        let (device, first) = (found.chunk_device(chunk, media), media.layout().lba(at));
        let all = (first, first + u64::from(found.chunk_sectors(chunk)));
        let (lba, end) = found.lacking(chunk, media).unwrap_or(all);
        let sectors = (end - lba) as u32;
        let buffer = Buffer::stripe(0, chunk);
        let mut gather = Gather::new();
        let from = (lba - first) as u32;
        gather.push(Piece::Data(media.buffers.at(buffer).view_sectors(from, sectors)));
        let tally = Tally::single(Cause::Parity, sectors);
        count_sent(&tally, cx);
        let command = Command::Program { device, lba, gather, tally, placement: stream };
        sent.send(chunk as u16, command, &mut media.devices, cx);
    }

    /// Handles the completion of a verification command. Returns whether the stripe is complete so
    /// far.
    pub(super) fn done(
        &mut self,
        index: u16,
        command: Command,
        ended: Ended,
        found: &Found,
        media: &mut Media,
    ) -> bool {
        let chunk = u32::from(index);
        let buffer = Buffer::stripe(0, chunk);
        match command {
            Command::Read { into: Target::Data(view), .. } => {
                media.buffers.at(buffer).repay_mut(view);
                self.bad |= u32::from(ended.is_err()) << chunk;
            }
            Command::Fold { from, into, .. } => {
                from.into_iter().for_each(|view: View| media.buffers.repay_stripe(0, view));
                media.buffers.at(buffer).repay_mut(into);
            }
            Command::Program { gather, .. } => {
                for piece in gather {
                    if let Piece::Data(view) = piece {
                        media.buffers.at(buffer).repay(view);
                    }
                }
            }
            Command::Digest { from, .. } => {
                media.buffers.at(buffer).repay(from);
                let crc = ended.expect("a checksum in memory succeeds").crc;
                return self.entry_checked(chunk, crc, found, media).is_some();
            }
            other => unreachable!("{other:?} does not verify"),
        }
        true
    }

    /// Writes the chunk that was folded last if it is missing on its device.
    pub(super) fn write_made(
        &mut self,
        index: u16,
        found: &Found,
        sent: &mut UnderWay,
        media: &mut Media,
        cx: &mut Cx,
    ) {
        if self.step == Step::Writing {
            self.write_back(index.into(), found, sent, media, cx);
        }
    }

    /// Checks the checksum of a record. If it is wrong, the chunk is rebuilt from the others in a
    /// way that was not tried yet. Returns `None` if there is no such way.
    fn entry_checked(
        &mut self,
        chunk: u32,
        crc: u32,
        found: &Found,
        media: &mut Media,
    ) -> Option<()> {
        let Step::Entry(index) = self.step else { unreachable!("an entry is being checked") };
        let listed = log::entry(&found.buf, index).expect("the chunk was read").crc;
        if crc == listed {
            self.step = Step::Entry(index + 1);
            return Some(());
        }
        // The chunk was already rebuilt, so one of its sources must be wrong.
        if let Some(made) = self.how(chunk) {
            self.step = Step::Folding(made.again()?);
            return Some(());
        }
        self.bad |= 1 << chunk;
        let (data, can_be_made) = self.bad_data(media.layout());
        let fits = data.count_ones() <= can_be_made;
        fits.then(|| self.make_next(found, media)).flatten()
    }
}
