//! From superblocks to a stack: which devices belong together, and in what order.

use alloc::vec::Vec;

use crate::superblock::{SuperFault, Superblock};

/// The superblock of a device, from its two copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The copy that counts.
    pub superblock: Superblock,
    /// Why the other copy does not count; `None` when both say the same.
    pub other: Option<OtherCopy>,
}

/// What is wrong with the copy that was not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherCopy {
    /// It can't be used.
    Faulty(SuperFault),
    /// It is older: a change was cut off between the copies.
    Older,
}

/// Takes the better of the copies at the two ends of a device.
///
/// # Errors
/// The first copy's fault when neither can be used, or when they contradict each other.
pub fn choose(
    head: Result<Superblock, SuperFault>,
    tail: Result<Superblock, SuperFault>,
) -> Result<Chosen, SuperFault> {
    match (head, tail) {
        (Ok(superblock), Ok(other)) if superblock == other => {
            Ok(Chosen { superblock, other: None })
        }
        (Ok(head), Ok(tail)) => {
            let same = head.volume == tail.volume && head.device == tail.device;
            if !same || head.generation == tail.generation {
                return Err(SuperFault::Nonsense(
                    "the copies at the two ends contradict each other",
                ));
            }
            let superblock = if head.generation > tail.generation { head } else { tail };
            Ok(Chosen { superblock, other: Some(OtherCopy::Older) })
        }
        (Ok(superblock), Err(fault)) | (Err(fault), Ok(superblock)) => {
            Ok(Chosen { superblock, other: Some(OtherCopy::Faulty(fault)) })
        }
        // A damaged copy says more than a foreign one: here was a device of ours.
        (Err(SuperFault::Foreign), Err(fault)) | (Err(fault), Err(_)) => Err(fault),
    }
}

/// What a set of devices amounts to. Numbers are places in the list that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A whole stack; member `i` of it is device `order[i]` of the list.
    Complete {
        /// Places in the list, by index in the stack.
        order: Vec<usize>,
    },
    /// A stack that has all that it needs.
    Degraded {
        /// Places in the list, by index in the stack; `None` for a member that is not there.
        order: Vec<Option<usize>>,
        /// The places of members that missed changes of the stack, and so do not count.
        stale: Vec<usize>,
    },
    /// Members that are not in the list, by index in the stack.
    Missing {
        /// Indexes in the stack.
        members: Vec<u8>,
    },
    /// A device of another volume than the first of the list.
    Foreign {
        /// The place of the first such device.
        at: usize,
    },
    /// Two devices that claim to be the same member: one is a copy of the other.
    Duplicate {
        /// The places of the two.
        at: [usize; 2],
    },
    /// A member that missed changes of the stack, and that is needed.
    Stale {
        /// The place of the first such member.
        at: usize,
    },
    /// A member that describes the stack differently, though it is of the same generation.
    Contradiction {
        /// The place of the first that differs from the first of the list.
        at: usize,
    },
    /// No device at all.
    Nothing,
}

/// Whether a member missed changes of the stack that `newest` knows of. A change is written to one
/// superblock after the other: one that was cut off leaves members behind that missed nothing.
pub fn is_stale(one: &Superblock, newest: &Superblock) -> bool {
    let left_out = newest.missing >> one.index & 1 == 1;
    let behind = newest.generation - one.generation;
    behind > 1 || behind == 1 && left_out
}

/// Judges a list of superblocks, one of each device. The layer of the stack `tolerates` the loss of
/// so many.
pub fn assemble(list: &[Superblock], tolerates: u32) -> Verdict {
    let Some(first) = list.first() else { return Verdict::Nothing };
    let find = |wrong: &dyn Fn(&Superblock) -> bool| list.iter().position(wrong);
    if let Some(at) = find(&|other| other.volume != first.volume) {
        return Verdict::Foreign { at };
    }
    if let Some(at) = find(&|other| shape(other) != shape(first)) {
        return Verdict::Contradiction { at };
    }
    let newest = list.iter().max_by_key(|one| one.generation).unwrap_or(first);
    let other_loss =
        |one: &Superblock| one.generation == newest.generation && one.missing != newest.missing;
    if let Some(at) = find(&other_loss) {
        return Verdict::Contradiction { at };
    }
    let mut places = [None; u8::MAX as usize + 1];
    for (at, one) in list.iter().enumerate() {
        if let Some(before) = places[usize::from(one.index)].replace(at) {
            return Verdict::Duplicate { at: [before, at] };
        }
    }
    let is_stale = |at: &usize| is_stale(&list[*at], newest);
    let stale: Vec<usize> = (0..list.len()).filter(is_stale).collect();
    let member = |index: u8| places[usize::from(index)].filter(|at| !is_stale(at));
    let order: Vec<Option<usize>> = (0..first.count).map(member).collect();
    let lost = order.iter().filter(|at| at.is_none()).count();
    if lost == 0 {
        return Verdict::Complete { order: order.into_iter().flatten().collect() };
    }
    if lost <= tolerates as usize {
        return Verdict::Degraded { order, stale };
    }
    if let Some(at) = stale.first() {
        return Verdict::Stale { at: *at };
    }
    let members = (0..first.count).filter(|index| order[usize::from(*index)].is_none());
    Verdict::Missing { members: members.collect() }
}

/// What all members of a stack must agree on.
fn shape(of: &Superblock) -> impl PartialEq {
    (of.count, of.layer, of.exported, of.created, of.label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::Text;
    use alloc::vec;
    use proptest::prelude::*;

    fn member(index: u8, count: u8) -> Superblock {
        Superblock {
            generation: 5,
            volume: [9; 16],
            device: [index; 16],
            index,
            count,
            missing: 0,
            smallest: 2048,
            layer: Text::new("hard").unwrap(),
            data_start: 2048,
            data_len: 2048,
            device_sectors: 8192,
            exported: 1000,
            created: 77,
            label: Text::new("a label").unwrap(),
        }
    }

    proptest! {
        #[test]
        fn any_order_is_complete(
            list in (1..=16_u8).prop_flat_map(|count| {
                let whole: Vec<_> = (0..count).map(|index| member(index, count)).collect();
                Just(whole).prop_shuffle()
            })
        ) {
            let Verdict::Complete { order } = assemble(&list, 1) else { panic!("not complete") };
            for (index, at) in order.iter().enumerate() {
                prop_assert_eq!(usize::from(list[*at].index), index);
            }
            prop_assert_eq!(order.len(), list.len());
        }

        #[test]
        fn each_flaw_has_its_verdict(count in 2..=16_u8, pick: prop::sample::Index) {
            let whole: Vec<_> = (0..count).map(|index| member(index, count)).collect();
            let at = pick.index(whole.len() - 1) + 1;
            let with = |change: &dyn Fn(&mut Superblock)| {
                let mut list = whole.clone();
                change(&mut list[at]);
                assemble(&list, 0)
            };
            prop_assert_eq!(with(&|one| one.volume = [1; 16]), Verdict::Foreign { at });
            prop_assert_eq!(with(&|one| one.generation = 3), Verdict::Stale { at });
            let order = (0..usize::from(count)).collect();
            prop_assert_eq!(with(&|one| one.generation = 4), Verdict::Complete { order });
            prop_assert_eq!(with(&|one| one.exported += 1), Verdict::Contradiction { at });
            prop_assert_eq!(with(&|one| one.index = 0), Verdict::Duplicate { at: [0, at] });
            let mut list = whole.clone();
            list.remove(at);
            prop_assert_eq!(assemble(&list, 0), Verdict::Missing { members: vec![at as u8] });
        }

        #[test]
        fn a_stack_with_parity_goes_on_without_one(
            count in 2..=16_u8, gone in any::<prop::sample::Index>(), step in 0..3_usize,
        ) {
            let gone = gone.index(count.into());
            let mut list: Vec<_> = (0..count).map(|index| member(index, count)).collect();
            let lost = |list: &[Superblock], stale| {
                let order = (0..count).map(|index| list.iter().position(|one| one.index == index));
                let mut order: Vec<_> = order.collect();
                order[gone] = None;
                Verdict::Degraded { order, stale }
            };
            // The others know of it: all of them, or only the first before that was cut off.
            let others = list.iter_mut().filter(|one| usize::from(one.index) != gone);
            for one in others.take(if step == 0 { 1 } else { 16 }) {
                (one.generation, one.missing) = (6, 1 << gone);
            }
            prop_assert_eq!(assemble(&list, 1), lost(&list, vec![gone]));
            prop_assert_eq!(assemble(&list, 0), Verdict::Stale { at: gone });
            list.remove(gone);
            prop_assert_eq!(assemble(&list, 1), lost(&list, vec![]));
        }
    }

    #[test]
    fn members_that_lost_each_other_are_not_joined() {
        let mut list = [member(0, 3), member(1, 3), member(2, 3)];
        (list[0].generation, list[0].missing) = (6, 0b100);
        (list[2].generation, list[2].missing) = (6, 0b001);
        assert!(matches!(assemble(&list, 1), Verdict::Contradiction { .. }));
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(assemble(&[], 1), Verdict::Nothing);
    }

    #[test]
    fn the_better_copy_is_chosen() {
        let old = member(0, 1);
        let new = Superblock { generation: 6, exported: 2000, ..old };
        let chosen = |head, tail| choose(head, tail).map(|c| (c.superblock.generation, c.other));
        assert_eq!(chosen(Ok(old), Ok(old)), Ok((5, None)));
        assert_eq!(chosen(Ok(new), Ok(old)), Ok((6, Some(OtherCopy::Older))));
        assert_eq!(chosen(Ok(old), Ok(new)), Ok((6, Some(OtherCopy::Older))));
        let faulty = Some(OtherCopy::Faulty(SuperFault::Damaged));
        assert_eq!(chosen(Err(SuperFault::Damaged), Ok(old)), Ok((5, faulty)));
        assert_eq!(chosen(Ok(old), Err(SuperFault::Damaged)), Ok((5, faulty)));
        let neither = choose(Err(SuperFault::Foreign), Err(SuperFault::Damaged));
        assert_eq!(neither, Err(SuperFault::Damaged));
        let other = Superblock { device: [8; 16], ..new };
        assert!(matches!(choose(Ok(old), Ok(other)), Err(SuperFault::Nonsense(_))));
    }
}
