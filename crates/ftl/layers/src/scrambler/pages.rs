//! Data pages: their used slots, and the choice of the next page to write.
//!
//! Invariants
//! - A slot is used if it is mapped, if a write to it is in progress, or if its last contents may
//!   still be the only durable version of a sector.
//! - Pages from `fresh` on were never written. Every other page is in the list for its number of
//!   used slots, except while it is being written or discarded.
//! - A page whose last used slot was trimmed is *emptied* until the device has discarded it.
//!   Emptied pages have a list of their own, and count as free capacity like others without a used
//!   slot.

use alloc::vec;
use alloc::vec::Vec;

use super::params::Params;

/// Maximum number of slots in a page: one for each bit of a word.
pub(super) const MOST_SLOTS: u32 = u64::BITS;
/// Maximum number of preferred pages.
pub(super) const MOST_PREFERRED: usize = 2048;

/// Link of a page that is in no list.
const NONE: u32 = u32::MAX;

/// The reason why a page was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// It was never written.
    Fresh,
    /// It is in the device's next victim.
    Preferred,
    /// It has the fewest used slots.
    LeastUsed,
}

/// The data pages of the device.
#[derive(Debug)]
pub(super) struct Pages {
    per_page: u32,
    /// A page with this number of used slots is chosen only if there is no other.
    cap: u32,
    used: Vec<u64>,
    /// Lists by number of used slots: links of the pages, followed by the heads of the lists.
    next: Vec<u32>,
    prev: Vec<u32>,
    count: u32,
    fresh: u32,
    /// Pages in lists without a used slot, and pages being discarded.
    empty: u32,
    discarding: u32,
    /// Rule 1 applies while more pages than this are unwritten or empty.
    sufficient: u32,
    /// Rule 2 applies while this share of the slots in `reported` pages, in thousandths, is unused.
    enough_permille: u32,
    preferred: Vec<u32>,
    /// Number of pages in the device's last answer.
    reported: u32,
    reads: Vec<u16>,
}

impl Pages {
    /// Returns the bytes of the tables.
    pub(super) fn memory(count: u64) -> u64 {
        count * (8 + 4 + 4 + 2) + 4 * MOST_PREFERRED as u64
    }

    /// Creates pages that were never written.
    pub(super) fn new(count: u32, per_page: u32, params: &Params) -> Self {
        let sufficient = u64::from(count) * u64::from(params.sufficient_permille) / 1000;
        let lists = per_page + 2;
        let mut links = Vec::with_capacity((count + lists) as usize);
        links.resize(count as usize, NONE);
        links.extend(count..count + lists);
        Pages {
            per_page,
            cap: (per_page * params.util_permille / 1000).max(1),
            used: vec![0; count as usize],
            next: links.clone(),
            prev: links,
            count,
            fresh: 0,
            empty: 0,
            discarding: 0,
            sufficient: sufficient as u32,
            enough_permille: params.enough_permille,
            reported: 0,
            preferred: Vec::with_capacity(MOST_PREFERRED),
            reads: vec![0; count as usize],
        }
    }

    /// Returns the number of pages that were ever written.
    pub(super) fn taken(&self) -> u32 {
        self.fresh
    }

    /// Returns the used slots of a page, a bit for each.
    pub(super) fn used(&self, page: u32) -> u64 {
        self.used[page as usize]
    }

    fn unused(&self, page: u32) -> u32 {
        self.per_page - self.used(page).count_ones()
    }

    fn is_listed(&self, page: u32) -> bool {
        self.next[page as usize] != NONE
    }

    fn link(&mut self, page: u32) {
        self.link_to(self.used(page).count_ones(), page);
    }

    fn link_to(&mut self, list: u32, page: u32) {
        let head = self.count + list;
        let last = self.prev[head as usize];
        self.empty += u32::from(self.used(page) == 0);
        (self.next[page as usize], self.prev[page as usize]) = (head, last);
        self.next[last as usize] = page;
        self.prev[head as usize] = page;
    }

    fn unlink(&mut self, page: u32) {
        let (next, prev) = (self.next[page as usize], self.prev[page as usize]);
        self.empty -= u32::from(self.used(page) == 0);
        self.next[prev as usize] = next;
        self.prev[next as usize] = prev;
        self.next[page as usize] = NONE;
    }

    /// Returns the list of emptied pages, which are not discarded yet.
    fn emptied(&self) -> u32 {
        self.per_page + 1
    }

    fn first(&self, list: u32) -> Option<u32> {
        let head = self.count + list;
        Some(self.next[head as usize]).filter(|page| *page != head)
    }

    /// Replaces the preferred pages by those in the device's next victim.
    pub(super) fn prefer(&mut self, pages: impl Iterator<Item = u32>) {
        self.preferred.clear();
        self.preferred.extend(pages.take(MOST_PREFERRED));
        self.reported = self.preferred.len() as u32;
        let mut list = core::mem::take(&mut self.preferred);
        list.retain(|page| *page < self.fresh && self.unused(*page) > 0);
        self.preferred = list;
    }

    /// Returns whether no preferred page has room.
    pub(super) fn lacks_preferred(&self) -> bool {
        self.preferred.is_empty()
    }

    /// Returns the next page to write and the rule that chose it, or `None` if all pages with room
    /// are being written.
    pub(super) fn choose(&mut self) -> Option<(u32, Rule)> {
        let unwritten = self.count - self.fresh;
        if unwritten > 0 && unwritten + self.empty > self.sufficient {
            return Some((self.take_unwritten(), Rule::Fresh));
        }
        if self.has_enough()
            && let Some(at) = self.best_preferred()
        {
            return Some((self.preferred.swap_remove(at), Rule::Preferred));
        }
        // An unwritten page has no used slot, so no page has fewer.
        if unwritten > 0 {
            return Some((self.take_unwritten(), Rule::LeastUsed));
        }
        let emptied = self.first(self.emptied());
        let least = emptied.or_else(|| (0..self.per_page).find_map(|used| self.first(used)));
        least.map(|page| (page, Rule::LeastUsed))
    }

    fn take_unwritten(&mut self) -> u32 {
        self.fresh += 1;
        self.link(self.fresh - 1);
        self.fresh - 1
    }

    /// Returns the next emptied page, which the caller discards. [`Pages::discarded`] must follow.
    pub(super) fn discard_next(&mut self) -> Option<u32> {
        let page = self.first(self.emptied())?;
        self.unlink(page);
        self.discarding += 1;
        Some(page)
    }

    /// Notes that a page was discarded, or that the device refused.
    pub(super) fn discarded(&mut self, page: u32) {
        assert_eq!(self.used(page), 0, "a discarded page is not written");
        self.discarding -= 1;
        self.link(page);
    }

    /// Returns the number of pages being discarded.
    pub(super) fn discarding(&self) -> u32 {
        self.discarding
    }

    /// Returns whether the device's next victim has enough room for rule 2.
    fn has_enough(&self) -> bool {
        if self.enough_permille == 0 {
            return true;
        }
        let unused = self.preferred.iter().map(|page| u64::from(self.unused(*page)));
        let slots = u64::from(self.reported) * u64::from(self.per_page);
        unused.sum::<u64>() * 1000 >= slots * u64::from(self.enough_permille)
    }

    /// Returns the index of the preferred page with the fewest used slots.
    fn best_preferred(&mut self) -> Option<usize> {
        let mut best: Option<(u32, usize)> = None;
        for (at, page) in self.preferred.iter().enumerate().filter(|it| self.is_listed(*it.1)) {
            let used = self.used(*page).count_ones();
            if used < self.cap && best.is_none_or(|(least, _)| used < least) {
                best = Some((used, at));
            }
        }
        best.map(|(_, at)| at)
    }

    /// Takes up to `wanted` unused slots of a page, which is being written from now on.
    pub(super) fn take(&mut self, page: u32, wanted: u32) -> u64 {
        self.unlink(page);
        let used = self.used(page);
        let limit = self.cap.saturating_sub(used.count_ones()).max(1);
        let all = u64::MAX >> (MOST_SLOTS - self.per_page);
        let (mut free, mut mask) = (!used & all, 0);
        assert!(free != 0, "a chosen page has space");
        for _ in 0..wanted.min(limit).min(free.count_ones()) {
            let lowest = free & free.wrapping_neg();
            mask |= lowest;
            free ^= lowest;
        }
        self.used[page as usize] |= mask;
        mask
    }

    /// Notes the end of a write to a page. The slots in `unneeded` are unused again.
    pub(super) fn written(&mut self, page: u32, unneeded: u64) {
        self.used[page as usize] &= !unneeded;
        self.link(page);
    }

    /// Makes a slot unused. `empties` states that it was trimmed, so that the page is discarded if
    /// it was the last used slot.
    pub(super) fn release(&mut self, slot: u32, empties: bool) {
        let (page, bit) = (slot / self.per_page, 1 << (slot % self.per_page));
        assert!(self.used(page) & bit != 0, "a slot is released once");
        let listed = self.is_listed(page);
        if listed {
            self.unlink(page);
        }
        self.used[page as usize] &= !bit;
        if listed {
            if empties && self.used(page) == 0 {
                self.link_to(self.emptied(), page)
            } else {
                self.link(page)
            }
        }
    }

    /// Notes the start of a read of a page.
    pub(super) fn begin_read(&mut self, page: u32) {
        self.reads[page as usize] += 1;
    }

    /// Notes the end of a read of a page.
    pub(super) fn end_read(&mut self, page: u32) {
        self.reads[page as usize] -= 1;
    }

    /// Returns whether a page is being read.
    pub(super) fn is_read(&self, page: u32) -> bool {
        self.reads[page as usize] > 0
    }

    /// Marks a slot as used that recovery found mapped.
    pub(super) fn adopt(&mut self, slot: u32) {
        let page = slot / self.per_page;
        self.used[page as usize] |= 1 << (slot % self.per_page);
        self.fresh = self.fresh.max(page + 1);
    }

    /// Adopts the number of pages that were ever written, from a root.
    pub(super) fn adopt_taken(&mut self, pages: u32) {
        self.fresh = self.fresh.max(pages.min(self.count));
    }

    /// Lists a page after recovery has counted its slots.
    pub(super) fn adopt_page(&mut self, page: u32) {
        self.link(page);
    }

    /// Checks the tables, with `slots` used slots and `writing` pages being written.
    pub(super) fn check(&self, slots: u64, writing: usize) -> Result<(), &'static str> {
        let used: u64 = self.used.iter().map(|used| u64::from(used.count_ones())).sum();
        if used != slots {
            return Err("the used slots of pages differ from the slots in use");
        }
        let (mut listed, mut empty) = (0, 0);
        for list in 0..=self.emptied() {
            let head = self.count + list;
            let count = if list == self.emptied() { 0 } else { list };
            let mut at = self.next[head as usize];
            while at != head {
                if at >= self.fresh || self.used(at).count_ones() != count {
                    return Err("a page is in the wrong list of used slots");
                }
                listed += 1;
                empty += u32::from(count == 0);
                at = self.next[at as usize];
            }
        }
        if empty != self.empty {
            return Err("the number of empty pages is wrong");
        }
        if listed + writing + self.discarding as usize == self.fresh as usize {
            Ok(())
        } else {
            Err("a page is in no list and is not being written")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(count: u32, per_page: u32, util_permille: u32) -> Pages {
        Pages::new(count, per_page, &Params { util_permille, ..Params::default() })
    }

    fn write(pages: &mut Pages, wanted: u32) -> (u32, Rule, u64) {
        let (page, rule) = pages.choose().expect("there is room");
        let mask = pages.take(page, wanted);
        pages.written(page, 0);
        (page, rule, mask)
    }

    #[test]
    fn the_three_rules_in_their_order() {
        let mut pages = pages(3, 4, 1000);
        assert_eq!(write(&mut pages, 2), (0, Rule::Fresh, 0b11));
        assert_eq!(write(&mut pages, 1), (1, Rule::Fresh, 0b1));
        assert_eq!(write(&mut pages, 3), (2, Rule::Fresh, 0b111));
        pages.prefer([0, 2].into_iter());
        assert_eq!(write(&mut pages, 1), (0, Rule::Preferred, 0b100));
        assert_eq!(write(&mut pages, 9), (2, Rule::Preferred, 0b1000));
        assert_eq!(write(&mut pages, 1), (1, Rule::LeastUsed, 0b10));
        assert!(pages.check(8, 0).is_err(), "nine are used");
        pages.release(1, false);
        assert_eq!(pages.check(8, 0), Ok(()));
    }

    #[test]
    fn few_empty_pages_are_kept_and_hinted_pages_preferred() {
        let params = Params { sufficient_permille: 500, ..Params::default() };
        let mut pages = Pages::new(4, 4, &params);
        assert_eq!(write(&mut pages, 2), (0, Rule::Fresh, 0b11));
        assert_eq!(write(&mut pages, 4), (1, Rule::Fresh, 0b1111), "more than two were left");
        pages.prefer([0].into_iter());
        assert_eq!(write(&mut pages, 1), (0, Rule::Preferred, 0b100));
        assert_eq!(write(&mut pages, 1), (2, Rule::LeastUsed, 0b1), "an empty one is least used");
        assert_eq!(pages.check(8, 0), Ok(()));
    }

    #[test]
    fn trimmed_pages_are_empty_after_the_device_trim() {
        let mut pages = pages(2, 4, 1000);
        write(&mut pages, 2);
        write(&mut pages, 4);
        pages.release(0, false);
        assert_eq!(pages.discard_next(), None, "a slot of it is used");
        pages.release(1, true);
        assert_eq!((pages.discard_next(), pages.discarding()), (Some(0), 1));
        assert_eq!((pages.discard_next(), pages.choose()), (None, None), "the other one is full");
        assert_eq!(pages.check(4, 0), Ok(()));
        pages.discarded(0);
        assert_eq!(pages.check(4, 0), Ok(()));
        assert_eq!(write(&mut pages, 1), (0, Rule::LeastUsed, 0b1));
        pages.release(0, true);
        assert_eq!(
            write(&mut pages, 1),
            (0, Rule::LeastUsed, 0b1),
            "the device was not notified yet"
        );
        assert_eq!(pages.discard_next(), None, "it is used");
        pages.release(0, false);
        assert_eq!((pages.discard_next(), pages.check(4, 0)), (None, Ok(())), "it was replaced");
    }

    #[test]
    fn empty_pages_are_free_capacity_for_rule_1() {
        let params = Params { sufficient_permille: 500, ..Params::default() };
        let mut pages = Pages::new(4, 4, &params);
        assert_eq!(write(&mut pages, 1).1, Rule::Fresh);
        assert_eq!(write(&mut pages, 4).1, Rule::Fresh, "more than two were left");
        pages.prefer([1].into_iter());
        pages.release(0, true);
        assert_eq!(write(&mut pages, 1), (2, Rule::Fresh, 0b1), "two and an empty one");
    }

    #[test]
    fn hinted_pages_with_little_space_are_skipped() {
        let params = Params { enough_permille: 250, ..Params::default() };
        let mut pages = Pages::new(3, 4, &params);
        write(&mut pages, 3);
        write(&mut pages, 4);
        write(&mut pages, 1);
        pages.prefer([0, 1].into_iter());
        assert_eq!(write(&mut pages, 1).1, Rule::LeastUsed, "one slot in eight");
        pages.release(4, false);
        pages.prefer([0, 1].into_iter());
        assert_eq!(write(&mut pages, 1), (0, Rule::Preferred, 0b1000), "one in four");
    }

    #[test]
    fn a_page_being_written_is_not_chosen() {
        let mut pages = pages(1, 4, 1000);
        let (page, _) = pages.choose().expect("a fresh page");
        pages.take(page, 1);
        assert_eq!(pages.choose(), None);
        pages.written(page, 1);
        assert_eq!(pages.choose(), Some((0, Rule::LeastUsed)));
    }

    #[test]
    fn pages_stop_at_the_fill_limit_while_others_have_space() {
        let mut pages = pages(2, 4, 500);
        assert_eq!(write(&mut pages, 4).2, 0b11, "half of a page");
        write(&mut pages, 1);
        pages.prefer([0].into_iter());
        assert_eq!(write(&mut pages, 1).1, Rule::LeastUsed, "the preferred one is full enough");
        assert_eq!(write(&mut pages, 4).2, 0b100, "then any that has room");
    }
}
