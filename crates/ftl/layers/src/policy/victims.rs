//! Victim policies, kept up to date with every change so that a pick scans no pages.
//!
//! Invariants
//! - Exactly the sealed segments can be picked.
//! - A change costs O(1); a pick costs at most O(pages per segment), or O(D) for `d-choices:D`.
//! - Ages are in host writes, so every clock picks alike.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use super::dice::Dice;
use super::lists::Lists;
use super::own::VictimPolicy;
use super::words::GcPolicy;
use super::worth;

/// The sealed segments in an order without meaning, so that one can be drawn.
#[derive(Debug)]
pub(super) struct Set {
    pub members: Vec<u32>,
    /// Where in `members` a sealed segment is.
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

    /// The one with the fewest live pages of so many draws.
    fn best_of(&mut self, draws: u32, live: impl Fn(u32) -> u32) -> Option<u32> {
        let mut best = self.draw()?;
        for other in (1..draws).filter_map(|_| self.draw()) {
            if live(other) < live(best) {
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
    /// By live pages.
    Greedy(Lists),
    /// All in one list.
    Fifo(Lists),
    /// The best of so many draws.
    Choices(Set, u32),
    /// By live pages, and for each segment when a page of it last died.
    CostBenefit(Lists, Vec<u64>),
    /// The same, and what a moment of age is worth by live pages.
    DecliningCost(Lists, Vec<u64>, Vec<f64>),
    /// Whatever it knows, and the bytes of that.
    Own(Box<dyn VictimPolicy>, u64),
}

/// See the module text. Live pages are counted by the pool and told here.
#[derive(Debug)]
pub struct Victims {
    pub(super) kind: Kind,
    pages: u32,
}

impl Victims {
    /// A policy over so many segments of `pages` pages, none of them sealed. What the policy draws
    /// follows from `seed`.
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

    /// Bytes of all tables of such a policy.
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

    /// Bytes of all tables.
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

    /// A segment was filled; `live` of its pages still count.
    pub fn sealed(&mut self, segment: u32, live: u32, now: u64) {
        match &mut self.kind {
            Kind::Greedy(lists) => lists.push(segment, live),
            Kind::Fifo(lists) => lists.push(segment, 0),
            Kind::Choices(set, _) => set.insert(segment),
            Kind::CostBenefit(lists, changed) | Kind::DecliningCost(lists, changed, _) => {
                lists.push(segment, live);
                changed[segment as usize] = now;
            }
            Kind::Own(policy, _) => policy.sealed(segment, live, now),
        }
    }

    /// A sealed segment has `to` live pages from now on.
    #[inline]
    pub fn live_changed(&mut self, segment: u32, to: u32, now: u64) {
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

    /// What [`Victims::live_changed`] will look at besides the segment, as far as that is one step
    /// away: the nodes beside it in its list, of which the same can be asked. Nothing changes.
    #[inline]
    pub fn beside(&self, node: u32) -> [u32; 2] {
        match &self.kind {
            Kind::Greedy(lists) | Kind::CostBenefit(lists, _) | Kind::DecliningCost(lists, ..) => {
                lists.beside(node)
            }
            Kind::Fifo(_) | Kind::Choices(..) | Kind::Own(..) => [node; 2],
        }
    }

    /// The segment to collect next; `live` tells how many live pages one has. It stays sealed.
    pub fn pick(&mut self, now: u64, live: impl Fn(u32) -> u32) -> Option<u32> {
        match &mut self.kind {
            Kind::Greedy(lists) | Kind::Fifo(lists) => lists.least(),
            Kind::Choices(set, count) => set.best_of(*count, live),
            Kind::CostBenefit(lists, changed) => {
                let worth = |live| worth::benefit(live, self.pages);
                oldest_and_emptiest(lists, changed, self.pages, now, worth)
            }
            Kind::DecliningCost(lists, changed, worth) => {
                let worth = |live| (worth[live as usize], 1.0);
                oldest_and_emptiest(lists, changed, self.pages, now, worth)
            }
            Kind::Own(policy, _) => policy.pick(now, &live),
        }
    }

    /// Whether [`Victims::pick`] gives a segment from which nothing is gained only when there is no
    /// other.
    pub fn knows_least(&self) -> bool {
        matches!(self.kind, Kind::Greedy(_) | Kind::CostBenefit(..) | Kind::DecliningCost(..))
    }

    /// What [`Victims::pick`] would give, without a draw being used up.
    pub fn peek(&mut self, now: u64, live: impl Fn(u32) -> u32) -> Option<u32> {
        let Kind::Choices(set, count) = &mut self.kind else { return self.pick(now, live) };
        let dice = set.dice;
        let found = set.best_of(*count, live);
        set.dice = dice;
        found
    }

    /// A sealed segment is collected and no longer sealed.
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

/// Within a list the first has the greatest age, because a segment comes to a list when it changes:
/// so the heads of the lists are enough. Of equal ones the emptier is taken. `worth` is a fraction.
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
    for live in 1..=pages {
        let Some(segment) = lists.first(live) else { continue };
        let age = (now - changed[segment as usize]) as f64;
        let (times, per) = worth(live);
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

    /// What a scan knows of a sealed segment.
    #[derive(Clone, Copy)]
    struct Known {
        segment: u32,
        live: u32,
        sealed: u64,
        changed: u64,
    }

    impl Known {
        fn value(&self, policy: GcPolicy, now: u64) -> f64 {
            let share = f64::from(self.live) / f64::from(PAGES);
            let age = (now - self.changed) as f64;
            match policy {
                GcPolicy::DecliningCost => age * (1.0 - share + share * share.ln()),
                _ => age * (1.0 - share) / (2.0 * share),
            }
        }
    }

    /// Whether a policy may pick `picked`, by a scan of all that is sealed.
    fn may_pick(policy: GcPolicy, picked: Known, all: &[Known], now: u64) -> bool {
        match policy {
            GcPolicy::Greedy => all.iter().all(|other| picked.live <= other.live),
            GcPolicy::Fifo => all.iter().all(|other| picked.sealed <= other.sealed),
            GcPolicy::Random | GcPolicy::DChoices(_) | GcPolicy::Own(_) => true,
            GcPolicy::CostBenefit | GcPolicy::DecliningCost if picked.live == 0 => true,
            GcPolicy::CostBenefit | GcPolicy::DecliningCost => {
                let best = picked.value(policy, now) + 1e-9 * now as f64;
                all.iter().all(|other| other.live > 0 && other.value(policy, now) <= best)
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
                        let live = dice.below(PAGES + 1);
                        victims.sealed(segment, live, now);
                        all.push(Known { segment, live, sealed: now, changed: now });
                    }
                    Some(at) if all[at].live > 0 && dice.below(3) > 0 => {
                        all[at].live -= 1;
                        all[at].changed = now;
                        victims.live_changed(segment, all[at].live, now);
                    }
                    Some(_) => {
                        let live = |it| all.iter().find(|known| known.segment == it).unwrap().live;
                        let picked = victims.pick(now, live).unwrap();
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

    /// More draws find emptier segments, and each draw is fair.
    #[test]
    fn draws_are_fair() {
        let mut victims = Victims::new(GcPolicy::DChoices(2), SEGMENTS, PAGES, 5);
        (0..SEGMENTS).for_each(|segment| victims.sealed(segment, 0, 0));
        let mut best = [0u32; SEGMENTS as usize];
        for _ in 0..160_000 {
            best[victims.pick(0, |segment| segment).unwrap() as usize] += 1;
        }
        // Of two draws from n the least is the k-th with probability (2(n − k) − 1)/n².
        for (k, &count) in best.iter().enumerate() {
            let expected = 100.0 * (2.0 * (40.0 - k as f64) - 1.0);
            let off = (f64::from(count) - expected).abs();
            assert!(off < 5.0 * expected.sqrt(), "{k}: {count}, expected {expected}");
        }
    }
}
