//! Fronts: the open lines, the position of the next strip in each, and the choice of the next line.
//!
//! Invariants
//! - A front has at most one line, and that line is open.
//! - Lines that recovery found partly written are filled before others are opened, so that no
//!   segment stays open.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Lines;
use super::line::NONE;
use super::lists::Who;
use crate::zones::layout::Layout;

/// Position of a stream of strips.
#[derive(Clone, Debug, Default)]
struct Front {
    line: Option<u32>,
    /// Column of the next strip.
    turn: u32,
    /// Previous line.
    previous: Option<u32>,
    /// Lines that recovery found partly written.
    partly: VecDeque<u32>,
}

/// All fronts.
#[derive(Debug)]
pub(super) struct Fronts {
    /// Fronts of the host, followed by the front of map images.
    list: Vec<Front>,
}

impl Fronts {
    /// Creates fronts without a line.
    pub(super) fn new(layout: &Layout) -> Self {
        Fronts { list: alloc::vec![Front::default(); layout.fronts as usize + 1] }
    }

    /// Queues a partly written line.
    pub(super) fn add_partly(&mut self, front: u32, line: u32) {
        self.list[front as usize].partly.push_back(line);
    }
}

impl Lines {
    /// Returns the number of strips that can be sent to the open lines of the host.
    pub(crate) fn open_strips(&self) -> u32 {
        let (_, fronts) = self.fronts.list.split_last().expect("the map has a front");
        let lines = fronts.iter().flat_map(|it| it.line.iter().chain(&it.partly));
        lines.map(|line| self.left(*line)).sum()
    }

    /// Returns the place of the next strip of a front, or `None` if it must wait. `seq` is the last
    /// row.
    pub(crate) fn place(&mut self, front: usize, seq: u64, who: Who) -> Option<(u32, u32)> {
        loop {
            let Some(line) = self.fronts.list[front].line else {
                self.open(front, seq, who)?;
                continue;
            };
            let turn = self.fronts.list[front].turn;
            // Columns take turns, so that the strips of a line are spread over all units.
            let columns = (0..self.layout.width).map(|step| (turn + step) % self.layout.width);
            let columns = columns.filter(|column| self.left_in(line, *column) > 0);
            let mut columns = columns.map(|it| (it, self.layout.segment(line, it)));
            if let Some((column, segment)) = columns.find(|(_, it)| self.chunks.takes(*it)) {
                self.fronts.list[front].turn = (column + 1) % self.layout.width;
                let strip = self.chunks.send(segment);
                self.at_mut(line).begin();
                return Some((segment, strip));
            }
            if self.left(line) > 0 || !self.close(line) {
                return None;
            }
            self.leave(front, line, seq);
        }
    }

    fn leave(&mut self, front: usize, line: u32, seq: u64) {
        let it = &mut self.fronts.list[front];
        (it.line, it.turn, it.previous) = (None, 0, Some(line));
        self.at_mut(line).take_no_more();
        self.settle(line, seq);
    }

    /// Closes full lines now instead of with the next strip. Returns whether there was one.
    pub(crate) fn leave_full(&mut self, seq: u64) -> bool {
        let mut any = false;
        for front in 0..self.fronts.list.len() {
            let line = self.fronts.list[front].line.filter(|line| self.left(*line) == 0);
            if let Some(line) = line
                && self.close(line)
            {
                self.leave(front, line, seq);
                any = true;
            }
        }
        any
    }

    /// Closes a line and starts its list. Returns false while the list of another line is in
    /// progress.
    fn close(&mut self, line: u32) -> bool {
        if self.at(line).list().is_some() {
            // Only two lists fit in memory: that of the closing line and that of the line after it.
            if self.closing.is_some() {
                return false;
            }
            self.closing = Some(line);
            self.at_mut(line).begin();
        }
        true
    }

    fn open(&mut self, front: usize, seq: u64, who: Who) -> Option<()> {
        assert!(self.fronts.list[front].line.is_none(), "a front has one line");
        if let Some(line) = self.fronts.list[front].partly.pop_front() {
            self.fronts.list[front].line = Some(line);
            return Some(());
        }
        let of_map = front + 1 == self.fronts.list.len();
        // Images go to the unit with the most free segments, and may use their reserved lines.
        let list = if of_map {
            self.lists.freest()
        } else if !self.has_spare() {
            return None;
        } else {
            front as u32
        };
        let line = self.lists.get(list, who)?;
        self.free_strips -= self.room_in(line);
        let (units, list) = self.parts(line, of_map);
        let it = &mut self.fronts.list[front];
        it.line = Some(line);
        let previous = it.previous.unwrap_or(NONE);
        self.map_lines += u32::from(of_map);
        self.at_mut(line).open(of_map, (seq, previous, units), list);
        Some(())
    }

    /// Returns the units that take part in a line that is being opened, and the column of its list:
    /// the last one with enough strips.
    fn parts(&self, line: u32, of_map: bool) -> (u64, u32) {
        let chunk = |column: u32| self.chunks.at(self.layout.segment(line, column));
        let columns = || (0..self.layout.width).filter(|column| !chunk(*column).bad);
        let units = columns().filter(|it| *it < u64::BITS).fold(0, |units, it| units | 1 << it);
        let list = columns().rfind(|column| chunk(*column).strips > self.layout.list);
        let none = of_map || self.layout.list == 0;
        (units, list.filter(|_| !none).unwrap_or(NONE))
    }
}
