//! Fills: one write of one page each, from the choice of the page to the map.
//!
//! Whole slots that lie in a row are written straight from the host's payload, and the drive reads
//! and writes the rest of the page. Otherwise a buffer is put together first: what the page holds
//! (when the slots taken lie apart), the old content of slots that change in part, and the host's
//! data. When the page can't be read, its slots are written run by run instead.
//!
//! Invariants
//! - A page is written by one fill at a time, and no two fills change the same logical slot.
//! - A fill writes used slots only with what they hold.
//! - The map changes when all writes of a fill are over and went well.

use hostftl_core::{Payload, ViewMut};

/// Where a fill is in its cycle; each begins when the commands of the one before are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Not in use.
    Idle,
    /// The used slots of the page come into the buffer.
    Merge,
    /// The old content of slots that change in part comes into the buffer.
    Old,
    /// The host's data comes into the buffer.
    Data,
    /// It is written.
    Program,
    /// All is over.
    Over,
}

/// What a fill changes, in sectors of the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    /// The first sector.
    pub from: u64,
    /// One past the last.
    pub end: u64,
    /// Where the first lies in the request, in sectors; not for zeros.
    pub at: u32,
}

#[derive(Debug)]
pub(super) struct Fill {
    /// The buffer, one page long.
    pub buffer: Option<Payload>,
    /// Where in its cycle.
    pub step: Step,
    /// Commands under way.
    pub outstanding: u32,
    /// The request.
    pub req: u16,
    /// The page.
    pub page: u32,
    /// The slots of it that are written.
    pub mask: u64,
    /// What it changes.
    pub span: Span,
    /// The first logical slot of that.
    pub logical: u32,
    /// Whether the host's payload is written as it is.
    pub straight: bool,
    /// Whether the whole page is written.
    pub whole: bool,
    /// Whether something is missing, so that nothing is written.
    pub failed: bool,
}

impl Fill {
    /// An idle fill with its buffer.
    pub(super) fn new(buffer: Payload) -> Self {
        Fill {
            buffer: Some(buffer),
            step: Step::Idle,
            outstanding: 0,
            req: 0,
            page: 0,
            mask: 0,
            span: Span::default(),
            logical: 0,
            straight: false,
            whole: false,
            failed: false,
        }
    }

    /// The buffer.
    pub(super) fn buffer(&mut self) -> &mut Payload {
        self.buffer.as_mut().expect("a fill keeps its buffer")
    }

    /// A command that wrote into the buffer is over.
    pub(super) fn repay(&mut self, view: ViewMut) {
        self.buffer().repay_mut(view);
        self.outstanding -= 1;
    }

    /// Logical slots that it changes.
    pub(super) fn count(&self) -> u32 {
        self.mask.count_ones()
    }

    /// Whether it is under way and changes one of `count` logical slots from `logical` on.
    pub(super) fn changes(&self, logical: u32, count: u32) -> bool {
        self.step != Step::Idle
            && self.logical < logical + count
            && logical < self.logical + self.count()
    }

    /// The part of logical slot number `index` of the fill that changes, in sectors of the slot.
    pub(super) fn part(&self, index: u32, slot: u32) -> (u32, u32) {
        let begin = (u64::from(self.logical) + u64::from(index)) * u64::from(slot);
        let from = self.span.from.max(begin) - begin;
        let end = self.span.end.min(begin + u64::from(slot)) - begin;
        (from as u32, end as u32)
    }

    /// Runs of slots in its mask: where each begins in the page, its length, and the number of the
    /// first logical slot in the fill.
    pub(super) fn runs(&self) -> impl Iterator<Item = (u32, u32, u32)> + use<> {
        let (mut rest, mut index) = (self.mask, 0);
        core::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let first = rest.trailing_zeros();
            let len = (rest >> first).trailing_ones();
            rest &= !((u64::MAX >> (64 - len)) << first);
            index += len;
            Some((first, len, index - len))
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn fill(mask: u64, from: u64, end: u64) -> Fill {
        let mut fill = Fill::new(Payload::issue(0, 32));
        (fill.mask, fill.logical) = (mask, (from / 8) as u32);
        fill.span = Span { from, end, at: 0 };
        fill
    }

    fn void(mut fill: Fill) {
        fill.buffer.take().map(Payload::void);
    }

    #[test]
    fn runs_of_a_mask() {
        let fill = fill(0b1011_0110, 0, 40);
        let runs: Vec<_> = fill.runs().collect();
        assert_eq!(runs, [(1, 2, 0), (4, 2, 2), (7, 1, 4)]);
        void(fill);
        let fill = self::fill(u64::MAX, 0, 512);
        assert_eq!(fill.runs().collect::<Vec<_>>(), [(0, 64, 0)]);
        void(fill);
    }

    #[test]
    fn parts_of_slots() {
        let fill = fill(0b111, 13, 26);
        assert_eq!([0, 1, 2].map(|index| fill.part(index, 8)), [(5, 8), (0, 8), (0, 2)]);
        assert!(!fill.changes(1, 1), "it is idle");
        void(fill);
    }
}
