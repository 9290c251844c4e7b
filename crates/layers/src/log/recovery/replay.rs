//! Replay: the rows since the root, in the order of their numbers, up to the first that is missing
//! or not whole.
//!
//! Each stream is a chain: a row says how long it is, and in which segment the stream goes on. A
//! row that a later head knows to be durable is taken as it is; the others are verified first (see
//! [`super::verify`]).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, MetaBuf, SECTORS_PER_BLOCK, Target};
use hostftl_format::log::{self, Begin, Entry, Head, Kind, Place, Root, STREAMS};

use crate::planted::{Bug, planted};

use crate::log::Engine;
use crate::log::durability::WINDOW;
use crate::log::layout::{At, Layout};
use crate::log::map::Where;
use crate::log::ops::{Cx, fail, give_up, works};
use crate::log::recovery::verify::Verify;
use crate::log::redundancy::metadata::Wanted;
use crate::log::row::streams::MAP;
use crate::log::stripe::Stripe;

/// Entries of a row whose map pages are asked for at once.
const AHEAD: u32 = 64;

/// What became of an entry.
pub enum Applied {
    /// It was applied, or there is nothing to do.
    Yes,
    /// Its page is to come.
    Later,
    /// It can't be.
    Never(&'static str),
}

/// A row that was found.
#[derive(Debug)]
pub struct Found {
    pub head: Head,
    pub at: At,
    pub buf: MetaBuf,
}

/// The rows of one stream.
#[derive(Debug, Default)]
struct Chain {
    /// Where the next row may be, and on which devices its segment lies; `None` at the end.
    at: Option<(At, Stripe)>,
    /// The segment where the stream went on, if it left that one before its end.
    ahead: Option<(u32, Stripe)>,
    next: Option<Found>,
}

impl Chain {
    /// There is no row where the next one may be: the stream ended, or had left the segment.
    fn end(&mut self) {
        let ahead = self.ahead.take();
        self.at = ahead.map(|(segment, stripe)| (At { segment, slot: 0, sector: 0 }, stripe));
    }
}

/// See the module text.
#[derive(Debug)]
pub struct Replay {
    layout: Layout,
    uuid: [u8; 16],
    chains: [Chain; STREAMS],
    bufs: Vec<MetaBuf>,
    epoch: u32,
    /// The first row to replay, and the one that is looked for.
    from: u64,
    expected: u64,
    /// All rows up to this one are known to be durable.
    durable: u64,
    /// Rows that are found and not applied.
    queue: VecDeque<Found>,
    /// The first entry of the first of them that is not applied.
    entry: u32,
    /// Whether no more rows are looked for.
    found_all: bool,
    pub verify: Verify,
    applied: u64,
    dropped: u64,
}

impl Replay {
    pub fn new(layout: &Layout, uuid: [u8; 16]) -> Self {
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
            applied: 0,
            dropped: 0,
        }
    }

    /// Begins where `root` says.
    pub fn begin(&mut self, root: &Root) {
        self.epoch = root.epoch;
        self.from = root.replay_from;
        self.expected = root.replay_from;
        self.durable = root.durable;
        for (chain, begin) in self.chains.iter_mut().zip(root.streams) {
            let on = |members: u16| Stripe::new(members, self.layout.parity);
            chain.at = begin.map(|Begin { segment, slot, sector, members, .. }| {
                (At { segment, slot, sector }, on(members))
            });
            let ahead = begin.and_then(|begin| begin.ahead);
            chain.ahead = ahead.map(|(segment, members)| (segment, on(members)));
        }
    }

    /// The head of the next row of a stream, if that is what `buf`, read at `lba`, has.
    pub fn next_head(&self, stream: u16, buf: &MetaBuf, lba: u64) -> Option<Head> {
        let head = log::open(buf, &self.uuid, lba)?;
        let (at, stripe) = self.chains[usize::from(stream)].at?;
        let sane = self.layout.admits_head(&head, at, stripe);
        let next = sane && head.epoch == self.epoch && head.seq >= self.expected;
        (next && u16::from(head.stream) == stream).then_some(head)
    }

    /// Rows that were applied, and rows that were found but not whole.
    pub fn counts(&self) -> (u64, u64) {
        (self.applied, self.dropped)
    }
}

impl Engine {
    pub(in crate::log) fn replay(&mut self) -> &mut Replay {
        &mut self.recovery().replay
    }

    pub(in crate::log) fn pump_replay(&mut self, cx: &mut Cx) -> bool {
        if self.recovery().pending > 0 || !self.salvage.is_idle() {
            return false;
        }
        if let Some(moved) = self.with_journal(|it, with| it.scan(with, cx)) {
            return moved;
        }
        if !self.replay().found_all {
            return self.read_heads(cx) || self.take_next() || self.apply_durable(cx);
        }
        let Some(first) = self.replay().queue.front() else {
            if let Some(moved) = self.play_journal(u64::MAX, cx) {
                return moved;
            }
            if let Some(why) = self.journal.lacks_records() {
                give_up(why, cx);
                return false;
            }
            let last = self.replay().expected - 1;
            return self.begin_life(last);
        };
        let (seq, of_map) = (first.head.seq, first.head.stream == MAP);
        let trusted = of_map || seq <= self.replay().durable || planted(Bug::RowsUnverified);
        match trusted || self.replay().verify.is_over() {
            true => self.apply_first(cx),
            false => self.pump_verify(cx),
        }
    }

    /// Reads the next head of each chain.
    fn read_heads(&mut self, cx: &mut Cx) -> bool {
        let mut moved = false;
        for stream in 0..STREAMS {
            let chain = &self.replay().chains[stream];
            let Some((at, stripe)) = chain.at.filter(|_| chain.next.is_none()) else { continue };
            if at.segment >= self.layout.segments || at.slot >= self.layout.slots {
                self.replay().chains[stream].at = None;
                continue;
            }
            // What can't be read there is made from the other members.
            self.devices.membership_mut().claim_rows(at.segment, stripe.members());
            let buf = self.replay().bufs.pop().expect("a buffer for each chain");
            let pages = self.layout.head_pages(at.sector == 0);
            let device = stripe.device(at.segment, at.slot, 0);
            let lba = self.layout.lba(at);
            let into = Target::Meta { buf, pages };
            let command = Command::Read { device, lba, into, cause: Cause::Map };
            self.recover(stream as u16, command, cx);
            moved = true;
        }
        moved
    }

    /// A head was read from its device, or made from the others, or could not be.
    pub(in crate::log) fn head_read(&mut self, stream: u16, buf: MetaBuf) {
        let (at, _) = self.replay().chains[stream as usize].at.expect("the chain goes on");
        let lba = self.layout.lba(at);
        let head = self.replay().next_head(stream, &buf, lba);
        self.journal.row_knows(head.map_or(0, |head| head.journal));
        self.devices.membership_mut().claim_lack(at.segment, head.map_or(0, |head| head.lacking));
        let replay = self.replay();
        let chain = &mut replay.chains[stream as usize];
        match head {
            Some(head) => chain.next = Some(Found { head, at, buf }),
            None => {
                chain.end();
                replay.bufs.push(buf);
            }
        }
    }

    /// The device has answered: is that the head, or what it should have been?
    pub(in crate::log) fn head_came(
        &mut self,
        stream: u16,
        command: Command,
        failed: bool,
        cx: &mut Cx,
    ) {
        let Command::Read { into: Target::Meta { buf, pages }, device, lba, .. } = command else {
            unreachable!("a head comes back")
        };
        let found = !failed && self.replay().next_head(stream, &buf, lba).is_some();
        if !found && self.layout.parity {
            return self.salvage.ask(Wanted::Chain(stream), (device, lba, pages), buf, cx);
        }
        if failed {
            self.replay().bufs.push(buf);
            if self.devices.is_unwritten(device, lba, pages * SECTORS_PER_BLOCK) {
                self.replay().chains[usize::from(stream)].end();
                return;
            }
            return fail(device, DeviceError::Media, cx);
        }
        self.head_read(stream, buf);
    }

    /// Takes the row that is next in order, from whichever chain has it.
    fn take_next(&mut self) -> bool {
        let replay = self.replay();
        if replay.queue.front().is_some_and(|it| it.head.seq <= replay.durable) {
            return false; // These are applied first: their buffers are needed.
        }
        let expected = replay.expected;
        let comes = |seq| seq == expected || planted(Bug::ReplayDisorder);
        let is_next = |chain: &Chain| chain.next.as_ref().is_some_and(|it| comes(it.head.seq));
        let Some(stream) = replay.chains.iter().position(is_next) else {
            replay.found_all = true;
            for chain in &mut replay.chains {
                if let Some(found) = chain.next.take() {
                    replay.dropped += 1;
                    replay.bufs.push(found.buf);
                }
            }
            return true;
        };
        let found = replay.chains[stream].next.take().expect("it was there just now");
        replay.expected += 1;
        replay.durable = replay.durable.max(found.head.durable);
        let (after, ahead) =
            (self.layout.after(found.at, found.head.first_sectors), found.head.next);
        let on = Stripe::new(found.head.next_members, self.layout.parity);
        let stripe = self.devices.stripe(found.at.segment);
        let chain = &mut self.replay().chains[stream];
        chain.at = after.map(|at| (at, stripe));
        chain.ahead = Some((ahead, on));
        if chain.at.is_none() {
            chain.end();
        }
        let (segment, of_map) = (found.at.segment, found.head.stream == MAP);
        self.segments.claim_row(segment, of_map, found.head.seq);
        self.replay().queue.push_back(found);
        true
    }

    /// Applies the first row that is known to be durable.
    fn apply_durable(&mut self, cx: &mut Cx) -> bool {
        let replay = self.replay();
        let durable = replay.durable;
        let ready = replay.queue.front().is_some_and(|it| it.head.seq <= durable);
        ready && self.apply_first(cx)
    }

    /// Does once more what the first row in the queue lists, as far as the pages are here.
    fn apply_first(&mut self, cx: &mut Cx) -> bool {
        let (seq, from) = (self.first_found().head.seq, self.replay().entry);
        if from == 0
            && let Some(moved) = self.play_journal(seq, cx)
        {
            return moved;
        }
        let found = self.replay().queue.pop_front().expect("a row to apply");
        let mut next = from;
        while next < found.head.entries && works(cx) {
            let entry = log::entry(&found.buf, next);
            match entry.map_or(Applied::Yes, |entry| self.apply(entry, cx)) {
                Applied::Yes => next += 1,
                Applied::Later => break,
                Applied::Never(why) => give_up(why, cx),
            }
        }
        if next < found.head.entries {
            self.ask_for_pages(&found, next, cx);
            self.replay().entry = next;
            self.replay().queue.push_front(found);
            return next > from;
        }
        let replay = self.replay();
        (replay.entry, replay.verify) = (0, Verify::default());
        replay.applied += 1;
        replay.bufs.push(found.buf);
        true
    }

    /// Asks for the map pages of the next entries of a row.
    fn ask_for_pages(&mut self, found: &Found, from: u32, cx: &mut Cx) {
        let entries = from..found.head.entries.min(from + AHEAD);
        for entry in entries.filter_map(|index| log::entry(&found.buf, index)) {
            let changes = matches!(entry.kind, Kind::Data | Kind::Trim);
            if changes && entry.block < self.pages.map().len() {
                self.fetch_page(self.pages.map().page_of(entry.block), cx);
            }
        }
    }

    fn apply(&mut self, entry: Entry, cx: &mut Cx) -> Applied {
        if entry.kind == Kind::Data && !self.is_sound(entry.place) {
            return Applied::Never("a row lists what can't be");
        }
        self.apply_sound(entry, cx)
    }

    /// Applies an entry whose place is known to be one.
    pub(in crate::log) fn apply_sound(&mut self, entry: Entry, cx: &mut Cx) -> Applied {
        let Entry { kind, block, place, crc } = entry;
        cx.touch(1);
        let end = match kind {
            Kind::Map | Kind::Directory | Kind::Counts => return Applied::Yes,
            Kind::Trim => block.saturating_add(place.bits()),
            Kind::Data => block + 1,
        };
        let page = self.pages.map().page_of(block);
        let sound = block < end
            && end <= self.pages.map().len()
            && self.pages.map().page_of(end - 1) == page;
        if !sound {
            return Applied::Never("a row lists what can't be");
        }
        match self.fetch_page(page, cx) {
            Where::Here => {}
            Where::Bad => return Applied::Never("an image of the map can't be read"),
            Where::Away if self.pages.loads().is_idle() && self.pages.may_load(cx) => {
                return Applied::Never("replay needs more map memory than there is");
            }
            Where::Away | Where::Coming => return Applied::Later,
        }
        let place = if kind == Kind::Data { place } else { Place::NOWHERE };
        (block..end).for_each(|block| self.point(block, place, crc));
        cx.touch((end - block) as usize);
        Applied::Yes
    }

    /// Points a block somewhere else.
    fn point(&mut self, block: u64, place: Place, crc: u32) {
        if self.pages.map().place(block).is_nowhere() && place.is_nowhere() {
            return;
        }
        let old = self.pages.map_mut().set(block, place, crc);
        if !place.is_nowhere() && !self.journal.is_place(place) {
            let segment = self.layout.segment_of(place.byte());
            self.segments.claim(segment, false);
            self.segments.add(segment, place);
        }
        if !old.is_nowhere() && !self.journal.is_place(old) {
            self.segments.kill(self.layout.segment_of(old.byte()), old);
        }
    }

    /// The first row in the queue.
    pub(in crate::log) fn first_found(&mut self) -> &Found {
        self.replay().queue.front().expect("a row to verify")
    }

    /// The first row in the queue is not whole: the log ends before it.
    pub(in crate::log) fn end_here(&mut self) -> bool {
        let replay = self.replay();
        let first = replay.queue.front().expect("a row that is not whole").head.seq;
        replay.dropped += replay.queue.len() as u64;
        replay.expected = first;
        replay.queue.clear();
        replay.verify = Verify::default();
        true
    }
}
