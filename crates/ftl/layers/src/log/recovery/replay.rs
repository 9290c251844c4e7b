//! Replay of the stripes since the root, in the order of their numbers, up to the first missing or
//! incomplete stripe.
//!
//! Each stream is a chain: a stripe records its length and the next segment of its stream. A stripe
//! that a later head marks durable is applied without verification; other stripes are verified
//! first (see [`super::verify`]).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, DeviceSet, MetaBuf, SECTORS_PER_BLOCK, Target};
use hostftl_format::log::{self, Begin, Head, Root, STREAMS};

use crate::planted::{Bug, planted};

use crate::kit::shell::Ended;
use crate::log::array::Array;
use crate::log::chunk_placement::ChunkPlacement;
use crate::log::durability::WINDOW;
use crate::log::layout::{At, Layout};
use crate::log::ops::{Cx, fail, fail_volume, works};
use crate::log::recovery::apply::{Applied, apply, ask_for_pages, play_journal};
use crate::log::recovery::found::{Found, HeadOrigin};
use crate::log::recovery::under_way::UnderWay;
use crate::log::recovery::verify::Verify;
use crate::log::redundancy::metadata::Wanted;
use crate::log::stripe::streams::MAP;

/// Result of a replay step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Progress was made.
    Moved,
    /// A command is in flight.
    Waits,
    /// All stripes up to this number are applied, and no later stripe is complete.
    Over(u64),
}

impl Progress {
    fn when(moved: bool) -> Self {
        if moved { Progress::Moved } else { Progress::Waits }
    }
}

/// Stripes of one stream.
#[derive(Debug, Default)]
struct Chain {
    /// Position of the next stripe, and the devices of its segment; `None` at the end.
    at: Option<(At, ChunkPlacement)>,
    /// Next segment of the stream, if it left the current one before its end.
    ahead: Option<(u32, ChunkPlacement)>,
    next: Option<Found>,
    /// Whether the head at `at` could not be read from its device.
    unreadable: bool,
}

impl Chain {
    /// Continues in the next segment, or ends the chain, because there is no stripe at the expected
    /// position.
    fn end(&mut self) {
        let ahead = self.ahead.take();
        self.at = ahead.map(|(segment, placement)| (At { segment, slot: 0, sector: 0 }, placement));
    }
}

#[derive(Debug)]
pub(crate) struct Replay {
    layout: Layout,
    uuid: [u8; 16],
    chains: [Chain; STREAMS],
    bufs: Vec<MetaBuf>,
    epoch: u32,
    /// First stripe to replay, and the next stripe to find.
    from: u64,
    expected: u64,
    /// All stripes up to this number are known to be durable.
    durable: u64,
    /// Stripes that are found but not applied.
    queue: VecDeque<Found>,
    /// First entry of the first queued stripe that is not applied.
    entry: u32,
    /// Whether the search for stripes has ended.
    found_all: bool,
    verify: Verify,
    sent: UnderWay,
    applied: u64,
    dropped: u64,
}

impl Replay {
    pub(crate) fn new(layout: &Layout, uuid: [u8; 16]) -> Self {
        let pages = layout.head_pages(true) as usize;
        let bufs = 2 * WINDOW as usize + 2 * STREAMS;
        Replay {
            layout: *layout,
            uuid,
            chains: Default::default(),
            bufs: (0..bufs).map(|_| MetaBuf::new(pages)).collect(),
            epoch: 0,
            from: 0,
            expected: 0,
            durable: 0,
            queue: VecDeque::with_capacity(bufs),
            entry: 0,
            found_all: false,
            verify: Verify::default(),
            sent: UnderWay::default(),
            applied: 0,
            dropped: 0,
        }
    }

    /// Starts at the positions that `root` records.
    pub(crate) fn begin(&mut self, root: &Root) {
        self.epoch = root.epoch;
        self.from = root.replay_from;
        self.expected = root.replay_from;
        self.durable = root.durable;
        for (chain, begin) in self.chains.iter_mut().zip(root.streams) {
            let on =
                |members| ChunkPlacement::new(DeviceSet::from_bits(members), self.layout.parity);
            chain.at = begin.map(|Begin { segment, slot, sector, members, .. }| {
                (At { segment, slot, sector }, on(members))
            });
            let ahead = begin.and_then(|begin| begin.ahead);
            chain.ahead = ahead.map(|(segment, members)| (segment, on(members)));
        }
    }

    /// Returns the head of the next stripe of a stream, if `buf`, read at `lba`, contains it.
    pub(crate) fn next_head(&self, stream: u16, buf: &MetaBuf, lba: u64) -> Option<Head> {
        let head = log::open(buf, &self.uuid, lba)?;
        let (at, placement) = self.chains[usize::from(stream)].at?;
        let sane = self.layout.admits_head(&head, at, placement);
        let next = sane && head.epoch == self.epoch && head.seq >= self.expected;
        (next && u16::from(head.stream) == stream).then_some(head)
    }

    /// Returns the number of applied stripes, and of stripes that were found but dropped as
    /// incomplete.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.applied, self.dropped)
    }
}

impl Replay {
    /// Performs the next step.
    pub(crate) fn pump(&mut self, array: &mut Array, cx: &mut Cx) -> Progress {
        if !self.sent.is_empty() || !array.media.metadata_repair.is_idle() {
            return Progress::Waits;
        }
        if let Some(moved) = array.output.journal.scan(&mut array.media, cx) {
            return Progress::when(moved);
        }
        if !self.found_all {
            let moved = self.read_heads(array, cx)
                || self.take_next(array)
                || self.apply_durable(array, cx);
            return Progress::when(moved);
        }
        if self.queue.is_empty() {
            return self.end_of_log(array, cx);
        }
        Progress::when(self.take_first(array, cx))
    }

    /// Finishes after the last stripe, when only journal records may remain.
    fn end_of_log(&mut self, array: &mut Array, cx: &mut Cx) -> Progress {
        if let Some(moved) = play_journal(u64::MAX, array, cx) {
            return Progress::when(moved);
        }
        match array.output.journal.lacks_records() {
            Some(why) => {
                fail_volume(why, cx);
                Progress::Waits
            }
            None => Progress::Over(self.expected - 1),
        }
    }

    /// Applies the first stripe in the queue, or verifies it.
    fn take_first(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let first = self.queue.front().expect("a stripe to apply");
        let (seq, of_map) = (first.head.seq, first.head.stream == MAP);
        // Entries of map stripes are not applied, so these stripes need no verification.
        let trusted = of_map || seq <= self.durable || planted(Bug::StripesUnverified);
        if trusted || self.verify.is_over() {
            self.apply_first(array, cx)
        } else {
            let Replay { verify, queue, sent, .. } = self;
            let found = queue.front().expect("a stripe to verify");
            let moved = verify.pump(found, sent, &mut array.media, cx);
            moved.unwrap_or_else(|| self.end_here())
        }
    }

    /// Handles the completion of a replay command.
    pub(crate) fn done(
        &mut self,
        index: u16,
        command: Command,
        ended: Ended,
        array: &mut Array,
        cx: &mut Cx,
    ) {
        self.sent.end();
        if matches!(command, Command::Read { into: Target::Meta { .. }, .. }) {
            return self.head_came(index, command, ended.is_err(), array, cx);
        }
        let Replay { verify, queue, sent, .. } = self;
        let found = queue.front().expect("a stripe to verify");
        let is_made = matches!(command, Command::Fold { .. });
        if !verify.done(index, command, ended, found, &mut array.media) {
            self.end_here();
        } else if is_made {
            verify.write_made(index, found, sent, &mut array.media, cx);
        }
    }

    /// Reads the next head of each chain.
    fn read_heads(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let mut moved = false;
        for stream in 0..STREAMS {
            let chain = &self.chains[stream];
            let Some((at, placement)) = chain.at.filter(|_| chain.next.is_none()) else { continue };
            if at.segment >= array.layout().segments || at.slot >= array.layout().slots {
                self.chains[stream].at = None;
                continue;
            }
            // Unreadable heads of this segment are rebuilt from its other members.
            array.media.devices.membership_mut().claim_stripes(at.segment, placement.members());
            let buf = self.bufs.pop().expect("a buffer for each chain");
            let pages = array.layout().head_pages(at.sector == 0);
            let device = placement.device(at.segment, at.slot, 0);
            let lba = array.layout().lba(at);
            let into = Target::Meta { buf, pages };
            let command = Command::Read { device, lba, into, cause: Cause::Map };
            self.sent.send(stream as u16, command, &mut array.media.devices, cx);
            moved = true;
        }
        moved
    }

    /// Handles a head that was rebuilt from the other chunks, or could not be.
    pub(crate) fn head_made(&mut self, stream: u16, buf: MetaBuf, array: &mut Array) {
        let unreadable = self.chains[usize::from(stream)].unreadable;
        let origin = if unreadable { HeadOrigin::Unreadable } else { HeadOrigin::Torn };
        self.head_read(stream, buf, origin, array);
    }

    /// Handles a head that was read from its device or rebuilt from the other chunks.
    fn head_read(&mut self, stream: u16, buf: MetaBuf, origin: HeadOrigin, array: &mut Array) {
        let (at, _) = self.chains[stream as usize].at.expect("the chain continues");
        let lba = array.layout().lba(at);
        let head = self.next_head(stream, &buf, lba);
        array.output.journal.stripe_knows(head.map_or(0, |head| head.journal));
        array
            .media
            .devices
            .membership_mut()
            .claim_lack(at.segment, DeviceSet::from_bits(head.map_or(0, |head| head.lacking)));
        let chain = &mut self.chains[stream as usize];
        match head {
            Some(head) => chain.next = Some(Found { head, at, buf, origin }),
            None => {
                chain.end();
                self.bufs.push(buf);
            }
        }
    }

    /// Handles a head read from its device. If it is not valid and there is parity, it is rebuilt,
    /// since the device may be the cause.
    fn head_came(
        &mut self,
        stream: u16,
        command: Command,
        failed: bool,
        array: &mut Array,
        cx: &mut Cx,
    ) {
        let Command::Read { into: Target::Meta { buf, pages }, device, lba, .. } = command else {
            unreachable!("a completed head")
        };
        self.chains[usize::from(stream)].unreadable = failed;
        let found = !failed && self.next_head(stream, &buf, lba).is_some();
        if !found && array.layout().parity > 0 {
            let place = (device, lba, pages);
            return array.media.metadata_repair.ask(
                Wanted::Chain(stream),
                place,
                buf,
                &array.media.devices,
                cx,
            );
        }
        if failed {
            self.bufs.push(buf);
            if array.media.devices.is_unwritten(device, lba, pages * SECTORS_PER_BLOCK) {
                self.chains[usize::from(stream)].end();
                return;
            }
            return fail(device, DeviceError::Media, cx);
        }
        self.head_read(stream, buf, HeadOrigin::Device, array);
    }

    /// Takes the next stripe in order from the chain that has it.
    fn take_next(&mut self, array: &mut Array) -> bool {
        if self.queue.front().is_some_and(|it| it.head.seq <= self.durable) {
            return false; // These are applied first: their buffers are needed.
        }
        let expected = self.expected;
        let comes = |seq| seq == expected || planted(Bug::ReplayDisorder);
        let is_next = |chain: &Chain| chain.next.as_ref().is_some_and(|it| comes(it.head.seq));
        let Some(stream) = self.chains.iter().position(is_next) else {
            self.found_all = true;
            for chain in &mut self.chains {
                if let Some(found) = chain.next.take() {
                    self.dropped += 1;
                    self.bufs.push(found.buf);
                }
            }
            return true;
        };
        let found = self.chains[stream].next.take().expect("the entry exists");
        self.expected += 1;
        // A head records the stripes that were durable when it was sealed.
        self.durable = self.durable.max(found.head.durable);
        let (after, ahead) =
            (array.layout().after(found.at, found.head.first_sectors), found.head.next);
        let next = DeviceSet::from_bits(found.head.next_members);
        let on = ChunkPlacement::new(next, array.layout().parity);
        let placement = array.media.devices.placement(found.at.segment);
        let chain = &mut self.chains[stream];
        chain.at = after.map(|at| (at, placement));
        chain.ahead = Some((ahead, on));
        if chain.at.is_none() {
            chain.end();
        }
        let (segment, of_map) = (found.at.segment, found.head.stream == MAP);
        array.media.segments.claim_stripe(segment, of_map, found.head.seq);
        array.media.devices.membership_mut().note_stripe(segment, found.head.seq);
        self.queue.push_back(found);
        true
    }

    /// Applies the first queued stripe if it is known to be durable.
    fn apply_durable(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let durable = self.durable;
        let ready = self.queue.front().is_some_and(|it| it.head.seq <= durable);
        ready && self.apply_first(array, cx)
    }

    /// Applies the entries of the first queued stripe, up to the first whose map page is not in
    /// memory.
    fn apply_first(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let (seq, from) = (self.queue.front().expect("a stripe to apply").head.seq, self.entry);
        // Journal records that are due before this stripe are replayed first.
        if from == 0
            && let Some(moved) = play_journal(seq, array, cx)
        {
            return moved;
        }
        let found = self.queue.pop_front().expect("a stripe to apply");
        let mut next = from;
        while next < found.head.entries && works(cx) {
            let entry = log::entry(&found.buf, next);
            match entry.map_or(Applied::Yes, |entry| apply(entry, array, cx)) {
                Applied::Yes => next += 1,
                Applied::Later => break,
                Applied::Never(why) => fail_volume(why, cx),
            }
        }
        if next < found.head.entries {
            ask_for_pages(&found, next, array, cx);
            self.entry = next;
            self.queue.push_front(found);
            return next > from;
        }
        (self.entry, self.verify) = (0, Verify::default());
        self.applied += 1;
        self.bufs.push(found.buf);
        true
    }

    /// Ends the log before the first queued stripe, which is incomplete.
    fn end_here(&mut self) -> bool {
        let first = self.queue.front().expect("an incomplete stripe").head.seq;
        self.dropped += self.queue.len() as u64;
        self.expected = first;
        // Later stripes were not acknowledged either, since stripes are acknowledged in the order
        // of their numbers.
        self.queue.clear();
        self.verify = Verify::default();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_continues_at_the_link_of_its_last_stripe() {
        let placement = ChunkPlacement::new(DeviceSet::first_n(2), 0);
        let at = At { segment: 3, slot: 7, sector: 0 };
        let mut chain =
            Chain { at: Some((at, placement)), ahead: Some((5, placement)), ..Chain::default() };
        chain.end();
        assert_eq!(chain.at, Some((At { segment: 5, slot: 0, sector: 0 }, placement)));
        chain.end();
        assert_eq!(chain.at, None, "it had not gone on from there");
    }
}
