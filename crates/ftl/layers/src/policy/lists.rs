//! Lists of sealed segments by number of valid pages, each in the order of arrival.
//!
//! Invariants
//! - A segment is in at most one list. The lists are circular, each with its own sentinel, so that
//!   linking needs no branch.
//! - No list below `lowest` has a segment.
//!
//! Every call is O(1), except that `least` may skip as many lists as a segment has pages.

use alloc::vec::Vec;

/// Lists of segments by number of valid pages.
#[derive(Debug)]
pub struct Lists {
    /// Previous and next node of each segment, followed by those of the sentinels.
    links: Vec<[u32; 2]>,
    segments: u32,
    pages: u32,
    lowest: u32,
}

const PREV: usize = 0;
const NEXT: usize = 1;

impl Lists {
    /// Creates empty lists for `segments` segments of `pages` pages.
    pub fn new(segments: u32, pages: u32) -> Self {
        let links = (0..segments + pages + 1).map(|node| [node, node]).collect();
        Lists { links, segments, pages, lowest: pages + 1 }
    }

    /// Returns the bytes of the lists for `segments` segments of `pages` pages.
    pub fn memory(segments: u32, pages: u32) -> u64 {
        (u64::from(segments) + u64::from(pages) + 1) * size_of::<[u32; 2]>() as u64
    }

    /// Returns the bytes of the lists.
    pub fn bytes(&self) -> u64 {
        (self.links.len() * size_of::<[u32; 2]>()) as u64
    }

    /// Appends a segment that is in no list to the list of `valid`.
    pub fn push(&mut self, segment: u32, valid: u32) {
        assert!(self.links[segment as usize] == [segment; 2], "a segment in two lists");
        self.append(segment, valid);
    }

    /// Moves a segment from its list to the end of the list of `valid`.
    #[inline]
    pub fn relink(&mut self, segment: u32, valid: u32) {
        self.take_out(segment);
        self.append(segment, valid);
    }

    #[inline]
    fn append(&mut self, segment: u32, valid: u32) {
        let sentinel = self.segments + valid;
        let last = self.links[sentinel as usize][PREV];
        self.links[segment as usize] = [last, sentinel];
        self.links[last as usize][NEXT] = segment;
        self.links[sentinel as usize][PREV] = segment;
        self.lowest = self.lowest.min(valid);
    }

    /// Removes a segment from its list.
    pub fn remove(&mut self, segment: u32) {
        self.take_out(segment);
        self.links[segment as usize] = [segment; 2];
    }

    #[inline]
    fn take_out(&mut self, segment: u32) {
        let [prev, next] = self.links[segment as usize];
        assert!(next != segment, "a segment in no list");
        self.links[prev as usize][NEXT] = next;
        self.links[next as usize][PREV] = prev;
    }

    /// Returns the segment with the fewest valid pages; among equals the first to arrive.
    pub fn least(&mut self) -> Option<u32> {
        while self.lowest <= self.pages {
            match self.first(self.lowest) {
                None => self.lowest += 1,
                found => return found,
            }
        }
        None
    }

    /// Iterates over the segments with their lists, list by list in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..=self.pages).flat_map(move |valid| {
            let next = move |&node: &u32| Some(self.links[node as usize][NEXT]);
            core::iter::successors(self.first(valid), next)
                .take_while(|&node| node < self.segments)
                .map(move |segment| (segment, valid))
        })
    }

    /// Returns the nodes next to a node, which change when it is removed.
    #[inline]
    pub fn beside(&self, node: u32) -> [u32; 2] {
        self.links[node as usize]
    }

    /// Returns whether a segment is in a list.
    pub fn contains(&self, segment: u32) -> bool {
        self.links[segment as usize] != [segment; 2]
    }

    /// Returns the first segment of the list of `valid`.
    #[inline]
    pub fn first(&self, valid: u32) -> Option<u32> {
        let node = self.links[(self.segments + valid) as usize][NEXT];
        (node < self.segments).then_some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Dice;

    /// Compares with a scan: the fewest valid pages, and among equals the longest unchanged.
    #[test]
    fn agrees_with_a_scan() {
        let (mut lists, mut model) = (Lists::new(40, 16), Vec::<(u32, u32)>::new());
        let mut dice = Dice::new(1);
        for _ in 0..20_000 {
            let segment = dice.below(40);
            match model.iter().position(|&(it, _)| it == segment) {
                None => {
                    let valid = dice.below(17);
                    lists.push(segment, valid);
                    model.push((segment, valid));
                }
                Some(at) if model[at].1 > 0 => {
                    let (_, valid) = model.remove(at);
                    lists.relink(segment, valid - 1);
                    model.push((segment, valid - 1));
                }
                Some(_) => {
                    // The first of the least is the one that has been unchanged for longest.
                    let best = model.iter().min_by_key(|&&(_, valid)| valid).map(|&(it, _)| it);
                    assert_eq!(lists.least(), best);
                    lists.remove(best.expect("this one is sealed"));
                    model.retain(|&(it, _)| Some(it) != best);
                }
            }
        }
        while let Some(segment) = lists.least() {
            lists.remove(segment);
            model.retain(|&(it, _)| it != segment);
        }
        assert!(model.is_empty());
    }
}
