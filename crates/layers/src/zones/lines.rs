//! Lines: what state each is in, how much of it is live, and where the next strip goes.
//!
//! Invariants
//! - A line is in a free list exactly when it is Free, in `empty` exactly when it is Empty, and
//!   offered as a victim exactly when it is Full and holds no images.
//! - A line is Full when its list, if it is to have one, is written or given up.
//! - `live` counts the blocks of the host that the map places in the line, and the images of the
//!   last durable root and of the one that is being made.
//! - A line is reset only when nothing in it is live, and what emptied it is durable.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_format::zones::takes_part;

use crate::policy::{GcPolicy, Victims};

use super::chunks::Chunks;
use super::layout::Layout;
use super::lists::{Lists, Who};

/// How finely victims are told apart.
const LEVELS: u32 = 64;
/// No line.
pub const NONE: u32 = u32::MAX;

/// What a line is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing in it counts, and its segments are erased.
    Free,
    /// Strips go to it, or are on their way.
    Open,
    /// Nothing more will be written to it.
    Full,
    /// It is being collected.
    Victim,
    /// Nothing in it is live.
    Empty,
    /// Its segments are being reset.
    Resetting,
    /// All its segments failed.
    Dead,
}

/// One line.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub state: State,
    /// Blocks and images.
    pub live: u32,
    /// Images of the root that is being made; the other images are the durable root's.
    pub young: u32,
    /// Reads under way.
    pub reads: u32,
    /// Rows of it whose blocks the map does not place in it yet; resets when it is being reset.
    pub rows: u32,
    /// Whether no strip goes to it any more.
    pub left: bool,
    pub of_map: bool,
    /// Whether it has a segment that failed with data in it.
    pub hurt: bool,
    pub(super) level: u8,
    /// When it became empty: the row that must be durable before it is reset.
    pub stamp: u64,
    /// The last row in it with a trim, or with blocks that are lost.
    pub last_trim: u64,
    /// The last row when it was opened: of two uses of a line the later one has more.
    pub opened: u64,
    /// The line of its stream before it.
    pub previous: u32,
    /// The units that take part in it, a bit each: their segments were good when it was opened.
    pub units: u64,
    /// The column whose last strips are for its list; none when it gets no list.
    pub list: u32,
    /// Whether its list is written.
    pub listed: bool,
}

/// Where a stream goes on.
#[derive(Clone, Copy, Debug)]
pub struct Front {
    pub line: u32,
    /// The column of the next strip.
    turn: u32,
    previous: u32,
}

/// See the module text.
#[derive(Debug)]
pub struct Lines {
    pub(super) layout: Layout,
    pub(super) list: Vec<Line>,
    pub chunks: Chunks,
    pub lists: Lists,
    /// Lines that recovery found partly written, by front: they are filled before others are
    /// opened, so that no segment stays open.
    partly: Vec<VecDeque<u32>>,
    pub empty: VecDeque<u32>,
    pub(super) hurt: VecDeque<u32>,
    pub(super) victims: Victims,
    /// Those of the host, then that of the map.
    pub fronts: Vec<Front>,
    /// Lines with images.
    map_lines: u32,
    /// Strips in free lines.
    free_strips: i64,
    /// The line that takes no more strips and whose list is not written yet.
    pub closing: u32,
    /// Blocks written: the clock of the victim policy.
    pub(super) now: u64,
    /// With so much room no line was worth collecting, and none has lost a block since.
    pub(super) barren: i64,
}

impl Lines {
    /// All of them empty: what they hold is not known, or of no use.
    pub fn new(layout: &Layout, gc: GcPolicy) -> Self {
        let count = layout.lines;
        let line = Line {
            state: State::Empty,
            live: 0,
            young: 0,
            reads: 0,
            rows: 0,
            left: false,
            of_map: false,
            hurt: false,
            level: 0,
            stamp: 0,
            last_trim: 0,
            opened: 0,
            previous: NONE,
            units: 0,
            list: NONE,
            listed: false,
        };
        let front = Front { line: NONE, turn: 0, previous: NONE };
        Lines {
            layout: *layout,
            list: alloc::vec![line; count as usize],
            chunks: Chunks::new(layout),
            lists: Lists::new(layout),
            partly: alloc::vec![VecDeque::new(); layout.fronts as usize + 1],
            empty: VecDeque::with_capacity(count as usize),
            hurt: VecDeque::with_capacity(count as usize),
            victims: Victims::new(gc, if layout.wide { count } else { 0 }, LEVELS, 1),
            fronts: alloc::vec![front; layout.fronts as usize + 1],
            map_lines: 0,
            closing: NONE,
            free_strips: 0,
            now: 0,
            barren: i64::MIN,
        }
    }

    /// Bytes of what is known of lines and segments.
    pub fn memory(layout: &Layout, gc: GcPolicy) -> u64 {
        let queues = 2 * size_of::<u32>() + Lists::EACH;
        let lines = (size_of::<Line>() + queues) as u64 * u64::from(layout.lines);
        let victims = if layout.wide { layout.lines } else { 0 };
        lines + Chunks::memory(layout) + Victims::memory(gc, victims, LEVELS)
    }

    pub fn at(&self, line: u32) -> &Line {
        &self.list[line as usize]
    }

    pub fn at_mut(&mut self, line: u32) -> &mut Line {
        &mut self.list[line as usize]
    }

    pub(super) fn segments(&self, line: u32) -> impl Iterator<Item = u32> + use<> {
        let layout = self.layout;
        (0..layout.width).map(move |column| layout.segment(line, column))
    }

    /// Strips that can still be sent to a line, those of its list apart.
    pub fn left(&self, line: u32) -> u32 {
        (0..self.layout.width).map(|column| self.left_in(line, column)).sum()
    }

    fn left_in(&self, line: u32, column: u32) -> u32 {
        let kept = if self.at(line).list == column { self.layout.list } else { 0 };
        self.chunks.at(self.layout.segment(line, column)).left().saturating_sub(kept)
    }

    /// Whether strips are on their way to a line.
    pub fn in_flight(&self, line: u32) -> bool {
        self.segments(line).any(|segment| self.chunks.at(segment).flight > 0)
    }

    /// Strips that blocks of the host find in a free line.
    fn room_in(&self, line: u32) -> i64 {
        i64::from(self.left(line).saturating_sub(self.layout.list))
    }

    /// How many lines are on their way to be free.
    pub fn empty(&self) -> u32 {
        self.empty.len() as u32
    }

    /// Free lines that are not kept for images. Those that lack a segment count as what they have.
    pub fn spare(&self) -> u32 {
        self.spare_strips().max(0) as u32 / self.layout.row_strips()
    }

    /// Strips in free lines that are not kept for images.
    pub fn spare_strips(&self) -> i64 {
        let kept = self.layout.keep.saturating_sub(self.map_lines);
        self.free_strips - i64::from(kept * self.layout.row_strips())
    }

    /// Strips that may be sent to the lines that are open for the host.
    pub fn open_strips(&self) -> u32 {
        let (_, fronts) = self.fronts.split_last().expect("there is a front of the map");
        let open = fronts.iter().map(|it| it.line).filter(|line| *line != NONE);
        let partly = self.partly.iter().take(fronts.len()).flatten().copied();
        open.chain(partly).map(|line| self.left(line)).sum()
    }

    /// Where the next strip of a front goes; `None` when it must wait.
    pub fn place(&mut self, front: usize, seq: u64, who: Who) -> Option<(u32, u32)> {
        loop {
            let Front { line, turn, .. } = self.fronts[front];
            if line == NONE {
                self.open(front, seq, who)?;
                continue;
            }
            let columns = (0..self.layout.width).map(|step| (turn + step) % self.layout.width);
            let columns = columns.filter(|column| self.left_in(line, *column) > 0);
            let mut columns = columns.map(|it| (it, self.layout.segment(line, it)));
            if let Some((column, segment)) = columns.find(|(_, it)| self.chunks.takes(*it)) {
                self.fronts[front].turn = (column + 1) % self.layout.width;
                let strip = self.chunks.send(segment);
                self.at_mut(line).rows += 1;
                return Some((segment, strip));
            }
            if self.left(line) > 0 || !self.close(line) {
                return None;
            }
            self.leave(front, seq);
        }
    }

    fn leave(&mut self, front: usize, seq: u64) {
        let line = self.fronts[front].line;
        self.fronts[front] = Front { line: NONE, turn: 0, previous: line };
        self.at_mut(line).left = true;
        self.settle(line, seq);
    }

    /// Leaves the lines that are full, which else happens when the next strip is sent; true when
    /// there was one.
    pub fn leave_full(&mut self, seq: u64) -> bool {
        let mut any = false;
        for front in 0..self.fronts.len() {
            let line = self.fronts[front].line;
            if line != NONE && self.left(line) == 0 && self.close(line) {
                self.leave(front, seq);
                any = true;
            }
        }
        any
    }

    /// A line takes no more rows: its list is to be written; false while another's is.
    fn close(&mut self, line: u32) -> bool {
        if self.at(line).list != NONE {
            if self.closing != NONE {
                return false;
            }
            self.closing = line;
            self.at_mut(line).rows += 1;
        }
        true
    }

    fn open(&mut self, front: usize, seq: u64, who: Who) -> Option<()> {
        if let Some(line) = self.partly[front].pop_front() {
            self.fronts[front].line = line;
            return Some(());
        }
        let of_map = front + 1 == self.fronts.len();
        let list = if of_map {
            self.lists.freest()
        } else if self.spare() == 0 {
            return None;
        } else {
            front as u32
        };
        let line = self.lists.get(list, who)?;
        self.free_strips -= self.room_in(line);
        let (units, list) = self.parts(line, of_map);
        let previous = core::mem::replace(&mut self.fronts[front].line, line);
        assert_eq!(previous, NONE, "a front has one line");
        let previous = self.fronts[front].previous;
        self.map_lines += u32::from(of_map);
        let it = self.at_mut(line);
        assert!(it.state == State::Free && it.live == 0 && it.reads == 0 && it.rows == 0);
        (it.state, it.of_map, it.left, it.hurt) = (State::Open, of_map, false, false);
        (it.last_trim, it.opened, it.previous) = (0, seq, previous);
        (it.units, it.list, it.listed) = (units, list, false);
        Some(())
    }

    /// The units that take part in a line that is opened, and the column of its list: the last one
    /// with room for it.
    fn parts(&self, line: u32, of_map: bool) -> (u64, u32) {
        let chunk = |column: u32| self.chunks.at(self.layout.segment(line, column));
        let columns = || (0..self.layout.width).filter(|column| !chunk(*column).bad);
        let units = columns().filter(|it| *it < u64::BITS).fold(0, |units, it| units | 1 << it);
        let list = columns().rfind(|column| chunk(*column).strips > self.layout.list);
        let none = of_map || self.layout.list == 0;
        (units, list.filter(|_| !none).unwrap_or(NONE))
    }

    /// A strip of a line has reached the medium, or will not, and the map knows.
    pub fn row_over(&mut self, line: u32, seq: u64) {
        self.at_mut(line).rows -= 1;
        self.settle(line, seq);
    }

    /// A row with a trim, or with blocks that are lost, goes to a line.
    pub fn note_trim(&mut self, line: u32, seq: u64) {
        let last = &mut self.at_mut(line).last_trim;
        *last = (*last).max(seq);
    }

    /// A line that is full, or empty, is known as such.
    pub fn settle(&mut self, line: u32, seq: u64) {
        let level = self.level(line);
        let it = self.at_mut(line);
        if it.state != State::Open || !it.left || it.rows > 0 {
            return;
        }
        if it.live == 0 {
            return self.emptied(line, seq);
        }
        (it.state, it.level) = (State::Full, level);
        let of_map = it.of_map;
        self.barren = i64::MIN;
        if !of_map {
            self.offer(line);
        }
    }

    fn emptied(&mut self, line: u32, seq: u64) {
        let it = self.at_mut(line);
        it.state = State::Empty;
        it.stamp = seq;
        self.empty.push_back(line);
        self.lists.await_one(self.layout.front(line));
    }

    fn level(&self, line: u32) -> u8 {
        let all = u64::from(self.layout.row_strips() * self.layout.strip_blocks());
        let live = u64::from(self.list[line as usize].live);
        (live * u64::from(LEVELS)).div_ceil(all).min(LEVELS.into()) as u8
    }

    /// The map places a block in a line, or an image was sent there.
    pub fn add(&mut self, line: u32) {
        self.at_mut(line).live += 1;
        self.now += 1;
    }

    /// A block in a line is no longer where the map says; `seq` is the row that must be durable
    /// for that to hold after a cut.
    pub fn kill(&mut self, line: u32, seq: u64) {
        let it = self.at_mut(line);
        it.live = it.live.checked_sub(1).expect("what dies was live");
        let (live, old, listed) = (it.live, it.level, !it.of_map);
        if it.state != State::Full {
            return;
        }
        self.barren = i64::MIN;
        if live == 0 {
            if listed {
                self.withdraw(line);
            }
            return self.emptied(line, seq);
        }
        let level = self.level(line);
        if level != old && listed && self.layout.wide {
            self.at_mut(line).level = level;
            self.victims.live_changed(line, level.into(), self.now);
        }
    }

    /// The root whose images are young is durable: those of the root before it are dead.
    pub fn root_durable(&mut self, seq: u64) {
        for line in 0..self.layout.lines {
            let it = self.at_mut(line);
            if !it.of_map || matches!(it.state, State::Free | State::Resetting) {
                continue;
            }
            it.live = it.young;
            it.young = 0;
            if it.live == 0 && it.state == State::Full {
                self.emptied(line, seq);
            }
        }
    }

    /// A victim was gone through; what is live in it stays there.
    pub fn collected(&mut self, victim: u32, seq: u64) {
        let it = self.at_mut(victim);
        assert!(it.state == State::Victim && it.left && it.rows == 0);
        it.state = State::Open;
        self.settle(victim, seq);
    }

    /// Takes an empty line, which is reset now, and tells how many of its segments must be.
    pub fn begin_reset(&mut self, line: u32) {
        let index = self.empty.iter().position(|it| *it == line).expect("an empty line");
        self.empty.remove(index);
        self.hurt.retain(|it| *it != line);
        let it = self.at_mut(line);
        assert!(it.state == State::Empty && it.live == 0 && it.reads == 0);
        it.state = State::Resetting;
    }

    /// No segment of a line is being reset any more.
    pub fn end_reset(&mut self, line: u32) {
        self.map_lines -= u32::from(self.at(line).of_map);
        let dead = self.segments(line).all(|segment| self.chunks.at(segment).bad);
        let it = self.at_mut(line);
        assert!(it.state == State::Resetting && it.rows == 0);
        (it.of_map, it.hurt, it.young) = (false, false, 0);
        it.state = if dead { State::Dead } else { State::Free };
        (it.units, it.list, it.listed) = (0, NONE, false);
        self.lists.put(self.layout.front(line), line, dead);
        self.free_strips += if dead { 0 } else { self.room_in(line) };
    }

    /// The segments of a line that hold something and can be reset.
    pub fn to_reset(&self, line: u32) -> impl Iterator<Item = u32> {
        self.segments(line).filter(|segment| {
            let chunk = self.chunks.at(*segment);
            chunk.dirty && !chunk.bad
        })
    }

    /// Recovery found something in a line; what is left of it is filled later.
    pub fn found(&mut self, line: u32) {
        let (of_map, left) = (self.at(line).of_map, self.left(line) > 0);
        let front = if of_map { self.layout.fronts } else { self.layout.front(line) };
        self.map_lines += u32::from(of_map);
        let it = self.at_mut(line);
        it.state = State::Open;
        it.left = !left;
        if left {
            self.partly[front as usize].push_back(line);
        }
        let hurt = |column: u32| {
            let chunk = self.chunks.at(self.layout.segment(line, column));
            chunk.bad && chunk.done > 0 && takes_part(self.at(line).units, column)
        };
        if (0..self.layout.width).any(hurt) {
            let first = self.layout.segment(line, 0);
            self.note_hurt(first);
        }
        self.settle(line, 0);
    }

    /// Nothing was found in a line: it is erased already, or must be.
    pub fn found_nothing(&mut self, line: u32) {
        self.map_lines += u32::from(self.at(line).of_map);
        self.at_mut(line).state = State::Empty;
        self.empty.push_back(line);
        self.lists.await_one(self.layout.front(line));
    }

    /// Whether each line is in one list of its unit, or in none for a reason.
    pub fn lists_agree(&self) -> bool {
        let elsewhere = self.list.iter().filter(|it| match it.state {
            State::Open | State::Victim => true,
            State::Full => self.layout.wide || it.of_map,
            _ => false,
        });
        self.lists.add_up_to(self.layout.lines, elsewhere.count() as u32)
    }

    /// Blocks of the host that fit on what did not fail, while collection can always go on.
    pub fn capacity(&self) -> u64 {
        let strips: u64 =
            self.chunks.iter().filter(|it| !it.bad).map(|it| u64::from(it.strips)).sum();
        let (line, kept) = (self.layout.row_strips(), self.layout.keep + self.layout.reserve);
        let full = (strips / u64::from(self.layout.line_strips())).saturating_sub(kept.into());
        full * u64::from(line.saturating_sub(2) * self.layout.strip_blocks())
    }
}
