//! Fills: each writes one page once, from the choice of the page to the update of the map.
//!
//! Whole consecutive slots are written directly from the host's payload, and the drive itself
//! merges the rest of the page. Otherwise a buffer is composed first from the contents of the page
//! (if the slots taken are not consecutive), the old contents of partly changed slots, and the
//! host's data. If the page cannot be read, its slots are written run by run.
//!
//! Invariants
//! - A page is written by one fill at a time, and no two fills change the same logical slot.
//! - A fill writes used slots only with their current contents.
//! - The map changes after all writes of a fill have succeeded.

use hostftl_core::{Payload, ViewMut};

/// The step of a fill. Each starts when the commands of the previous one are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The fill is not in use.
    Idle,
    /// The used slots of the page are read into the buffer.
    Merge,
    /// The old contents of partly changed slots are read into the buffer.
    Old,
    /// The host's data is copied into the buffer.
    Data,
    /// The page is written.
    Program,
    /// All commands are complete.
    Over,
}

/// The range that a fill changes, in sectors of the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    /// The first sector.
    pub from: u64,
    /// The sector after the last.
    pub end: u64,
    /// Offset of the first sector in the request's payload, in sectors. Unused for zeros.
    pub at: u32,
}

/// A write of one page.
#[derive(Debug)]
pub(super) struct Fill {
    /// The buffer of one page; `None` after a power cut.
    pub buffer: Option<Payload>,
    /// The current step.
    pub step: Step,
    /// Number of commands in flight.
    pub outstanding: u32,
    /// The request that is written.
    pub req: u16,
    /// The page that is written.
    pub page: u32,
    /// The slots of the page that are written, a bit for each.
    pub mask: u64,
    /// The range that changes.
    pub span: Span,
    /// The first logical slot of the range.
    pub logical: u32,
    /// Whether the host's payload is written without the buffer.
    pub straight: bool,
    /// Whether the whole page is written from the buffer.
    pub whole: bool,
    /// Whether data is missing, so that nothing is written.
    pub failed: bool,
}

impl Fill {
    /// Creates an idle fill with its buffer.
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

    /// Returns the buffer.
    pub(super) fn buffer(&mut self) -> &mut Payload {
        self.buffer.as_mut().expect("a fill keeps its buffer")
    }

    /// Takes back the view of a command that wrote into the buffer.
    pub(super) fn repay(&mut self, view: ViewMut) {
        self.buffer().repay_mut(view);
        self.outstanding -= 1;
    }

    /// Returns the number of logical slots that the fill changes.
    pub(super) fn count(&self) -> u32 {
        self.mask.count_ones()
    }

    /// Returns whether the fill is in progress and changes one of `count` logical slots from
    /// `logical` on.
    pub(super) fn changes(&self, logical: u32, count: u32) -> bool {
        self.step != Step::Idle
            && self.logical < logical + count
            && logical < self.logical + self.count()
    }

    /// Returns the changed part of the fill's logical slot `index`, in sectors of the slot.
    pub(super) fn part(&self, index: u32, slot: u32) -> (u32, u32) {
        let begin = (u64::from(self.logical) + u64::from(index)) * u64::from(slot);
        let from = self.span.from.max(begin) - begin;
        let end = self.span.end.min(begin + u64::from(slot)) - begin;
        (from as u32, end as u32)
    }

    /// Returns the runs of slots in the mask: first slot in the page, length, and index of the
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
