//! State of a victim policy as a sequence of numbers, for snapshots.

use super::dice::Dice;
use super::lists::Lists;
use super::victims::{Kind, Set, Victims};
use super::words::GcPolicy;

impl Victims {
    /// Writes the numbers from which [`Victims::load`] restores an equivalent policy.
    pub fn save(&self, put: &mut impl FnMut(u64)) {
        let lists = |lists: &Lists, put: &mut dyn FnMut(u64)| {
            put(lists.iter().count() as u64);
            lists
                .iter()
                .for_each(|(segment, valid)| put(u64::from(segment) << 32 | u64::from(valid)));
        };
        match &self.kind {
            Kind::Greedy(all) | Kind::Fifo(all) => lists(all, put),
            Kind::Choices(set, _) => {
                put(set.dice.state());
                put(set.members.len() as u64);
                set.members.iter().for_each(|&segment| put(segment.into()));
            }
            Kind::CostBenefit(all, changed) | Kind::DecliningCost(all, changed, _) => {
                lists(all, put);
                changed.iter().for_each(|&when| put(when));
            }
            Kind::Own(policy, _) => policy.save(put),
        }
    }

    /// Restores a policy from the numbers of `take`. Returns `None` if they are not a valid state.
    pub fn load(
        policy: GcPolicy,
        segments: u32,
        pages: u32,
        take: &mut impl FnMut() -> Option<u64>,
    ) -> Option<Self> {
        let mut victims = Victims::new(policy, segments, pages, 0);
        match &mut victims.kind {
            Kind::Greedy(all) | Kind::Fifo(all) => fill(all, segments, pages, take)?,
            Kind::Choices(set, _) => draw_on(set, segments, take)?,
            Kind::CostBenefit(all, changed) | Kind::DecliningCost(all, changed, _) => {
                fill(all, segments, pages, take)?;
                for when in changed {
                    *when = take()?;
                }
            }
            Kind::Own(policy, _) => policy.load(take)?,
        }
        Some(victims)
    }
}

fn fill(
    lists: &mut Lists,
    segments: u32,
    pages: u32,
    take: &mut impl FnMut() -> Option<u64>,
) -> Option<()> {
    for _ in 0..take().filter(|&count| count <= segments.into())? {
        let word = take()?;
        let (segment, valid) = ((word >> 32) as u32, word as u32);
        if segment >= segments || valid > pages || lists.contains(segment) {
            return None;
        }
        lists.push(segment, valid);
    }
    Some(())
}

fn draw_on(set: &mut Set, segments: u32, take: &mut impl FnMut() -> Option<u64>) -> Option<()> {
    set.dice = Dice::new(take()?);
    for _ in 0..take().filter(|&count| count <= segments.into())? {
        let segment = u32::try_from(take()?).ok()?;
        if segment >= segments || set.contains(segment) {
            return None;
        }
        set.insert(segment);
    }
    Some(())
}
