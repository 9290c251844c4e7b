//! One line: its state, what is valid in it, who holds it, and what it was opened for.
//!
//! Invariants
//! - A line goes from state to state as [`Line::go`] says, and in no other way.
//! - Nothing in an empty line is valid, and no row is on its way to it; a full line has no row on
//!   its way to it either.
//! - A line that is reset is read by nobody.

use hostftl_format::zones::{Holds, Tail, takes_part};

/// No line, segment or column.
pub const NONE: u32 = u32::MAX;

/// What a line is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Recovery has not told yet.
    Unknown,
    /// Nothing in it counts, and its segments are erased.
    Free,
    /// Strips go to it, or are on their way.
    Open,
    /// Nothing more will be written to it.
    Full,
    /// It is being collected.
    Victim,
    /// Nothing in it is valid.
    Empty,
    /// Its segments are being reset.
    Resetting,
    /// All its segments failed.
    Dead,
}

/// What a line was opened for; each tail in it says so.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// Whether it takes images of the map, and no blocks of the host.
    pub of_map: bool,
    /// The last row when it was opened: of two uses of a line the later one has more.
    pub after: u64,
    /// The line of its front before it.
    pub previous: u32,
    /// The units that take part in it, a bit each: their segments were good when it was opened.
    pub units: u64,
}

/// See the module text.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    state: State,
    /// Valid blocks and images.
    valid: u32,
    /// Images of the root that is being made; the other images are the durable root's.
    images_of_next_root: u32,
    /// Reads under way.
    reads: u32,
    /// Rows of it whose blocks the map does not place in it yet; resets when it is being reset.
    under_way: u32,
    /// Whether no strip goes to it any more.
    takes_no_more: bool,
    has_failed_segment: bool,
    /// How much of it was valid when the victim policy was told last.
    level: u8,
    /// The row that must be durable before it is reset: the last one when it became empty.
    emptied_by: u64,
    /// The last row in it with a trim, or with blocks that are lost.
    last_trim: u64,
    // As in `Opened`, apart so that a line takes 64 bytes.
    of_map: bool,
    opened_after: u64,
    previous: u32,
    units: u64,
    /// The column whose last strips are for its list; none when it gets no list.
    list: u32,
    /// Whether its list is written and counts.
    is_listed: bool,
}

impl Line {
    /// A line that nothing is known of.
    pub fn new() -> Self {
        Line {
            state: State::Unknown,
            valid: 0,
            images_of_next_root: 0,
            reads: 0,
            under_way: 0,
            takes_no_more: false,
            has_failed_segment: false,
            level: 0,
            emptied_by: 0,
            last_trim: 0,
            of_map: false,
            opened_after: 0,
            previous: NONE,
            units: 0,
            list: NONE,
            is_listed: false,
        }
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        self.state
    }

    /// Goes on to the next state.
    ///
    /// # Panics
    /// When that is no next state, or the line is not ready for it.
    pub fn go(&mut self, next: State) {
        use State::*;
        let fits = matches!(
            (self.state, next),
            (Unknown, Open | Empty)
                | (Free, Open)
                | (Open | Victim, Full | Empty)
                | (Full, Victim | Empty)
                | (Empty, Resetting)
                | (Resetting, Free | Dead)
        );
        assert!(fits, "a line that is {:?} can't be {next:?} next", self.state);
        let is_ready = match next {
            Full => self.takes_no_more && self.under_way == 0 && self.valid > 0,
            Empty | Free | Dead => self.under_way == 0 && self.valid == 0,
            Resetting => self.valid == 0 && self.reads == 0,
            Unknown | Open | Victim => true,
        };
        assert!(is_ready, "a line is not ready to be {next:?}: {self:?}");
        self.state = next;
    }

    /// Strips go to a free line, with a list in this column or none.
    pub fn open(&mut self, opened: Opened, list: u32) {
        assert!(self.reads == 0 && self.under_way == 0 && self.valid == 0, "a free line is empty");
        self.go(State::Open);
        self.set_opened(opened);
        (self.list, self.is_listed) = (list, false);
        (self.takes_no_more, self.has_failed_segment, self.last_trim) = (false, false, 0);
    }

    /// No segment of it is being reset any more.
    pub fn end_reset(&mut self, is_dead: bool) {
        self.go(if is_dead { State::Dead } else { State::Free });
        (self.of_map, self.units) = (false, 0);
        (self.list, self.is_listed) = (NONE, false);
        (self.has_failed_segment, self.images_of_next_root) = (false, 0);
    }

    /// Recovery found a tail in it; that of the latest use counts.
    pub fn found_tail(&mut self, tail: &Tail) {
        // What is older was not erased: its segment failed, or a cut undid the reset.
        if tail.opened >= self.opened_after {
            self.set_opened(Opened {
                of_map: tail.holds == Holds::Images,
                after: tail.opened,
                previous: tail.previous,
                units: tail.units,
            });
        }
    }

    /// What it was opened for.
    pub fn opened(&self) -> Opened {
        let Line { of_map, opened_after: after, previous, units, .. } = *self;
        Opened { of_map, after, previous, units }
    }

    fn set_opened(&mut self, opened: Opened) {
        let Opened { of_map, after, previous, units } = opened;
        (self.of_map, self.opened_after, self.previous, self.units) =
            (of_map, after, previous, units);
    }

    /// Whether it holds images of the map.
    pub fn is_of_map(&self) -> bool {
        self.of_map
    }

    /// Whether the segment in a column was good when it was opened.
    pub fn has_part(&self, column: u32) -> bool {
        takes_part(self.units, column)
    }

    /// Valid blocks and images in it.
    pub fn valid(&self) -> u32 {
        self.valid
    }

    /// One more of its blocks, or an image of the durable root, is valid.
    pub fn add_valid(&mut self) {
        self.valid += 1;
    }

    /// So many images of the root that is being made were written to it.
    pub fn add_images(&mut self, count: u32) {
        self.valid += count;
        self.images_of_next_root += count;
    }

    /// One of its blocks is invalid; how many are valid still.
    ///
    /// # Panics
    /// When none was valid.
    pub fn invalidate(&mut self) -> u32 {
        self.valid = self.valid.checked_sub(1).expect("a block is invalidated in a line with one");
        self.valid
    }

    /// The root that was made is durable: the images of the one before it are invalid.
    pub fn keep_images_of_next_root(&mut self) {
        self.valid = core::mem::take(&mut self.images_of_next_root);
    }

    /// A read of it begins: it is not reset before the read is over.
    pub fn pin(&mut self) {
        self.reads += 1;
    }

    /// A read of it is over.
    pub fn unpin(&mut self) {
        self.reads = self.reads.checked_sub(1).expect("a read that is over was begun");
    }

    /// Whether it is being read.
    pub fn is_pinned(&self) -> bool {
        self.reads > 0
    }

    /// A row, its list, or the reset of one of its segments is under way.
    pub fn begin(&mut self) {
        assert!(matches!(self.state, State::Open | State::Resetting), "{self:?} takes nothing");
        self.under_way += 1;
    }

    /// One of those is over.
    pub fn end(&mut self) {
        self.under_way = self.under_way.checked_sub(1).expect("what is over was under way");
    }

    /// Whether rows, its list or resets are under way.
    pub fn is_busy(&self) -> bool {
        self.under_way > 0
    }

    /// No strip goes to it any more.
    pub fn take_no_more(&mut self) {
        self.takes_no_more = true;
    }

    /// Whether it is open and nothing holds it open any more.
    pub fn is_written(&self) -> bool {
        self.state == State::Open && self.takes_no_more && self.under_way == 0
    }

    /// How much of it is valid, as the victim policy knows it.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// The victim policy is told how much of it is valid.
    pub fn set_level(&mut self, level: u8) {
        self.level = level;
    }

    /// Whether it has a segment that failed with data in it.
    pub fn has_failed_segment(&self) -> bool {
        self.has_failed_segment
    }

    /// Whether a segment of it failed with data in it.
    pub fn set_failed_segment(&mut self, failed: bool) {
        self.has_failed_segment = failed;
    }

    /// The row that must be durable before it is reset.
    pub fn emptied_by(&self) -> u64 {
        self.emptied_by
    }

    /// It became empty when this row was the last.
    pub fn set_emptied_by(&mut self, seq: u64) {
        self.emptied_by = seq;
    }

    /// The last row in it with a trim, or with blocks that are lost; 0 for none.
    pub fn last_trim(&self) -> u64 {
        self.last_trim
    }

    /// A row with a trim, or with blocks that are lost, goes to it.
    pub fn note_trim(&mut self, seq: u64) {
        self.last_trim = self.last_trim.max(seq);
    }

    /// The column of its list, if it gets one.
    pub fn list(&self) -> Option<u32> {
        (self.list != NONE).then_some(self.list)
    }

    /// Its list is written, and counts or not.
    pub fn set_listed(&mut self, counts: bool) {
        self.is_listed = counts;
    }

    /// Recovery found that its list is in this column, and counts.
    pub fn found_list(&mut self, column: u32) {
        (self.list, self.is_listed) = (column, true);
    }

    /// Whether its list is written and counts.
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Line {
        let mut line = Line::new();
        line.go(State::Open);
        line
    }

    #[test]
    fn a_line_goes_round_when_nothing_holds_it() {
        let mut line = open();
        line.begin();
        line.add_valid();
        line.take_no_more();
        assert!(!line.is_written(), "a row is on its way");
        line.end();
        assert!(line.is_written());
        line.go(State::Full);
        line.go(State::Victim);
        assert_eq!(line.invalidate(), 0);
        line.go(State::Empty);
        line.go(State::Resetting);
        line.end_reset(false);
        let opened = Opened { of_map: true, after: 9, previous: 3, units: 0b10 };
        line.open(opened, 1);
        assert_eq!((line.state(), line.list(), line.is_of_map()), (State::Open, Some(1), true));
        assert!(line.has_part(1) && !line.has_part(0) && !line.is_listed());
    }

    #[test]
    fn the_images_of_a_durable_root_replace_those_of_the_one_before_it() {
        let mut line = open();
        line.add_valid();
        line.add_images(2);
        line.keep_images_of_next_root();
        assert_eq!(line.valid(), 2);
        line.keep_images_of_next_root();
        assert_eq!(line.valid(), 0);
    }

    #[test]
    #[should_panic(expected = "a line that is Open can't be Resetting next")]
    fn an_open_line_is_not_reset() {
        open().go(State::Resetting);
    }

    #[test]
    #[should_panic(expected = "a line is not ready to be Resetting")]
    fn a_line_that_is_read_is_not_reset() {
        let mut line = Line::new();
        line.go(State::Empty);
        line.pin();
        line.go(State::Resetting);
    }

    #[test]
    #[should_panic(expected = "a line is not ready to be Empty")]
    fn a_line_with_valid_blocks_is_not_empty() {
        let mut line = open();
        line.add_valid();
        line.go(State::Empty);
    }
}
