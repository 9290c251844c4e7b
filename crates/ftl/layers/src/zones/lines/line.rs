//! One line: its state, what is valid in it, who holds it, and what it was opened for.
//!
//! Invariants
//! - A line goes from state to state as [`Line::go`] says, and in no other way.
//! - Nothing in an empty line is valid, and no row is on its way to it; a full line has no row on
//!   its way to it either.
//! - A line that is reset is read by nobody.

use hostftl_format::zones::{Holds, Tail, takes_part};

/// No line, segment or column.
pub(super) const NONE: u32 = u32::MAX;

/// What a line is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
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

#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
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
    /// Whether it has a segment that failed with data in it.
    pub(super) has_failed_segment: bool,
    /// How much of it was valid when the victim policy was told last.
    pub(super) level: u8,
    /// The row that must be durable before it is reset: the last one when it became empty.
    pub(super) emptied_by: u64,
    /// The last row in it with a trim, or with blocks that are lost.
    last_trim: u64,
    /// Whether it takes images of the map, and no blocks of the host.
    of_map: bool,
    /// The last row when it was opened: of two uses of a line the later one has more.
    opened: u64,
    /// The line of its front before it.
    previous: u32,
    /// The units that take part in it, a bit each: their segments were good when it was opened.
    units: u64,
    /// The column whose last strips are for its list; none when it gets no list.
    list: u32,
    /// Whether its list is written and counts.
    is_listed: bool,
}

impl Line {
    /// A line that nothing is known of.
    pub(super) fn new() -> Self {
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
            opened: 0,
            previous: NONE,
            units: 0,
            list: NONE,
            is_listed: false,
        }
    }

    /// What it is doing.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Goes on to the next state.
    ///
    /// # Panics
    /// When that is no next state, or the line is not ready for it.
    pub(super) fn go(&mut self, next: State) {
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

    /// Strips go to a free line, with a list in this column or none. Its tails say what it was
    /// `opened` for: the last row, the line of its front before it, the units that take part.
    pub(super) fn open(&mut self, of_map: bool, opened: (u64, u32, u64), list: u32) {
        assert!(self.reads == 0 && self.under_way == 0 && self.valid == 0, "a free line is empty");
        self.go(State::Open);
        (self.opened, self.previous, self.units) = opened;
        (self.of_map, self.list, self.is_listed) = (of_map, list, false);
        (self.takes_no_more, self.has_failed_segment, self.last_trim) = (false, false, 0);
    }

    /// No segment of it is being reset any more.
    pub(super) fn end_reset(&mut self, is_dead: bool) {
        self.go(if is_dead { State::Dead } else { State::Free });
        (self.of_map, self.units) = (false, 0);
        (self.list, self.is_listed) = (NONE, false);
        (self.has_failed_segment, self.images_of_next_root) = (false, 0);
    }

    /// Recovery found a tail in it; that of the latest use counts.
    pub(crate) fn found_tail(&mut self, tail: &Tail) {
        // What is older was not erased: its segment failed, or a cut undid the reset.
        if tail.opened >= self.opened {
            self.of_map = tail.holds == Holds::Images;
            (self.opened, self.previous, self.units) = (tail.opened, tail.previous, tail.units);
        }
    }

    /// What all tails in it say.
    pub(crate) fn tail(&self) -> Tail {
        let Line { opened, previous, units, .. } = *self;
        Tail { opened, previous, units, ..Tail::default() }
    }

    /// Whether it holds images of the map.
    pub(crate) fn is_of_map(&self) -> bool {
        self.of_map
    }

    /// Whether the segment in a column was good when it was opened.
    pub(super) fn has_part(&self, column: u32) -> bool {
        takes_part(self.units, column)
    }

    /// Valid blocks and images in it.
    pub(crate) fn valid(&self) -> u32 {
        self.valid
    }

    /// One more of its blocks, or an image of the durable root, is valid.
    pub(crate) fn add_valid(&mut self) {
        self.valid += 1;
    }

    /// So many images of the root that is being made were written to it.
    pub(crate) fn add_images(&mut self, count: u32) {
        self.valid += count;
        self.images_of_next_root += count;
    }

    /// One of its blocks is invalid; how many are valid still.
    ///
    /// # Panics
    /// When none was valid.
    pub(super) fn invalidate(&mut self) -> u32 {
        self.valid = self.valid.checked_sub(1).expect("a block is invalidated in a line with one");
        self.valid
    }

    /// The root that was made is durable: the images of the one before it are invalid.
    pub(super) fn keep_images_of_next_root(&mut self) {
        self.valid = core::mem::take(&mut self.images_of_next_root);
    }

    /// A read of it begins: it is not reset before the read is over.
    pub(crate) fn pin(&mut self) {
        self.reads += 1;
    }

    /// A read of it is over.
    pub(crate) fn unpin(&mut self) {
        self.reads = self.reads.checked_sub(1).expect("a read that is over was begun");
    }

    /// Whether it is being read.
    pub(crate) fn is_pinned(&self) -> bool {
        self.reads > 0
    }

    /// A row, its list, or the reset of one of its segments is under way.
    pub(super) fn begin(&mut self) {
        assert!(matches!(self.state, State::Open | State::Resetting), "{self:?} takes nothing");
        self.under_way += 1;
    }

    /// One of those is over.
    pub(super) fn end(&mut self) {
        self.under_way = self.under_way.checked_sub(1).expect("what is over was under way");
    }

    /// Whether rows, its list or resets are under way.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way > 0
    }

    /// No strip goes to it any more.
    pub(super) fn take_no_more(&mut self) {
        self.takes_no_more = true;
    }

    /// Whether it is open and nothing holds it open any more.
    pub(super) fn is_written(&self) -> bool {
        self.state == State::Open && self.takes_no_more && self.under_way == 0
    }

    /// The row that must be durable before it is reset.
    pub(crate) fn emptied_by(&self) -> u64 {
        self.emptied_by
    }

    /// The last row in it with a trim, or with blocks that are lost; 0 for none.
    pub(crate) fn last_trim(&self) -> u64 {
        self.last_trim
    }

    /// A row with a trim, or with blocks that are lost, goes to it.
    pub(crate) fn note_trim(&mut self, seq: u64) {
        self.last_trim = self.last_trim.max(seq);
    }

    /// The column of its list, if it gets one.
    pub(crate) fn list(&self) -> Option<u32> {
        (self.list != NONE).then_some(self.list)
    }

    /// Its list is written, and counts or not.
    pub(crate) fn set_listed(&mut self, counts: bool) {
        self.is_listed = counts;
    }

    /// Recovery found that its list is in this column, and counts.
    pub(crate) fn found_list(&mut self, column: u32) {
        (self.list, self.is_listed) = (column, true);
    }

    /// Whether its list is written and counts.
    pub(crate) fn is_listed(&self) -> bool {
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
        line.open(true, (9, 3, 0b10), 1);
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
