//! Victim policies, kept up to date with every change so that a pick scans no pages.
//!
//! Invariants
//! - Exactly the sealed segments can be picked.
//! - A change costs O(1); a pick costs at most O(pages per segment), or O(D) for `d-choices:D`.
//! - Ages are in host writes, so every clock picks alike.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::lists::Lists;
use super::policy::GcPolicy;

/// The sealed segments in an order without meaning, so that one can be drawn.
#[derive(Debug)]
struct Set {
    members: Vec<u32>,
    /// Where in `members` a sealed segment is.
    at: Vec<u32>,
    dice: Xoshiro256PlusPlus,
}

impl Set {
    fn new(segments: u32, seed: u64) -> Self {
        Set {
            members: Vec::with_capacity(segments as usize),
            at: vec![u32::MAX; segments as usize],
            dice: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    fn insert(&mut self, segment: u32) {
        assert_eq!(self.at[segment as usize], u32::MAX, "a segment sealed twice");
        self.at[segment as usize] = self.members.len() as u32;
        self.members.push(segment);
    }

    fn draw(&mut self) -> Option<u32> {
        (!self.members.is_empty()).then(|| {
            let at = self.dice.random_range(0..self.members.len() as u32);
            self.members[at as usize]
        })
    }

    fn remove(&mut self, segment: u32) {
        let at = std::mem::replace(&mut self.at[segment as usize], u32::MAX);
        self.members.swap_remove(at as usize);
        if let Some(&moved) = self.members.get(at as usize) {
            self.at[moved as usize] = at;
        }
    }
}

#[derive(Debug)]
enum Kind {
    /// By live pages.
    Greedy(Lists),
    /// All in one list.
    Fifo(Lists),
    /// The best of so many draws.
    Choices(Set, u32),
    /// By live pages, and for each segment when a page of it last died.
    CostBenefit(Lists, Vec<u64>),
}

/// See the module text. Live pages are counted by the pool and told here.
#[derive(Debug)]
pub struct Victims {
    kind: Kind,
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
        };
        Victims { kind, pages }
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> usize {
        match &self.kind {
            Kind::Greedy(lists) | Kind::Fifo(lists) => lists.bytes(),
            Kind::Choices(set, _) => set.at.len() * 8,
            Kind::CostBenefit(lists, changed) => lists.bytes() + changed.len() * 8,
        }
    }

    /// A segment was filled; `live` of its pages still count.
    pub fn sealed(&mut self, segment: u32, live: u32, now: u64) {
        match &mut self.kind {
            Kind::Greedy(lists) => lists.push(segment, live),
            Kind::Fifo(lists) => lists.push(segment, 0),
            Kind::Choices(set, _) => set.insert(segment),
            Kind::CostBenefit(lists, changed) => {
                lists.push(segment, live);
                changed[segment as usize] = now;
            }
        }
    }

    /// A sealed segment has `to` live pages from now on.
    #[inline]
    pub fn live_changed(&mut self, segment: u32, to: u32, now: u64) {
        match &mut self.kind {
            Kind::Greedy(lists) => {
                lists.remove(segment);
                lists.push(segment, to);
            }
            Kind::Fifo(_) | Kind::Choices(..) => {}
            Kind::CostBenefit(lists, changed) => {
                lists.remove(segment);
                lists.push(segment, to);
                changed[segment as usize] = now;
            }
        }
    }

    /// The segment to collect next; `live` tells how many live pages one has. It stays sealed.
    pub fn pick(&mut self, now: u64, live: impl Fn(u32) -> u32) -> Option<u32> {
        match &mut self.kind {
            Kind::Greedy(lists) | Kind::Fifo(lists) => lists.least(),
            Kind::Choices(set, count) => {
                let mut best = set.draw()?;
                for other in (1..*count).filter_map(|_| set.draw()) {
                    if live(other) < live(best) {
                        best = other;
                    }
                }
                Some(best)
            }
            Kind::CostBenefit(lists, changed) => {
                oldest_and_emptiest(lists, changed, self.pages, now)
            }
        }
    }

    /// A sealed segment is collected and no longer sealed.
    pub fn freed(&mut self, segment: u32) {
        match &mut self.kind {
            Kind::Greedy(lists) | Kind::Fifo(lists) | Kind::CostBenefit(lists, _) => {
                lists.remove(segment);
            }
            Kind::Choices(set, _) => set.remove(segment),
        }
    }
}

/// Within a list the first has the greatest age, because a segment comes to a list when it changes:
/// so the heads of the lists are enough. Of equal ones the emptier is taken.
fn oldest_and_emptiest(lists: &Lists, changed: &[u64], pages: u32, now: u64) -> Option<u32> {
    if let Some(empty) = lists.first(0) {
        return Some(empty);
    }
    let mut best = None;
    for live in 1..=pages {
        let Some(segment) = lists.first(live) else { continue };
        let age = (now - changed[segment as usize]) as f64;
        let score = age * f64::from(pages - live) / f64::from(2 * live);
        if best.is_none_or(|(other, _)| score > other) {
            best = Some((score, segment));
        }
    }
    best.map(|(_, segment)| segment)
}
