//! Victim policies, updated with every change so that a choice needs no scan of pages.
//!
//! Invariants
//! - Exactly the sealed segments can be chosen.
//! - An update costs O(1). A choice costs at most O(pages per segment), or O(D) for `d-choices:D`.
//! - Ages are in host writes, so the choice does not depend on a clock.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use super::dice::Dice;
use super::lists::Lists;
use super::own::VictimPolicy;
use super::words::GcPolicy;
use super::worth;

/// Sealed segments in arbitrary order, for random draws.
#[derive(Debug)]
pub(super) struct Set {
    pub members: Vec<u32>,
    /// Index in `members` of each sealed segment.
    at: Vec<u32>,
    pub dice: Dice,
}

impl Set {
    fn new(segments: u32, seed: u64) -> Self {
        Set {
            members: Vec::with_capacity(segments as usize),
            at: vec![u32::MAX; segments as usize],
            dice: Dice::new(seed),
        }
    }

    pub(super) fn contains(&self, segment: u32) -> bool {
        self.at[segment as usize] != u32::MAX
    }

    pub(super) fn insert(&mut self, segment: u32) {
        assert!(!self.contains(segment), "a segment sealed twice");
        self.at[segment as usize] = self.members.len() as u32;
        self.members.push(segment);
    }

    fn draw(&mut self) -> Option<u32> {
        (!self.members.is_empty()).then(|| {
            let at = self.dice.below(self.members.len() as u32);
            self.members[at as usize]
        })
    }

    /// Returns the segment with the fewest valid pages of `draws` random draws.
    fn best_among(&mut self, draws: u32, valid: impl Fn(u32) -> u32) -> Option<u32> {
        let mut best = self.draw()?;
        for other in (1..draws).filter_map(|_| self.draw()) {
            if valid(other) < valid(best) {
                best = other;
            }
        }
        Some(best)
    }

    fn remove(&mut self, segment: u32) {
        let at = mem::replace(&mut self.at[segment as usize], u32::MAX);
        self.members.swap_remove(at as usize);
        if let Some(&moved) = self.members.get(at as usize) {
            self.at[moved as usize] = at;
        }
    }
}

#[derive(Debug)]
pub(super) enum Kind {
    /// Lists by number of valid pages.
    Greedy(Lists),
    /// One list of all segments.
    Fifo(Lists),
    /// Random draws, and their number.
    Choices(Set, u32),
    /// Lists by number of valid pages, and the time at which each segment last lost a page.
    CostBenefit(Lists, Vec<u64>),
    /// The same, and the value of a unit of age by number of valid pages.
    DecliningCost(Lists, Vec<u64>, Vec<f64>),
    /// A policy in a file of its own, and its size in bytes.
    Own(Box<dyn VictimPolicy>, u64),
}

/// State of a victim policy. The pool of segments counts the valid pages, and reports them here.
#[derive(Debug)]
pub struct Victims {
    pub(super) kind: Kind,
    pages: u32,
}

impl Victims {
    /// Creates a policy over `segments` segments of `pages` pages, none of them sealed. Random
    /// draws follow from `seed`.
    pub fn new(policy: GcPolicy, segments: u32, pages: u32, seed: u64) -> Self {
        let lists = || Lists::new(segments, pages);
        let kind = match policy {
            GcPolicy::Greedy => Kind::Greedy(lists()),
            GcPolicy::Fifo => Kind::Fifo(lists()),
            GcPolicy::Random => Kind::Choices(Set::new(segments, seed), 1),
            GcPolicy::DChoices(count) => Kind::Choices(Set::new(segments, seed), count),
            GcPolicy::CostBenefit => Kind::CostBenefit(lists(), vec![0; segments as usize]),
            GcPolicy::DecliningCost => {
                Kind::DecliningCost(lists(), vec![0; segments as usize], worth::declining(pages))
            }
            GcPolicy::Own(own) => {
                Kind::Own((own.new)(segments, pages), (own.memory)(segments, pages))
            }
        };
        Victims { kind, pages }
    }

    /// Returns the bytes of all tables of a policy.
    pub fn memory(policy: GcPolicy, segments: u32, pages: u32) -> u64 {
        let each = u64::from(segments) * size_of::<u64>() as u64;
        match policy {
            GcPolicy::Greedy | GcPolicy::Fifo => Lists::memory(segments, pages),
            GcPolicy::Random | GcPolicy::DChoices(_) => each,
            GcPolicy::CostBenefit => Lists::memory(segments, pages) + each,
            GcPolicy::DecliningCost => Lists::memory(segments, pages) + each + worth::memory(pages),
            GcPolicy::Own(own) => (own.memory)(segments, pages),
        }
    }

    /// Returns the bytes of all tables.
    pub fn bytes(&self) -> u64 {
        let each = size_of::<u64>() as u64;
        match &self.kind {
            Kind::Greedy(lists) | Kind::Fifo(lists) => lists.bytes(),
            Kind::Choices(set, _) => set.at.len() as u64 * each,
            Kind::CostBenefit(lists, changed) => lists.bytes() + changed.len() as u64 * each,
            Kind::DecliningCost(lists, changed, worth) => {
                lists.bytes() + (changed.len() + worth.len()) as u64 * each
            }
            Kind::Own(_, bytes) => *bytes,
        }
    }

    /// Notes that a segment was filled; `valid` of its pages are valid.
    pub fn sealed(&mut self, segment: u32, valid: u32, now: u64) {
        match &mut self.kind {
            Kind::Greedy(lists) => lists.push(segment, valid),
            Kind::Fifo(lists) => lists.push(segment, 0),
            Kind::Choices(set, _) => set.insert(segment),
            Kind::CostBenefit(lists, changed) | Kind::DecliningCost(lists, changed, _) => {
                lists.push(segment, valid);
                changed[segment as usize] = now;
            }
            Kind::Own(policy, _) => policy.sealed(segment, valid, now),
        }
    }

    /// Notes that a sealed segment now has `to` valid pages.
    #[inline]
    pub fn valid_changed(&mut self, segment: u32, to: u32, now: u64) {
        match &mut self.kind {
            Kind::Greedy(lists) => lists.relink(segment, to),
            Kind::Fifo(_) | Kind::Choices(..) => {}
            Kind::CostBenefit(lists, changed) | Kind::DecliningCost(lists, changed, _) => {
                lists.relink(segment, to);
                changed[segment as usize] = now;
            }
            Kind::Own(policy, _) => policy.changed(segment, to, now),
        }
    }

    /// Returns the list nodes next to `node`, which [`Victims::live_changed`] accesses besides the
    /// segment itself. The caller can prefetch them, also step by step. Nothing changes.
    #[inline]
    pub fn beside(&self, node: u32) -> [u32; 2] {
        match &self.kind {
            Kind::Greedy(lists) | Kind::CostBenefit(lists, _) | Kind::DecliningCost(lists, ..) => {
                lists.beside(node)
            }
            Kind::Fifo(_) | Kind::Choices(..) | Kind::Own(..) => [node; 2],
        }
    }

    /// Returns the segment to collect next; `valid` returns the valid pages of a segment. It stays
    /// sealed.
    pub fn pick(&mut self, now: u64, valid: impl Fn(u32) -> u32) -> Option<u32> {
        match &mut self.kind {
            Kind::Greedy(lists) | Kind::Fifo(lists) => lists.least(),
            Kind::Choices(set, count) => set.best_among(*count, valid),
            Kind::CostBenefit(lists, changed) => {
                let worth = |valid| worth::benefit(valid, self.pages);
                oldest_and_emptiest(lists, changed, self.pages, now, worth)
            }
            Kind::DecliningCost(lists, changed, worth) => {
                let worth = |valid| (worth[valid as usize], 1.0);
                oldest_and_emptiest(lists, changed, self.pages, now, worth)
            }
            Kind::Own(policy, _) => policy.pick(now, &valid),
        }
    }

    /// Returns whether [`Victims::pick`] chooses a completely valid segment only if there is no
    /// other.
    pub fn knows_least(&self) -> bool {
        matches!(self.kind, Kind::Greedy(_) | Kind::CostBenefit(..) | Kind::DecliningCost(..))
    }

    /// Returns the choice of [`Victims::pick`] without consuming a random draw.
    pub fn peek(&mut self, now: u64, valid: impl Fn(u32) -> u32) -> Option<u32> {
        let Kind::Choices(set, count) = &mut self.kind else { return self.pick(now, valid) };
        let dice = set.dice;
        let found = set.best_among(*count, valid);
        set.dice = dice;
        found
    }

    /// Removes a segment that is collected from the sealed ones.
    pub fn freed(&mut self, segment: u32) {
        match &mut self.kind {
            Kind::Greedy(lists)
            | Kind::Fifo(lists)
            | Kind::CostBenefit(lists, _)
            | Kind::DecliningCost(lists, ..) => lists.remove(segment),
            Kind::Choices(set, _) => set.remove(segment),
            Kind::Own(policy, _) => policy.freed(segment),
        }
    }
}

/// Returns the best segment by age and number of valid pages. A segment joins a list when it
/// changes, so the first one of each list is the oldest, and only these are compared. Among equals
/// the one with fewer valid pages is taken. `worth` returns a fraction.
fn oldest_and_emptiest(
    lists: &Lists,
    changed: &[u64],
    pages: u32,
    now: u64,
    worth: impl Fn(u32) -> (f64, f64),
) -> Option<u32> {
    if let Some(empty) = lists.first(0) {
        return Some(empty);
    }
    let mut best = None;
    for valid in 1..=pages {
        let Some(segment) = lists.first(valid) else { continue };
        let age = (now - changed[segment as usize]) as f64;
        let (times, per) = worth(valid);
        let score = age * times / per;
        if best.is_none_or(|(other, _)| score > other) {
            best = Some((score, segment));
        }
    }
    best.map(|(_, segment)| segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENTS: u32 = 40;
    const PAGES: u32 = 16;

    /// State of a sealed segment for the scan.
    #[derive(Clone, Copy)]
    struct Known {
        segment: u32,
        valid: u32,
        sealed: u64,
        changed: u64,
    }

    impl Known {
        fn value(&self, policy: GcPolicy, now: u64) -> f64 {
            let share = f64::from(self.valid) / f64::from(PAGES);
            let age = (now - self.changed) as f64;
            match policy {
                GcPolicy::DecliningCost => age * (1.0 - share + share * share.ln()),
                _ => age * (1.0 - share) / (2.0 * share),
            }
        }
    }

    /// Returns whether a policy may choose `picked`, by a scan of all sealed segments.
    fn may_pick(policy: GcPolicy, picked: Known, all: &[Known], now: u64) -> bool {
        match policy {
            GcPolicy::Greedy => all.iter().all(|other| picked.valid <= other.valid),
            GcPolicy::Fifo => all.iter().all(|other| picked.sealed <= other.sealed),
            GcPolicy::Random | GcPolicy::DChoices(_) | GcPolicy::Own(_) => true,
            GcPolicy::CostBenefit | GcPolicy::DecliningCost if picked.valid == 0 => true,
            GcPolicy::CostBenefit | GcPolicy::DecliningCost => {
                let best = picked.value(policy, now) + 1e-9 * now as f64;
                all.iter().all(|other| other.valid > 0 && other.value(policy, now) <= best)
            }
        }
    }

    #[test]
    fn every_policy_agrees_with_a_scan() {
        let words = ["greedy", "fifo", "random", "d-choices:4", "cost-benefit", "declining-cost"];
        for word in words {
            let policy = word.parse().unwrap();
            let mut victims = Victims::new(policy, SEGMENTS, PAGES, 5);
            let mut dice = Dice::new(2);
            let (mut all, mut picks) = (Vec::<Known>::new(), 0);
            for now in 0..40_000 {
                let segment = dice.below(SEGMENTS);
                match all.iter().position(|known| known.segment == segment) {
                    None => {
                        let valid = dice.below(PAGES + 1);
                        victims.sealed(segment, valid, now);
                        all.push(Known { segment, valid, sealed: now, changed: now });
                    }
                    Some(at) if all[at].valid > 0 && dice.below(3) > 0 => {
                        all[at].valid -= 1;
                        all[at].changed = now;
                        victims.valid_changed(segment, all[at].valid, now);
                    }
                    Some(_) => {
                        let valid =
                            |it| all.iter().find(|known| known.segment == it).unwrap().valid;
                        let picked = victims.pick(now, valid).unwrap();
                        let at = all.iter().position(|known| known.segment == picked).unwrap();
                        assert!(may_pick(policy, all[at], &all, now), "{word} at {now}");
                        victims.freed(picked);
                        all.swap_remove(at);
                        picks += 1;
                    }
                }
            }
            assert!(picks > 1_000, "{word} picked {picks} times");
        }
    }

    /// Checks that more draws find emptier segments, and that each draw is fair.
    #[test]
    fn draws_are_fair() {
        let mut victims = Victims::new(GcPolicy::DChoices(2), SEGMENTS, PAGES, 5);
        (0..SEGMENTS).for_each(|segment| victims.sealed(segment, 0, 0));
        let mut best = [0u32; SEGMENTS as usize];
        for _ in 0..160_000 {
            best[victims.pick(0, |segment| segment).unwrap() as usize] += 1;
        }
        // Of two draws from n, the lowest is the k-th with probability (2(n − k) − 1)/n².
        for (k, &count) in best.iter().enumerate() {
            let expected = 100.0 * (2.0 * (40.0 - k as f64) - 1.0);
            let off = (f64::from(count) - expected).abs();
            assert!(off < 5.0 * expected.sqrt(), "{k}: {count}, expected {expected}");
        }
    }
}
