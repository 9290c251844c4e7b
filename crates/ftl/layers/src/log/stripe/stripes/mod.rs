//! All stripes, and the state of the streams: the stripe that each stream fills, and the next one.
//!
//! Invariants
//! - A stream fills one stripe at a time, and has the segment after its current one open.
//! - Some stripes are reserved for host streams when copies use many stripes, and for copies when
//!   the host does.

pub(in crate::log) mod write_out;

use core::ops::{Index, IndexMut};

use alloc::vec::Vec;

use hostftl_format::log::{Begin, Place, STREAMS};

use crate::log::durability::{Durability, Unsealed};
use crate::log::layout::{At, Layout, STRIPES};
use crate::log::media::Media;
use crate::log::ops::Cx;
use crate::log::segments::Segments;
use crate::log::stripe::streams::{COPIES, MAP, is_of_host};
use crate::log::stripe::{Phase, Stripe};
use crate::planted::{Bug, planted};

/// Position of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Position of the next stripe; `None` before the first segment.
    next: Option<At>,
    /// Segment after the current one.
    ahead: Option<u32>,
    /// Stripe that is being filled.
    filling: Option<u8>,
}

#[derive(Debug)]
pub(crate) struct Stripes {
    layout: Layout,
    list: Vec<Stripe>,
    /// Stripes that are closed, being sealed or drained: a round may advance them.
    active: u32,
    /// Stripes that are being filled or closed.
    unsealed: u32,
    /// Stripes in use: those of copies and map images, and those of host streams.
    used: [u32; 2],
    streams: [Stream; STREAMS],
}

impl Index<u8> for Stripes {
    type Output = Stripe;

    #[inline]
    fn index(&self, stripe: u8) -> &Stripe {
        &self.list[usize::from(stripe)]
    }
}

impl IndexMut<u8> for Stripes {
    #[inline]
    fn index_mut(&mut self, stripe: u8) -> &mut Stripe {
        &mut self.list[usize::from(stripe)]
    }
}

impl Stripes {
    /// Returns idle stripes, without any open stream.
    pub(crate) fn new(layout: &Layout) -> Self {
        Stripes {
            layout: *layout,
            list: (0..STRIPES).map(|_| Stripe::new(layout)).collect(),
            active: 0,
            unsealed: 0,
            used: [0; 2],
            streams: [Stream::default(); STREAMS],
        }
    }

    /// Returns all stripes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stripe> + Clone {
        self.list.iter()
    }

    /// Returns all stripes for modification.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stripe> {
        self.list.iter_mut()
    }

    /// Changes the phase of a stripe.
    #[inline]
    pub(crate) fn go(&mut self, stripe: u8, next: Phase) {
        self[stripe].go(next);
        self.note_use(stripe);
        let moves = matches!(next, Phase::Closed | Phase::Sealing | Phase::Draining);
        if moves {
            // Only these phases advance in a round; the others wait for data or for commands.
            self.active |= 1 << stripe
        } else {
            self.active &= !(1 << stripe)
        }
        if !self[stripe].is_unsealed() {
            self.unsealed &= !(1 << stripe);
        }
    }

    /// Updates the sets of stripes in use.
    fn note_use(&mut self, stripe: u8) {
        self.used.iter_mut().for_each(|of| *of &= !(1 << stripe));
        let it = &self[stripe];
        if it.phase() != Phase::Idle {
            let of_host = usize::from(it.is_of_host());
            self.used[of_host] |= 1 << stripe;
        }
    }

    /// Returns the stripes that a round may advance, as a bit mask.
    pub(crate) fn active(&self) -> u32 {
        self.active
    }

    /// Returns whether the stripe that begins at `at` is not written yet.
    pub(crate) fn is_unwritten(&self, at: At) -> bool {
        // An idle stripe keeps its last position.
        let is_it = |stripe: &&Stripe| stripe.at == at && stripe.phase() != Phase::Idle;
        self.list.iter().find(is_it).is_some_and(|stripe| stripe.phase() != Phase::Draining)
    }

    /// Returns an idle stripe.
    pub(crate) fn idle(&self) -> Option<u8> {
        const { assert!(STRIPES == u32::BITS as usize, "the set has a bit per member") };
        let first = (self.used[0] | self.used[1]).trailing_ones();
        (first < STRIPES as u32).then_some(first as u8)
    }

    /// Returns the stripes in use.
    fn in_use(&self) -> impl Iterator<Item = (u8, &Stripe)> {
        self.in_set(self.used[0] | self.used[1])
    }

    /// Returns the stripes of a bit mask, and their numbers.
    fn in_set(&self, set: u32) -> impl Iterator<Item = (u8, &Stripe)> {
        let mut left = set;
        core::iter::from_fn(move || {
            let stripe = left.trailing_zeros() as u8;
            left &= left.checked_sub(1)?;
            Some((stripe, &self[stripe]))
        })
    }

    /// Reserves `len` bytes in the stripe that a stream fills. Returns the stripe, the chunk and
    /// the byte, or `None` if it is full or missing.
    #[inline(always)]
    pub(crate) fn take_here(&mut self, stream: u8, len: u32) -> Option<(u8, u8, u32)> {
        let stripe = self.streams[usize::from(stream)].filling?;
        let (chunk, byte) = self[stripe].take(len)?;
        Some((stripe, chunk, byte))
    }

    /// Reserves `len` bytes in the current or next stripe. A segment is opened only if at least
    /// `floor` stay free. Returns `None` if there is no space now.
    pub(crate) fn take_in_next(
        &mut self,
        (stream, floor): (u8, impl Fn(&Stripes, &Durability, &Segments) -> u32),
        len: u32,
        media: &mut Media,
        durability: &mut Durability,
        cx: &mut Cx,
    ) -> Option<(u8, u8, u32)> {
        // After a stripe that was sealed early, the rest of a slot may have space only for a head.
        for _ in 0..2 {
            let stripe = match self.streams[usize::from(stream)].filling {
                Some(stripe) => stripe,
                None => self.open(stream, &floor, media, durability, cx)?,
            };
            if let Some((chunk, byte)) = self[stripe].take(len) {
                return Some((stripe, chunk, byte));
            }
            self.close(stripe, media, cx);
        }
        None
    }

    /// Notes that `records` records are in a stripe, or will not come. A closed stripe may then be
    /// sealed.
    pub(crate) fn placed(&mut self, stripe: u8, records: u32, cx: &mut Cx) {
        let it = &mut self[stripe];
        assert!(it.placing >= records, "the item was in progress");
        it.placing -= records;
        if it.phase() != Phase::Filling && !planted(Bug::StripeForgotten) {
            // The stripe may be ready for sealing, which the fast path does not do.
            cx.invalidate_fast_path();
        }
    }

    /// Closes a stripe to further items.
    pub(crate) fn close(&mut self, stripe: u8, media: &mut Media, cx: &mut Cx) {
        cx.invalidate_fast_path();
        self.go(stripe, Phase::Closed);
        let it = &self[stripe];
        let (stream, at, sectors) = (it.stream, it.at, it.sectors(&self.layout, 0));
        self.streams[usize::from(stream)].filling = None;
        self.advance(stream, at, sectors, media);
    }

    fn open(
        &mut self,
        stream: u8,
        floor: &impl Fn(&Stripes, &Durability, &Segments) -> u32,
        media: &mut Media,
        durability: &mut Durability,
        cx: &mut Cx,
    ) -> Option<u8> {
        let filling = self.streams[usize::from(stream)].filling;
        assert_eq!(filling, None, "a stream fills one stripe at a time");
        // One stripe for each stream of the other kind.
        let others = if is_of_host(stream) { MAP - COPIES } else { COPIES };
        let held = self.used[usize::from(is_of_host(stream))].count_ones();
        if held + u32::from(others) >= STRIPES as u32 {
            return None; // Stripes are reserved for the other streams.
        }
        let stripe = self.idle()?;
        // Last of the conditions, because it may open a segment and takes the position.
        let at = self.next_at(stream, floor(self, durability, &media.segments), media)?;
        cx.invalidate_fast_path();
        let stamp = durability.open();
        media.segments.set_youngest(stamp);
        let ahead = self.ahead(stream).expect("a stream knows its next segment");
        let it = &mut self.list[usize::from(stripe)];
        it.open(&self.layout, (at, media.devices.placement(at.segment)), stream, stamp);
        // The head of the stripe names the next segment, so that replay can follow the chain.
        it.ahead = ahead;
        self.note_use(stripe);
        self.unsealed |= 1 << stripe;
        media.segments.stripe_opened(at.segment);
        self.streams[usize::from(stream)].filling = Some(stripe);
        Some(stripe)
    }

    /// Returns the segment after the current one of a stream.
    pub(crate) fn ahead(&self, stream: u8) -> Option<u32> {
        self.streams[usize::from(stream)].ahead
    }

    /// Opens the segment after the current one of a stream, if there is none.
    pub(crate) fn open_next(&mut self, stream: u8, media: &mut Media) {
        let ahead = &mut self.streams[usize::from(stream)].ahead;
        ahead.get_or_insert_with(|| media.devices.open_segment(stream, &mut media.segments));
    }

    /// Returns the position of the next stripe of a stream. Opens a segment if needed and at least
    /// `floor` stay free.
    pub(crate) fn next_at(&mut self, stream: u8, floor: u32, media: &mut Media) -> Option<At> {
        let it = &mut self.streams[usize::from(stream)];
        if it.next.is_none() {
            // A stream holds two segments; normally one of them is open already.
            let wanted = 1 + u32::from(it.ahead.is_none());
            // Both segments are taken at once: a stripe must know the one after its own.
            if media.segments.free() < floor + wanted {
                return None;
            }
            let mut open = || media.devices.open_segment(stream, &mut media.segments);
            let segment = it.ahead.take().unwrap_or_else(&mut open);
            it.ahead = Some(open());
            it.next = Some(At { segment, slot: 0, sector: 0 });
        }
        Some(it.next.take().expect("a slot is free"))
    }

    /// Advances a stream past a stripe that took `sectors` sectors of its slot. The stream goes to
    /// the next segment if that or the current one has a missing chunk, so that it reaches a
    /// complete segment.
    pub(crate) fn advance(&mut self, stream: u8, at: At, sectors: u32, media: &mut Media) {
        let devices = &media.devices;
        let ahead = self.streams[usize::from(stream)].ahead;
        let mut both = ahead.into_iter().chain([at.segment]);
        let can_continue = !devices.is_hurt(at.segment) && !both.any(|it| devices.is_exposed(it));
        let next = self.layout.after(at, sectors).filter(|_| can_continue);
        self.streams[usize::from(stream)].next = next;
        // The stream continues in the segment ahead, and this one receives no further stripe.
        if next.is_none() {
            media.segments.leave(at.segment);
        }
    }

    /// Moves one stream towards a segment without missing chunks: closes the stripe that it fills,
    /// or writes an empty one. Returns false if all streams except that of the map have reached
    /// one, or none can be moved now.
    pub(crate) fn leave_exposed(
        &mut self,
        media: &mut Media,
        durability: &mut Durability,
        cx: &mut Cx,
    ) -> bool {
        self.leave_where(|it, segment| it.devices.is_exposed(segment), media, durability, cx)
    }

    /// Moves one stream away from segments in which a scrub found damage.
    pub(crate) fn leave_flawed(
        &mut self,
        media: &mut Media,
        durability: &mut Durability,
        cx: &mut Cx,
    ) -> bool {
        self.leave_where(|it, segment| it.segments.is_flawed(segment), media, durability, cx)
    }

    fn leave_where(
        &mut self,
        leaves: impl Fn(&Media, u32) -> bool,
        media: &mut Media,
        durability: &mut Durability,
        cx: &mut Cx,
    ) -> bool {
        for stream in 0..MAP {
            let Stream { next, ahead, filling } = self.streams[usize::from(stream)];
            let at = filling.map(|stripe| self[stripe].at).or(next);
            let all = at.map(|at| at.segment).into_iter().chain(ahead);
            if !all.into_iter().any(|segment| leaves(media, segment)) {
                continue;
            }
            if let Some(next) = next.filter(|next| leaves(media, next.segment)) {
                self.streams[usize::from(stream)].next = None;
                media.segments.leave(next.segment);
                return true;
            }
            // A move restores redundancy or avoids damage, so it may use the reserve, as garbage
            // collection does.
            let floor = |_: &Stripes, _: &Durability, it: &Segments| it.reserves().gc_floor();
            let stripe = filling.or_else(|| self.open(stream, &floor, media, durability, cx));
            let Some(stripe) = stripe else { continue };
            self.close(stripe, media, cx);
            return true;
        }
        false
    }

    /// Stops writing to a segment.
    pub(crate) fn leave(&mut self, segment: u32, segments: &mut Segments) {
        for stream in &mut self.streams {
            if stream.next.is_some_and(|next| next.segment == segment) {
                stream.next = None;
                segments.leave(segment);
            }
        }
    }

    /// Returns the position of the first unsealed stripe of a stream.
    pub(crate) fn begins(&self, stream: u8, media: &Media) -> Option<Begin> {
        let it = &self.streams[usize::from(stream)];
        let unsealed =
            self.list.iter().filter(|stripe| stripe.stream == stream && stripe.is_unsealed());
        // The position with the lowest stamp comes first: a closed stripe is before the one that is
        // being filled.
        let first = unsealed
            .min_by_key(|stripe| stripe.stamp)
            .map(|stripe| (stripe.at, Some(stripe.ahead)));
        let next = it.next.map(|at| (at, it.ahead));
        let ahead = it.ahead.map(|segment| (At { segment, slot: 0, sector: 0 }, None));
        let (At { segment, slot, sector }, ahead) = first.or(next).or(ahead)?;
        let members = |segment: u32| media.devices.placement(segment).members().to_bits();
        let ahead = ahead.map(|segment| (segment, members(segment)));
        Some(Begin { segment, slot, sector, members: members(segment), ahead })
    }

    /// Closes the stripes that a flush or a root waits for.
    pub(crate) fn commit(
        &mut self,
        media: &mut Media,
        durability: &mut Durability,
        cx: &mut Cx,
    ) -> bool {
        if durability.all_closed() {
            return false;
        }
        let (mut moved, mut all) = (false, true);
        for stream in 0..self.streams.len() {
            let Some(stripe) = self.streams[stream].filling else { continue };
            let it = &self[stripe];
            let asked = durability.wants(it.stamp, it.is_of_host());
            // An empty stripe is not written. It may still receive data, so it is evaluated again
            // later.
            if asked && it.is_empty() {
                all = false;
            } else if asked {
                self.close(stripe, media, cx);
                moved = true;
            }
        }
        if all {
            durability.set_closed();
        }
        moved
    }

    /// Returns the stripe in memory that has the record at `place` in a segment, with its chunk and
    /// byte.
    #[inline]
    pub(crate) fn holding(
        &self,
        place: Place,
        segment: u32,
        segments: &Segments,
    ) -> Option<(u8, u8, u32)> {
        // Most records are in segments without a stripe in memory, so the search is usually
        // avoided.
        if segments.has_stripes(segment) { self.find(place, segment) } else { None }
    }

    fn find(&self, place: Place, segment: u32) -> Option<(u8, u8, u32)> {
        self.in_use().find_map(|(index, stripe)| {
            if !stripe.is_buffered() || stripe.at.segment != segment {
                return None;
            }
            let (chunk, byte) = stripe.spread.find(place)?;
            // After a stripe that was sealed early, the slot may contain the next one.
            let inside = byte < stripe.fill.used(chunk.into()).into() || planted(Bug::StripeOfSlot);
            inside.then_some((index, chunk, byte as u32))
        })
    }

    /// Returns the unsealed stripes and their numbers.
    #[inline]
    fn open_ones(&self) -> impl Iterator<Item = (u8, &Stripe)> {
        self.in_set(self.unsealed)
    }

    /// Returns the oldest unsealed stripes that are not empty.
    pub(crate) fn unsealed(&self) -> Unsealed {
        let mut first = Unsealed::default();
        for (_, it) in self.open_ones() {
            if !it.is_empty() {
                let min = |of: Option<u64>| Some(of.map_or(it.stamp, |of| of.min(it.stamp)));
                first.any = min(first.any);
                first.host = if it.is_of_host() { min(first.host) } else { first.host };
            }
        }
        first
    }

    /// Returns whether all earlier sealed stripes of its stream are being written or durable.
    pub(crate) fn is_first(&self, stripe: u8) -> bool {
        let it = &self[stripe];
        let before = |other: &Stripe| {
            other.phase() == Phase::Sealing && other.stream == it.stream && other.seq < it.seq
        };
        !self.list.iter().any(before)
    }
}
