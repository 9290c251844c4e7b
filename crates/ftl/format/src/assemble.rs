//! Assembly of a stack from superblocks: the devices that belong together, and their order.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::planted::{Bug, planted};
use crate::superblock::{SuperFault, Superblock};

/// Superblock of a device, from its two copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The valid copy.
    pub superblock: Superblock,
    /// State of the other copy; `None` if both are equal.
    pub other: Option<OtherCopy>,
    /// Which copies, at the head and at the tail, are intact and contain it.
    pub sound: [bool; 2],
}

/// State of the copy that was not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherCopy {
    /// It is not valid.
    Faulty(SuperFault),
    /// It is older: a change was interrupted between the copies.
    Older,
}

/// Chooses the newer valid copy of those at the two ends of a device.
///
/// # Errors
/// The first copy's fault when neither is valid, or when they contradict each other.
pub fn choose(
    head: Result<Superblock, SuperFault>,
    tail: Result<Superblock, SuperFault>,
) -> Result<Chosen, SuperFault> {
    match (head, tail) {
        (Ok(superblock), Ok(other)) if superblock == other => {
            Ok(Chosen { superblock, other: None, sound: [true; 2] })
        }
        (Ok(head), Ok(tail)) => {
            let same = head.volume == tail.volume && head.device == tail.device;
            if !same || head.generation == tail.generation {
                return Err(SuperFault::Nonsense(
                    "the copies at the two ends contradict each other",
                ));
            }
            let newer = head.generation > tail.generation;
            let superblock = if newer { head } else { tail };
            Ok(Chosen { superblock, other: Some(OtherCopy::Older), sound: [newer, !newer] })
        }
        (Ok(superblock), Err(fault)) => {
            let other = Some(OtherCopy::Faulty(fault));
            Ok(Chosen { superblock, other, sound: [true, false] })
        }
        (Err(fault), Ok(superblock)) => {
            let other = Some(OtherCopy::Faulty(fault));
            Ok(Chosen { superblock, other, sound: [false, true] })
        }
        // A damaged copy is more informative than a foreign one: it shows that this was a device of
        // HostFTL.
        (Err(SuperFault::Foreign), Err(fault)) | (Err(fault), Err(_)) => Err(fault),
    }
}

/// Result of assembling a set of devices. Positions refer to the given list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Complete stack; member `i` is device `order[i]` of the list.
    Complete {
        /// Positions in the list, by index in the stack.
        order: Vec<usize>,
    },
    /// Stack without some members that it can do without.
    Degraded {
        /// Positions in the list, by index in the stack; `None` for an absent member.
        order: Vec<Option<usize>>,
        /// Positions of stale members, which missed changes and do not take part.
        stale: Vec<usize>,
        /// Absent members that the newest superblock does not exclude, as a bit set by index. To
        /// continue without them requires consent.
        unsaid: u16,
    },
    /// Members that are missing from the list.
    Missing {
        /// Indexes in the stack.
        members: Vec<u8>,
    },
    /// Device of another volume than the first of the list.
    Foreign {
        /// Position of the first such device.
        at: usize,
    },
    /// Two devices with the same index: one is a copy of the other.
    Duplicate {
        /// Positions of both.
        at: [usize; 2],
    },
    /// Stale member that is needed.
    Stale {
        /// Position of the first such member.
        at: usize,
    },
    /// Members that were served apart: each may hold data that the other lacks.
    Apart {
        /// Positions of two of them.
        at: [usize; 2],
    },
    /// Member of the same generation with a different description of the stack.
    Contradiction {
        /// Position of the first that differs.
        at: usize,
    },
    /// No devices.
    Nothing,
}

impl Verdict {
    /// Returns whether a volume with these superblocks opens without consent.
    pub fn is_whole(&self) -> bool {
        match self {
            Verdict::Complete { .. } => true,
            Verdict::Degraded { unsaid, .. } => *unsaid == 0,
            _ => false,
        }
    }
}

/// Returns whether `one` excludes `other`.
fn excludes(one: &Superblock, other: &Superblock) -> bool {
    one.missing >> other.index & 1 == 1
}

/// Returns whether `one` excludes `other`, and no member has the directly following change in which
/// `other` returns. Such a change was interrupted before `one` recorded it.
fn still_excludes(list: &[Superblock], one: &Superblock, other: &Superblock) -> bool {
    let follows = |next: &Superblock| {
        next.generation == one.generation + 1 && next.parent == one.change && next.change != 0
    };
    excludes(one, other) && !list.iter().any(|next| follows(next) && !excludes(next, other))
}

/// Decides which members participate: those that no participating member excludes. `None` for
/// members that exclude each other, perhaps in a ring.
fn sides(list: &[Superblock]) -> Vec<Option<bool>> {
    let mut sides = alloc::vec![None; list.len()];
    if planted(Bug::ForkJoined) {
        let newest = list.iter().max_by_key(|one| one.generation);
        let counts = |one| Some(newest.is_none_or(|newest| !excludes(newest, one)));
        return list.iter().map(counts).collect();
    }
    loop {
        let mut decided = false;
        for at in 0..list.len() {
            if sides[at].is_some() {
                continue;
            }
            let against = |side: Option<bool>| {
                let by = list.iter().zip(&sides);
                let by = by.filter(|(by, _)| still_excludes(list, by, &list[at]));
                by.filter(|(_, its)| **its == side).count()
            };
            if against(Some(true)) > 0 {
                sides[at] = Some(false);
            } else if against(None) == 0 {
                sides[at] = Some(true);
            }
            decided |= sides[at].is_some();
        }
        if !decided {
            return sides;
        }
    }
}

/// Returns two members that were served apart, if there are any.
fn apart(list: &[Superblock], sides: &[Option<bool>]) -> Option<[usize; 2]> {
    let open: Vec<usize> = (0..list.len()).filter(|at| sides[*at].is_none()).collect();
    let both = |one: usize, two: usize| {
        let (one, two) = (&list[one], &list[two]);
        still_excludes(list, one, two) && still_excludes(list, two, one)
    };
    let pairs = open.iter().flat_map(|one| open.iter().map(move |two| [*one, *two]));
    let mutual = pairs.into_iter().find(|[one, two]| one < two && both(*one, *two));
    mutual.or_else(|| Some([*open.first()?, *open.get(1)?]))
}

/// Returns whether a member missed a change. One write is needed for each superblock, so the change
/// before the newest does not count as missed: the newest was then interrupted.
fn is_behind(one: &Superblock, newest: &Superblock) -> bool {
    let behind = u64::from(!planted(Bug::OffByOne));
    one.change != newest.change
        && !(one.generation + behind == newest.generation && one.change == newest.parent)
}

/// Assembles a list of superblocks, one of each device. The layer of the stack `tolerates` the loss
/// of that number of members, in addition to those that hold no data.
///
/// A member that a participating member excludes does not take part. This holds from the moment at
/// which the first superblock records it: either the layer abandoned the device, or an
/// administrator consented to continue without it.
pub fn assemble(list: &[Superblock], tolerates: u32) -> Verdict {
    let Some(first) = list.first() else { return Verdict::Nothing };
    let find = |wrong: &dyn Fn(&Superblock) -> bool| list.iter().position(wrong);
    if let Some(at) = find(&|other| other.volume != first.volume) {
        return Verdict::Foreign { at };
    }
    if let Some(at) = find(&|other| shape(other) != shape(first)) {
        return Verdict::Contradiction { at };
    }
    let mut places = [None; u8::MAX as usize + 1];
    for (at, one) in list.iter().enumerate() {
        if let Some(before) = places[usize::from(one.index)].replace(at) {
            return Verdict::Duplicate { at: [before, at] };
        }
    }
    let sides = sides(list);
    if let Some(at) = apart(list, &sides) {
        return Verdict::Apart { at };
    }
    let counts = |at: &usize| sides[*at] == Some(true);
    let newest = (0..list.len()).filter(counts).min_by_key(|at| Reverse(list[*at].generation));
    let newest = newest.map_or(first, |at| &list[at]);
    let differs = |at: &usize| {
        counts(at) && list[*at].generation == newest.generation && says(&list[*at]) != says(newest)
    };
    if let Some(at) = (0..list.len()).find(differs) {
        return Verdict::Contradiction { at };
    }
    let replaced = |one: &Superblock| newest.members[usize::from(one.index)] != one.device;
    let is_stale =
        |at: &usize| !counts(at) || is_behind(&list[*at], newest) || replaced(&list[*at]);
    let member = |index: u8| places[usize::from(index)].filter(|at| !is_stale(at));
    let count = newest.count;
    let order: Vec<Option<usize>> = (0..count).map(member).collect();
    let absent = (0..count).filter(|index| order[usize::from(*index)].is_none());
    let absent = absent.fold(0_u16, |set, index| set | 1 << index);
    if absent == 0 {
        return Verdict::Complete { order: order.into_iter().flatten().collect() };
    }
    let stale: Vec<usize> = (0..list.len()).filter(is_stale).collect();
    let needed = absent & !newest.out;
    if needed.count_ones() <= tolerates && absent.count_ones() < count.into() {
        let unsaid = if planted(Bug::ConsentNotAsked) { 0 } else { absent & !newest.missing };
        return Verdict::Degraded { order, stale, unsaid };
    }
    // Members that hold no data are not needed.
    let lacks = |index: u8| needed >> index & 1 == 1;
    if let Some(at) = stale.iter().find(|at| lacks(list[**at].index)) {
        return Verdict::Stale { at: *at };
    }
    let members = (0..count).filter(|index| lacks(*index));
    Verdict::Missing { members: members.collect() }
}

/// Returns the fields that must be equal in all members of a stack.
fn shape(of: &Superblock) -> impl PartialEq {
    (of.layer, of.layer_format, of.created, of.label)
}

/// Returns the fields that must be equal in members of one generation.
fn says(one: &Superblock) -> impl PartialEq {
    let sets =
        (one.missing, one.out, one.fresh, one.removed, one.leaving, one.spare, one.returning);
    (one.change, one.count, one.exported, one.born, sets, one.members)
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
            layer_format: 1,
            layer: Text::new("hard").unwrap(),
            data_start: 2048,
            data_len: 2048,
            device_sectors: 8192,
            exported: 1000,
            created: 77,
            label: Text::new("a label").unwrap(),
            change: 50,
            parent: 40,
            changed: 78,
            members: core::array::from_fn(|index| [index as u8; 16]),
            lengths: core::array::from_fn(|at| if at < usize::from(count) { 2048 } else { 0 }),
            ..Superblock::default()
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
            let older = |one: &mut Superblock| (one.generation, one.change) = (3, 30);
            prop_assert_eq!(with(&older), Verdict::Stale { at });
            let other = |one: &mut Superblock| (one.generation, one.change) = (4, 41);
            prop_assert_eq!(with(&other), Verdict::Stale { at });
            let order = (0..usize::from(count)).collect();
            let cut_off = |one: &mut Superblock| (one.generation, one.change) = (4, 40);
            prop_assert_eq!(with(&cut_off), Verdict::Complete { order });
            prop_assert_eq!(with(&|one| one.exported += 1), Verdict::Contradiction { at });
            prop_assert_eq!(with(&|one| one.index = 0), Verdict::Duplicate { at: [0, at] });
            let mut list = whole.clone();
            list.remove(at);
            prop_assert_eq!(assemble(&list, 0), Verdict::Missing { members: vec![at as u8] });
        }

        #[test]
        fn a_stack_with_parity_starts_without_one_device(
            count in 2..=16_u8, removed in any::<prop::sample::Index>(), step in 0..3_usize,
        ) {
            let removed = removed.index(count.into());
            let mut list: Vec<_> = (0..count).map(|index| member(index, count)).collect();
            let lost = |list: &[Superblock], stale, unsaid| {
                let order = (0..count).map(|index| list.iter().position(|one| one.index == index));
                let mut order: Vec<_> = order.collect();
                order[removed] = None;
                Verdict::Degraded { order, stale, unsaid }
            };
            let mut without = list.clone();
            without.remove(removed);
            prop_assert_eq!(assemble(&without, 1), lost(&without, vec![], 1 << removed));
            // The other members record the loss: all of them, or only the first before an
            // interruption.
            let others = list.iter_mut().filter(|one| usize::from(one.index) != removed);
            for one in others.take(if step == 0 { 1 } else { 16 }) {
                (one.generation, one.missing) = (6, 1 << removed);
                (one.change, one.parent) = (60, 50);
            }
            prop_assert_eq!(assemble(&list, 1), lost(&list, vec![removed], 0));
            prop_assert_eq!(assemble(&list, 0), Verdict::Stale { at: removed });
            list.remove(removed);
            prop_assert_eq!(assemble(&list, 1), lost(&list, vec![], 0));
        }
    }

    #[test]
    fn members_that_excluded_each_other_are_not_joined() {
        let mut list = [member(0, 3), member(1, 3), member(2, 3)];
        (list[0].generation, list[0].missing, list[0].change) = (6, 0b100, 60);
        (list[2].generation, list[2].missing, list[2].change) = (6, 0b001, 61);
        assert_eq!(assemble(&list, 1), Verdict::Apart { at: [0, 2] });
        // Three members that exclude each other in a ring.
        list[2].missing = 0b010;
        (list[1].generation, list[1].missing, list[1].change) = (6, 0b001, 62);
        assert_eq!(assemble(&list, 1), Verdict::Apart { at: [0, 1] });
    }

    #[test]
    fn an_excluded_device_excludes_no_other() {
        let mut list = [member(0, 3), member(1, 3), member(2, 3)];
        (list[0].generation, list[0].missing, list[0].change) = (6, 0b010, 60);
        (list[1].generation, list[1].missing, list[1].change) = (6, 0b100, 61);
        list[0].parent = 50;
        let order = vec![Some(0), None, Some(2)];
        assert_eq!(assemble(&list, 1), Verdict::Degraded { order, stale: vec![1], unsaid: 0 });
    }

    #[test]
    fn an_interrupted_return_counts_from_its_first_superblock() {
        // Member 1 was lost in change 60, and returns in change 70.
        let lost = |index| Superblock {
            generation: 6,
            change: 60,
            parent: 50,
            missing: 0b10,
            ..member(index, 4)
        };
        let back = |index| Superblock {
            generation: 7,
            change: 70,
            parent: 60,
            fresh: 0b10,
            returning: 0b10,
            ..member(index, 4)
        };
        let order: Vec<usize> = (0..4).collect();
        for written in 1..=4 {
            let says = |index: u8| match (index, written) {
                (1, _) => back(1),
                (0, 2..) | (2, 3..) | (3, 4..) => back(index),
                _ => lost(index),
            };
            let list: Vec<_> = (0..4).map(says).collect();
            assert_eq!(assemble(&list, 1), Verdict::Complete { order: order.clone() });
        }
        // The others continued without it: their next change does not contain the return.
        let mut list: Vec<_> = (0..4).map(lost).collect();
        list[1] = back(1);
        (list[0].generation, list[0].change, list[0].parent) = (7, 71, 60);
        let Verdict::Degraded { stale, unsaid, .. } = assemble(&list, 1) else { panic!("refused") };
        assert_eq!((stale, unsaid), (vec![1], 0));
    }

    #[test]
    fn empty_devices_are_not_missing() {
        let mut list = [member(0, 4), member(3, 4)];
        (list[1].generation, list[1].change, list[1].parent) = (6, 60, 50);
        (list[1].missing, list[1].out, list[1].removed) = (1, 1, 1);
        assert_eq!(assemble(&list, 1), Verdict::Missing { members: vec![1, 2] });
        (list[1].out, list[1].removed) = (0, 0);
        assert_eq!(assemble(&list, 1), Verdict::Stale { at: 0 });
    }

    #[test]
    fn no_devices_assemble_to_no_volume() {
        assert_eq!(assemble(&[], 1), Verdict::Nothing);
    }

    #[test]
    fn the_better_copy_is_chosen() {
        let old = member(0, 1);
        let new = Superblock { generation: 6, exported: 2000, ..old };
        let chosen =
            |head, tail| choose(head, tail).map(|c| (c.superblock.generation, c.other, c.sound));
        assert_eq!(chosen(Ok(old), Ok(old)), Ok((5, None, [true, true])));
        assert_eq!(chosen(Ok(new), Ok(old)), Ok((6, Some(OtherCopy::Older), [true, false])));
        assert_eq!(chosen(Ok(old), Ok(new)), Ok((6, Some(OtherCopy::Older), [false, true])));
        let faulty = Some(OtherCopy::Faulty(SuperFault::Damaged));
        assert_eq!(chosen(Err(SuperFault::Damaged), Ok(old)), Ok((5, faulty, [false, true])));
        assert_eq!(chosen(Ok(old), Err(SuperFault::Damaged)), Ok((5, faulty, [true, false])));
        let neither = choose(Err(SuperFault::Foreign), Err(SuperFault::Damaged));
        assert_eq!(neither, Err(SuperFault::Damaged));
        let other = Superblock { device: [8; 16], ..new };
        assert!(matches!(choose(Ok(old), Ok(other)), Err(SuperFault::Nonsense(_))));
    }
}
