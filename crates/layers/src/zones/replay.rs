//! Replay: the rows since the root, in the order of their numbers.
//!
//! Some may be missing: those that no flush covered, and those in lines that were erased because
//! later rows replaced all that they held. A row that was written twice, because its segment
//! failed, counts where it was written last.

use alloc::vec::Vec;

use hostftl_core::{MAX_TOUCH, Nanos, Out};
use hostftl_format::zones::{self, Kind};

use super::Zones;
use super::layout::Layout;
use super::map::At;
use super::recovery::{LANES, Step};

/// A row: its number, the greatest number when it was written, and where it is.
type Found = (u64, u64, u32, u32);

/// See the module text.
#[derive(Debug)]
pub struct Replay {
    /// What a lane reads next, in the segment that it goes through.
    pub again: [Option<(u32, u32)>; LANES],
    rows: Vec<Found>,
    /// Rows that were asked for, and the lanes that hold those that are not applied, in order.
    asked: usize,
    next: usize,
    lanes: [Option<u8>; LANES],
    /// The entry of the next row that comes next.
    entry: usize,
    /// Rows that were applied.
    pub applied: u64,
}

impl Replay {
    pub fn new(layout: &Layout) -> Self {
        let strips = layout.lines as usize * layout.line_strips() as usize;
        Replay {
            again: [None; LANES],
            rows: Vec::with_capacity((strips / 4).clamp(256, 1 << 21)),
            asked: 0,
            next: 0,
            lanes: [None; LANES],
            entry: 0,
            applied: 0,
        }
    }
}

impl Zones {
    /// Looks for rows in the segments that were written since the root.
    pub(super) fn pump_find(&mut self, now: Nanos, out: &mut Out) -> bool {
        if self.pump_again(now, out) {
            return true;
        }
        let segment = self.recovery().scan.next;
        if segment == self.layout.device.count {
            if self.recovery().pending > 0 {
                return false;
            }
            self.recovery().replay.rows.sort_unstable();
            return self.go(Step::Replay);
        }
        let from = self.checkpoint.root.replay_from;
        let seen = self.recovery().scan.seen[segment as usize];
        if seen.tail.is_some_and(|tail| !tail.of_map && tail.newest >= from) {
            let Some(lane) = self.idle_lane() else { return false };
            self.read_strip(now, lane, (segment, seen.strip), true, out);
        }
        self.recovery().scan.next += 1;
        true
    }

    /// A tail was read: is its row to be replayed?
    pub(super) fn found_tail(&mut self, lane: usize) {
        let (segment, strip) = self.recovery().asked[lane];
        let from = self.checkpoint.root.replay_from;
        let Some(tail) = self.tail_of(lane, 0) else {
            return self.look_before(lane, segment, strip);
        };
        if tail.seq >= from {
            let found = (tail.seq, tail.newest, segment, strip);
            self.recovery().replay.rows.push(found);
        }
        if tail.newest >= from {
            self.look_before(lane, segment, strip);
        }
    }

    pub(super) fn pump_replay(&mut self, now: Nanos, out: &mut Out) -> bool {
        let replay = &mut self.recovery().replay;
        let (asked, next) = (replay.asked, replay.next);
        if next == replay.rows.len() {
            return self.go(Step::Count(0));
        }
        let mut moved = false;
        if asked < next + LANES && asked < replay.rows.len() {
            let (_, _, segment, strip) = replay.rows[asked];
            let lane = asked % LANES;
            self.recovery().replay.asked += 1;
            self.read_strip(now, lane, (segment, strip), true, out);
            moved = true;
        }
        moved | self.apply_next()
    }

    /// A row was read.
    pub(super) fn row_read(&mut self, lane: usize) {
        self.recovery().replay.lanes[lane] = Some(lane as u8);
    }

    /// Applies the next row, or as much of it as a step may.
    fn apply_next(&mut self) -> bool {
        let recovery = self.recovery.as_mut().expect("the volume is being recovered");
        let replay = &mut recovery.replay;
        let lane = replay.next % LANES;
        if replay.lanes[lane].is_none() {
            return false;
        }
        let (seq, _, segment, strip) = replay.rows[replay.next];
        let page = &recovery.bufs[lane].as_ref().expect("it was read").pages()[0];
        let at = self.layout.tail_at(segment, strip);
        let entries = zones::open(page, &self.uuid, at).map_or(0, |tail| tail.entries.into());
        while replay.entry < entries {
            if self.touched > MAX_TOUCH / 2 {
                return true;
            }
            let entry = zones::entry(page, replay.entry);
            replay.entry += 1;
            let Some(entry) = entry.filter(|it| it.block < self.map.len()) else { continue };
            match entry.kind {
                Kind::Data if entry.value < self.layout.strip_blocks() => {
                    let place = self.layout.place(segment, strip, entry.value);
                    self.map.set(entry.block, At::Media(place));
                    self.touched += 1;
                }
                Kind::Trim => {
                    let end = self.map.len().min(entry.block + u64::from(entry.value));
                    (entry.block..end).for_each(|block| {
                        self.map.set(block, At::Nowhere);
                    });
                    self.touched += (end - entry.block) as usize;
                    self.lines.note_trim(self.layout.line(segment), seq);
                }
                Kind::Lost => {
                    self.map.set(entry.block, At::Lost);
                    self.touched += 1;
                    self.lines.note_trim(self.layout.line(segment), seq);
                }
                _ => {}
            }
        }
        replay.entry = 0;
        replay.lanes[lane] = None;
        replay.next += 1;
        replay.applied += 1;
        true
    }
}
