//! One line: its state, its valid blocks, its readers, and its purpose.
//!
//! Invariants
//! - A line changes state only as [`Line::go`] allows.
//! - An empty line has no valid block and no row in flight; a full line has no row in flight
//!   either.
//! - A line that is being reset has no readers.

use hostftl_format::zones::{Holds, Tail, takes_part};

/// Marks the absence of a line, segment or column.
pub(super) const NONE: u32 = u32::MAX;

/// State of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Recovery has not examined it yet.
    Unknown,
    /// Erased.
    Free,
    /// Strips are sent to it, or are in flight.
    Open,
    /// Completely written.
    Full,
    /// Being collected.
    Victim,
    /// Without any valid block or image.
    Empty,
    /// Being reset.
    Resetting,
    /// Out of use: all its segments failed.
    Retired,
}

/// A line. See [`super::Lines`] for all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    state: State,
    /// Number of valid blocks and images.
    valid: u32,
    /// Number of images of the root in progress; the other images belong to the durable root.
    images_of_next_root: u32,
    /// Reads in flight.
    reads: u32,
    /// Rows in flight or not in the map yet; resets in flight while it is being reset.
    under_way: u32,
    /// Whether no more strips go to it.
    takes_no_more: bool,
    /// Whether a segment with data in it failed.
    pub(super) has_failed_segment: bool,
    /// Level of valid blocks last reported to the victim policy.
    pub(super) level: u8,
    /// Row that must be durable before the reset: the last one when the line became empty.
    pub(super) emptied_by: u64,
    /// Last row in it with a trim or a lost block; 0 if there is none.
    last_trim: u64,
    /// Whether it is for map images and not for blocks of the host.
    of_map: bool,
    /// Last row when it was opened. A later use of a line has a higher number.
    opened: u64,
    /// Previous line of its front.
    previous: u32,
    /// Bit set of the units that take part: their segments were good when it was opened.
    units: u64,
    /// Column whose last strips are reserved for its list, or [`NONE`].
    list: u32,
    /// Whether its list is written and valid.
    is_listed: bool,
}

impl Line {
    /// Creates a line in the unknown state.
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

    /// Returns the state.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Changes the state.
    ///
    /// # Panics
    /// If the transition is not allowed, or the line is not ready for it.
    pub(super) fn go(&mut self, next: State) {
        use State::*;
        let fits = matches!(
            (self.state, next),
            (Unknown, Open | Empty)
                | (Free, Open)
                | (Open | Victim, Full | Empty)
                | (Full, Victim | Empty)
                | (Empty, Resetting)
                | (Resetting, Free | Retired)
        );
        assert!(fits, "a line can't go from {:?} to {next:?}", self.state);
        let is_ready = match next {
            // A full line without valid blocks is Empty instead.
            Full => self.takes_no_more && self.under_way == 0 && self.valid > 0,
            Empty | Free | Retired => self.under_way == 0 && self.valid == 0,
            Resetting => self.valid == 0 && self.reads == 0,
            Unknown | Open | Victim => true,
        };
        assert!(is_ready, "a line is not ready to be {next:?}: {self:?}");
        self.state = next;
    }

    /// Opens a free line, with its list in column `list` or [`NONE`]. `opened` is recorded in its
    /// tails: the last row, the previous line of its front, and the units that take part.
    pub(super) fn open(&mut self, of_map: bool, opened: (u64, u32, u64), list: u32) {
        assert!(self.reads == 0 && self.under_way == 0 && self.valid == 0, "a free line is empty");
        self.go(State::Open);
        (self.opened, self.previous, self.units) = opened;
        (self.of_map, self.list, self.is_listed) = (of_map, list, false);
        // What remains of the previous use must not affect this one.
        (self.takes_no_more, self.has_failed_segment, self.last_trim) = (false, false, 0);
    }

    /// Ends the reset. `has_failed` is whether all its segments failed.
    pub(super) fn end_reset(&mut self, has_failed: bool) {
        self.go(if has_failed { State::Retired } else { State::Free });
        (self.of_map, self.units) = (false, 0);
        (self.list, self.is_listed) = (NONE, false);
        (self.has_failed_segment, self.images_of_next_root) = (false, 0);
    }

    /// Notes a tail that recovery found in it. The tail of the latest use counts.
    pub(crate) fn found_tail(&mut self, tail: &Tail) {
        // An older tail was not erased: its segment failed, or a power cut undid the reset.
        if tail.opened >= self.opened {
            self.of_map = tail.holds == Holds::Images;
            (self.opened, self.previous, self.units) = (tail.opened, tail.previous, tail.units);
        }
    }

    /// Returns the fields that all tails in it share.
    pub(crate) fn tail(&self) -> Tail {
        let Line { opened, previous, units, .. } = *self;
        Tail { opened, previous, units, ..Tail::default() }
    }

    /// Returns whether it is for map images.
    pub(crate) fn is_of_map(&self) -> bool {
        self.of_map
    }

    /// Returns whether the segment in a column was good when the line was opened.
    pub(super) fn has_part(&self, column: u32) -> bool {
        takes_part(self.units, column)
    }

    /// Returns the number of valid blocks and images.
    pub(crate) fn valid(&self) -> u32 {
        self.valid
    }

    /// Counts one more valid block, or valid image of the durable root.
    pub(crate) fn add_valid(&mut self) {
        self.valid += 1;
    }

    /// Counts `count` images of the root in progress.
    pub(crate) fn add_images(&mut self, count: u32) {
        self.valid += count;
        self.images_of_next_root += count;
    }

    /// Counts a block that became invalid. Returns the number of those that are still valid.
    ///
    /// # Panics
    /// If none was valid.
    pub(super) fn invalidate(&mut self) -> u32 {
        self.valid = self.valid.checked_sub(1).expect("an invalidated block was valid");
        self.valid
    }

    /// Invalidates the images of the previous root, because the new one is durable.
    pub(super) fn keep_images_of_next_root(&mut self) {
        // All images of the previous root in this line become invalid at once.
        self.valid = core::mem::take(&mut self.images_of_next_root);
    }

    /// Registers a read; the line is not reset before the read ends.
    pub(crate) fn pin(&mut self) {
        self.reads += 1;
    }

    /// Ends a read.
    pub(crate) fn unpin(&mut self) {
        self.reads = self.reads.checked_sub(1).expect("a finished read was started");
    }

    /// Returns whether reads are in flight.
    pub(crate) fn is_pinned(&self) -> bool {
        self.reads > 0
    }

    /// Registers a row, its list, or the reset of a segment.
    pub(super) fn begin(&mut self) {
        assert!(matches!(self.state, State::Open | State::Resetting), "{self:?} takes no writes");
        self.under_way += 1;
    }

    /// Ends one of those.
    pub(super) fn end(&mut self) {
        self.under_way =
            self.under_way.checked_sub(1).expect("a finished operation was in progress");
    }

    /// Returns whether rows, its list or resets are in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way > 0
    }

    /// Notes that no more strips go to it.
    pub(super) fn take_no_more(&mut self) {
        self.takes_no_more = true;
    }

    /// Returns whether it is open, takes no more strips, and has none in flight.
    pub(super) fn is_written(&self) -> bool {
        self.state == State::Open && self.takes_no_more && self.under_way == 0
    }

    /// Returns the row that must be durable before the reset.
    pub(crate) fn emptied_by(&self) -> u64 {
        self.emptied_by
    }

    /// Returns the last row in it with a trim or a lost block; 0 if there is none.
    pub(crate) fn last_trim(&self) -> u64 {
        self.last_trim
    }

    /// Notes a row with a trim or a lost block.
    pub(crate) fn note_trim(&mut self, seq: u64) {
        self.last_trim = self.last_trim.max(seq);
    }

    /// Returns the column of its list, if it gets one.
    pub(crate) fn list(&self) -> Option<u32> {
        (self.list != NONE).then_some(self.list)
    }

    /// Sets whether its list is written and valid.
    pub(crate) fn set_listed(&mut self, counts: bool) {
        self.is_listed = counts;
    }

    /// Notes that recovery found a valid list in this column.
    pub(crate) fn found_list(&mut self, column: u32) {
        (self.list, self.is_listed) = (column, true);
    }

    /// Returns whether its list is written and valid.
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
    fn an_unreferenced_line_is_recycled() {
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
    fn a_durable_root_releases_the_previous_images() {
        let mut line = open();
        line.add_valid();
        line.add_images(2);
        line.keep_images_of_next_root();
        assert_eq!(line.valid(), 2);
        line.keep_images_of_next_root();
        assert_eq!(line.valid(), 0);
    }

    #[test]
    #[should_panic(expected = "a line can't go from Open to Resetting")]
    fn an_open_line_is_not_reset() {
        open().go(State::Resetting);
    }

    #[test]
    #[should_panic(expected = "a line is not ready to be Resetting")]
    fn a_line_being_read_is_not_reset() {
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
