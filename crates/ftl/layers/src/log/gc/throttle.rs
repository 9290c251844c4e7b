//! Throttling of host writes while free segments are scarce. The host writes as fast as garbage
//! collection gains space, so no write waits for a whole victim.
//!
//! Space is granted slot by slot of the victim, each with its share of the victim's gain. If the
//! lead of free segments is complete, the host gets twice the gain; if none is left, nothing. The
//! rate therefore settles where the gain equals the host's demand.
//!
//! Invariant: the host is throttled only while there is a victim, so more space follows soon.

use hostftl_format::log::GRAIN;

use crate::kit::Life;
use crate::log::gc::Collection;
use crate::log::gc::phases::Phases;
use crate::log::gc::victim::Victim;
use crate::log::layout::Layout;
use crate::log::media::Media;
use crate::log::ops::Cx;
use crate::log::segments::Segments;

/// Upper limit of the host's credit, in stripes; it allows short bursts.
const MOST_STRIPES: u64 = 2;

#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes that the host may write; the last record may overdraw them.
    room: i64,
    most: i64,
    /// Gain of each slot of the victim, in bytes.
    gain: u64,
    /// Slots of the victim whose gain has been granted.
    paid: u32,
}

impl Pace {
    /// Returns the upper limit of the host's credit in bytes.
    pub(super) fn most(layout: &Layout) -> i64 {
        (MOST_STRIPES * layout.stripe_blocks() * 4096) as i64
    }

    pub(super) fn new(layout: &Layout) -> Self {
        let most = Self::most(layout);
        Pace { room: most, most, gain: 0, paid: 0 }
    }

    /// Begins a victim of `slots` slots that gains `bytes` bytes.
    fn begin(&mut self, bytes: u64, slots: u32) {
        (self.gain, self.paid) = (bytes / u64::from(slots), 0);
    }

    /// Grants the gain of the first `slots` slots, which have been processed; the host gets
    /// `share`/256 of it.
    fn pay(&mut self, slots: u32, share: u64) {
        let more = self.gain * u64::from(slots - self.paid) * share / 256;
        // The limit prevents a host that pauses from saving up credit for a burst that exhausts the
        // free segments.
        self.room = self.most.min(self.room + more as i64);
        self.paid = slots;
    }
}

/// Returns the number of valid bytes, and the capacity of a segment in bytes.
fn sizes(segments: &Segments) -> (u64, u64) {
    let segment = u64::from(segments.grains_of_new()) * u64::from(GRAIN);
    (segments.total() * u64::from(GRAIN), segment)
}

impl Collection {
    /// Returns the number of segments above the host's reserve that are free or empty.
    fn lead_left(&self, segments: &Segments) -> u32 {
        // Empty segments count, because they become free without further copies.
        let left = segments.free() + segments.empty();
        left.saturating_sub(segments.reserves().host)
    }

    /// Returns whether garbage collection is needed: while free segments are scarce, or in its
    /// phase.
    pub(crate) fn wants_collection(&self, segments: &Segments) -> bool {
        self.phases.as_ref().map_or_else(|| self.is_scarce(segments), Phases::collects)
    }

    /// Returns whether free segments are scarce.
    fn is_scarce(&self, segments: &Segments) -> bool {
        self.lead_left(segments) < segments.reserves().lead
    }

    /// Decides the next phase at a segment boundary.
    pub(super) fn turn(&mut self, media: &Media, cx: &mut Cx) {
        let scarce = self.is_scarce(&media.segments);
        if let Some(phases) = &mut self.phases {
            phases.turn(scarce, &media.segments, cx.requests().count());
        }
    }

    /// Returns whether the copies of a victim wait for the next collection phase.
    pub(crate) fn holds_copies(&self, media: &Media, cx: &Cx) -> bool {
        let is_hosts = self.phases.as_ref().is_some_and(|it| !it.collects());
        // A victim that is held would delay the restoration of redundancy.
        let is_sound = media.devices.is_as_made() && media.segments.flawed() == 0;
        is_hosts && is_sound && !self.paced && cx.life() == Life::Running
    }

    /// Returns whether garbage collection itself may soon find no free segment. Repeated power cuts
    /// each leave an open segment with little data. Then the victim with the least valid data is
    /// chosen, because it is finished first.
    pub(crate) fn is_short(&self, segments: &Segments) -> bool {
        segments.free() <= segments.reserves().gc_floor() + 2
    }

    /// Lends the victim the segments reserved for an interrupted checkpoint if its records find no
    /// free segment. Repeated power cuts can lead to this state: each loses the gain of a victim
    /// whose copies already consumed space. Returns whether the loan helps.
    pub(crate) fn lend(&mut self, segments: &Segments) -> bool {
        let waits = self.mover().is_some() && !self.lent;
        let helps = waits && segments.reserves().may_lend(segments.free());
        self.lent |= helps;
        helps
    }

    /// Returns the number of free segments that copies must leave while segments are lent.
    pub(crate) fn lent_floor(&self, segments: &Segments) -> Option<u32> {
        // Only the victim for which the segments were lent may use them.
        self.lent.then(|| segments.reserves().last_floor())
    }

    /// Begins a victim.
    pub(super) fn pace_victim(&mut self, victim: u32, segments: &Segments) {
        self.pace.begin(segments.gain(victim), self.layout.slots);
    }

    /// Begins a segment that gains no space.
    pub(super) fn pace_nothing(&mut self) {
        self.pace.begin(0, self.layout.slots);
    }

    /// Accounts for a processed stripe of the victim, of which `moved` bytes were moved.
    pub(super) fn pace_on(&mut self, moved: u64, media: &mut Media, cx: &Cx) {
        if self.paced {
            media.background_rate.over(cx.now(), moved)
        } else {
            self.stall_detector.copied(moved)
        }
        let (left, lead) = (self.lead_left(&media.segments), media.segments.reserves().lead);
        // The share is 512/256 with the complete lead and 0 with none left.
        self.pace.pay(self.slots_over(), u64::from(512 * left.min(lead) / lead));
        if let Some(phases) = &mut self.phases {
            phases.pay(moved);
        }
    }

    /// Returns the number of leading slots of the victim whose stripes are all processed.
    fn slots_over(&self) -> u32 {
        // Lanes finish in any order, so the gain is granted up to the first slot in progress.
        let next = self.victim.as_ref().and_then(Victim::found_slots);
        let first = self.lanes.slots().chain(next).min();
        first.unwrap_or(self.layout.slots)
    }

    /// Returns whether the next stripe is delayed in favour of the host. This applies only to
    /// victims that are not needed for space.
    pub(super) fn waits_for_host(&self, media: &mut Media, cx: &mut Cx) -> bool {
        let is_paced = self.paced && !self.wants_collection(&media.segments) && cx.is_running();
        match is_paced.then(|| media.background_rate.waits(cx.now())).flatten() {
            Some(at) => {
                cx.wake_at(at);
                true
            }
            None => false,
        }
    }

    /// Records that background work begins a stripe.
    pub(super) fn stripe_begun(&self, media: &mut Media, cx: &Cx) {
        if self.paced {
            media.background_rate.begin(cx.now());
        }
    }

    /// Returns whether the host must wait for garbage collection to gain space, or to fill more of
    /// a segment in its phase.
    pub(crate) fn is_paced(&self, segments: &Segments, cx: &mut Cx) -> bool {
        let few = self.wants_collection(segments) && !self.is_idle();
        // During recovery and a stop the throttle must not delay the end.
        if !few || cx.life() != Life::Running {
            return false;
        }
        let requests = cx.requests().count();
        self.pace.room <= 0 || self.phases.as_ref().is_some_and(|it| it.is_full(requests))
    }

    /// Charges the host for `bytes` bytes of space.
    pub(crate) fn pace_taken(&mut self, bytes: u32, segments: &Segments) {
        self.stall_detector.taken(bytes.into());
        if self.wants_collection(segments) && !self.is_idle() {
            self.pace.room -= i64::from(bytes);
            if let Some(phases) = &mut self.phases {
                phases.take(bytes);
            }
        }
    }

    /// Evaluates the gain after a victim.
    pub(super) fn judge(&mut self, segments: &Segments) {
        let (valid, segment) = sizes(segments);
        let free = u64::from(self.lead_left(segments)) * segment;
        self.stall_detector.judge((free, valid), segment, || segments.any_shunned());
    }

    /// Returns whether garbage collection has given up until data becomes invalid.
    pub(crate) fn is_stalled(&mut self, segments: &Segments) -> bool {
        let (valid, segment) = sizes(segments);
        self.stall_detector.is_stalled(valid, segment)
    }
}
