//! How fast the host may write while segments are few: as fast as collection gains room, so that no
//! write waits for a whole victim.
//!
//! Room is given out slot by slot of the victim, in their order, each with its share of what the
//! victim gains. When
//! all segments of the lead are there the host gets twice what is gained, when none is left
//! nothing: so it settles in between, wherever it meets what the host wants.
//!
//! Invariant: the host is held back only while a victim is gone through, so more room comes soon.

use hostftl_format::log::GRAIN;

use crate::kit::Life;
use crate::log::gc::Collection;
use crate::log::gc::victim::Victim;
use crate::log::layout::Layout;
use crate::log::media::Media;
use crate::log::ops::Cx;
use crate::log::segments::Segments;

/// What the host has at most, in rows: a short rest may be made up for.
const MOST_ROWS: u64 = 2;

#[derive(Debug)]
pub(super) struct Pace {
    /// What the host may write, in bytes; the last record may overdraw it.
    room: i64,
    most: i64,
    /// What each slot of the victim gains, in bytes.
    gain: u64,
    /// Slots of the victim that were paid out.
    paid: u32,
}

impl Pace {
    pub(super) fn new(layout: &Layout) -> Self {
        let most = (MOST_ROWS * layout.row_blocks() * 4096) as i64;
        Pace { room: most, most, gain: 0, paid: 0 }
    }

    /// A victim of so many slots that gains `bytes` is begun.
    fn begin(&mut self, bytes: u64, slots: u32) {
        (self.gain, self.paid) = (bytes / u64::from(slots), 0);
    }

    /// The first `slots` slots were gone through; of what they gain the host gets `share` 256ths.
    fn pay(&mut self, slots: u32, share: u64) {
        let more = self.gain * u64::from(slots - self.paid) * share / 256;
        self.room = self.most.min(self.room + more as i64);
        self.paid = slots;
    }
}

/// Bytes that are live, and that a segment has room for.
fn sizes(segments: &Segments) -> (u64, u64) {
    let segment = u64::from(segments.grains_of_new()) * u64::from(GRAIN);
    (segments.total() * u64::from(GRAIN), segment)
}

impl Collection {
    /// Segments above the reserve that are or will be free.
    fn lead_left(&self, segments: &Segments) -> u32 {
        let left = segments.free() + segments.empty();
        left.saturating_sub(segments.reserves().host)
    }

    /// Whether free segments are getting few.
    pub(crate) fn wants_collection(&self, segments: &Segments) -> bool {
        self.lead_left(segments) < segments.reserves().lead
    }

    /// Whether collection itself will soon find no free segment: cuts in a row each left one open
    /// that holds little. Then only the victim that is done first helps.
    pub(crate) fn is_short(&self, segments: &Segments) -> bool {
        segments.free() <= segments.reserves().gc_floor() + 2
    }

    /// Lends the victim what is kept for a checkpoint that is cut off, when its records find no
    /// free segment any more: cuts in a row may have come to that, each between what it took and
    /// what it would have gained. Whether that helps.
    pub(crate) fn lend(&mut self, segments: &Segments) -> bool {
        let waits = self.mover().is_some() && !self.lent;
        let helps = waits && segments.reserves().may_lend(segments.free());
        self.lent |= helps;
        helps
    }

    /// Free segments that copies may not take while something is lent.
    pub(crate) fn lent_floor(&self, segments: &Segments) -> Option<u32> {
        self.lent.then(|| segments.reserves().last_floor())
    }

    /// A victim is begun.
    pub(super) fn pace_victim(&mut self, victim: u32, segments: &Segments) {
        self.pace.begin(segments.gain(victim), self.layout.slots);
    }

    /// A victim is begun that gains nothing.
    pub(super) fn pace_nothing(&mut self) {
        self.pace.begin(0, self.layout.slots);
    }

    /// A row of the victim is over, of which so many bytes were moved.
    pub(super) fn pace_on(&mut self, moved: u64, media: &mut Media, cx: &Cx) {
        if self.paced {
            media.share.over(cx.now(), moved)
        } else {
            self.effort.copied(moved)
        }
        let (left, lead) = (self.lead_left(&media.segments), media.segments.reserves().lead);
        self.pace.pay(self.slots_over(), u64::from(512 * left.min(lead) / lead));
    }

    /// Slots of the victim of which all rows are over.
    fn slots_over(&self) -> u32 {
        let next = self.victim.as_ref().and_then(Victim::found_slots);
        let first = self.lanes.slots().chain(next).min();
        first.unwrap_or(self.layout.slots)
    }

    /// Whether the next row of a victim from which nobody wants room waits for the host's sake.
    pub(super) fn waits_for_host(&self, media: &mut Media, cx: &mut Cx) -> bool {
        let is_paced = self.paced && !self.wants_collection(&media.segments) && cx.is_running();
        match is_paced.then(|| media.share.waits(cx.now())).flatten() {
            Some(at) => {
                cx.wake_at(at);
                true
            }
            None => false,
        }
    }

    /// A row is begun.
    pub(super) fn row_begun(&self, media: &mut Media, cx: &Cx) {
        if self.paced {
            media.share.begin(cx.now());
        }
    }

    /// Whether the host has to wait for collection with what wants room.
    pub(crate) fn is_paced(&self, segments: &Segments, cx: &Cx) -> bool {
        let few = self.wants_collection(segments) && !self.is_idle();
        few && self.pace.room <= 0 && cx.life() == Life::Running
    }

    /// The host took `bytes` bytes of room.
    pub(crate) fn pace_taken(&mut self, bytes: u32, segments: &Segments) {
        self.effort.taken(bytes.into());
        if self.wants_collection(segments) && !self.is_idle() {
            self.pace.room -= i64::from(bytes);
        }
    }

    /// A victim was gone through.
    pub(super) fn judge(&mut self, segments: &Segments) {
        let (live, segment) = sizes(segments);
        let free = u64::from(self.lead_left(segments)) * segment;
        self.effort.judge((free, live), segment, || segments.any_shunned());
    }

    /// Whether collection gains nothing, until something dies.
    pub(crate) fn gave_up(&mut self, segments: &Segments) -> bool {
        let (live, segment) = sizes(segments);
        self.effort.gave_up(live, segment)
    }
}
