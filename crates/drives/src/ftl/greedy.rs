//! Greedy victims: the segment with the fewest valid pages; among equals, the one that has been so
//! longest.
//!
//! Invariants
//! - A sealed segment is in exactly one list, that of its valid count; no other is in any.
//! - No list below `lowest` has a segment.
//!
//! Every call is O(1), except that `pick` may pass over as many lists as a segment has pages.

const NONE: u32 = u32::MAX;

/// Sealed segments by valid count.
#[derive(Debug)]
pub struct Greedy {
    head: Vec<u32>,
    tail: Vec<u32>,
    next: Vec<u32>,
    prev: Vec<u32>,
    lowest: usize,
}

impl Greedy {
    /// Nothing sealed, of `segments` segments with `pages` pages.
    pub fn new(segments: usize, pages: usize) -> Self {
        Greedy {
            head: vec![NONE; pages + 1],
            tail: vec![NONE; pages + 1],
            next: vec![NONE; segments],
            prev: vec![NONE; segments],
            lowest: pages + 1,
        }
    }

    /// `segment` may be picked from now on.
    pub fn sealed(&mut self, segment: u32, valid: u32) {
        let list = valid as usize;
        let last = self.tail[list];
        self.prev[segment as usize] = last;
        self.next[segment as usize] = NONE;
        match last {
            NONE => self.head[list] = segment,
            last => self.next[last as usize] = segment,
        }
        self.tail[list] = segment;
        self.lowest = self.lowest.min(list);
    }

    /// The valid count of a sealed segment changed.
    pub fn live_changed(&mut self, segment: u32, from: u32, to: u32) {
        self.remove(segment, from);
        self.sealed(segment, to);
    }

    /// Takes the best victim out.
    pub fn pick(&mut self) -> Option<u32> {
        while *self.head.get(self.lowest)? == NONE {
            self.lowest += 1;
        }
        let segment = self.head[self.lowest];
        self.remove(segment, self.lowest as u32);
        Some(segment)
    }

    /// The valid count of the best victim.
    pub fn best(&self) -> Option<u32> {
        let list = (self.lowest..self.head.len()).find(|&list| self.head[list] != NONE)?;
        Some(list as u32)
    }

    fn remove(&mut self, segment: u32, valid: u32) {
        let list = valid as usize;
        let (prev, next) = (self.prev[segment as usize], self.next[segment as usize]);
        match prev {
            NONE => self.head[list] = next,
            prev => self.next[prev as usize] = next,
        }
        match next {
            NONE => self.tail[list] = prev,
            next => self.prev[next as usize] = prev,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a scan of everything: the fewest valid pages, then the longest with that count.
    #[test]
    fn agrees_with_a_scan() {
        let (mut greedy, mut model) = (Greedy::new(40, 16), Vec::<(u32, u32)>::new());
        let mut state = 1u64;
        let mut dice = |sides: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % sides
        };
        for _ in 0..20_000 {
            let segment = dice(40) as u32;
            match model.iter().position(|&(it, _)| it == segment) {
                None => {
                    let valid = dice(17) as u32;
                    greedy.sealed(segment, valid);
                    model.push((segment, valid));
                }
                Some(at) if model[at].1 > 0 => {
                    let (_, valid) = model.remove(at);
                    greedy.live_changed(segment, valid, valid - 1);
                    model.push((segment, valid - 1));
                }
                Some(_) => {
                    // The first of the least is the one that has been so longest.
                    let best = model.iter().copied().min_by_key(|&(_, valid)| valid);
                    assert_eq!(greedy.best(), best.map(|(_, valid)| valid));
                    let picked = greedy.pick();
                    assert_eq!(picked, best.map(|(segment, _)| segment));
                    model.retain(|&(it, _)| Some(it) != picked);
                }
            }
        }
        while let Some(segment) = greedy.pick() {
            model.retain(|&(it, _)| it != segment);
        }
        assert!(model.is_empty() && greedy.best().is_none());
    }
}
