//! Superblocks with valid checksums over arbitrary content, individually and as the members of a
//! stack.

use anyhow::ensure;
use hostftl_format::assemble::{Verdict, assemble, choose};
use hostftl_format::superblock::{MAX_DEVICES, Superblock, Text};

use super::page::{AT, UUID, sealed, trim};

/// Bytes of a superblock that can be nonzero.
const USED: usize = 992;

fn member(index: u8, count: u8) -> Superblock {
    let mut members = [[0; 16]; MAX_DEVICES as usize];
    (0..count).for_each(|index| members[usize::from(index)] = [index + 7; 16]);
    Superblock {
        generation: 1,
        volume: UUID,
        device: [index + 7; 16],
        index,
        count,
        layer_format: 1,
        layer: Text::new("hard").expect("a short name"),
        data_start: 2048,
        data_len: 28672,
        device_sectors: 32768,
        exported: 20000,
        created: 1_700_000_000,
        label: Text::new("a label").expect("a short label"),
        change: 5,
        changed: 1_700_000_000,
        members,
        lengths: std::array::from_fn(|at| if at < count.into() { 28672 } else { 0 }),
        ..Superblock::default()
    }
}

/// Returns the superblock of a small volume.
pub(super) fn one() -> Vec<Vec<u8>> {
    vec![trim(&member(0, 1).emit(AT))]
}

/// Returns whole stacks of one, three and sixteen devices.
pub(super) fn stacks() -> Vec<Vec<u8>> {
    let stack = |count| {
        let of = |index| member(index, count).emit(AT).0[..USED].to_vec();
        (0..count).flat_map(of).collect()
    };
    [1, 3, 16].map(stack).into()
}

/// Parses the input with a corrected checksum.
fn parse(input: &[u8]) -> Option<Superblock> {
    let volume = input.get(8..24)?.try_into().expect("sixteen bytes");
    Superblock::parse(&sealed(input, *b"SUPR", volume), AT).ok()
}

/// Checks that a superblock is refused, or survives a round trip.
pub(super) fn check(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let parsed = parse(input);
    ensure!(parsed.is_some() || input != one()[0], "a good superblock was refused");
    if let Some(superblock) = parsed {
        ensure!(superblock.index < superblock.count, "{superblock:?}");
        let page = superblock.emit(AT);
        let again = Superblock::parse(&page, AT);
        ensure!(again == Ok(superblock), "{superblock:?} is read back as {again:?}");
        ensure!(Superblock::parse(&page, AT + 8).is_err(), "a misplaced superblock was taken");
    }
    Ok(())
}

fn excludes(by: &Superblock, one: &Superblock) -> bool {
    by.missing >> one.index & 1 == 1
}

/// Checks that the verdict is true of the list, and is the same for the reversed list.
pub(super) fn check_stack(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let list: Vec<Superblock> = input.chunks(USED).filter_map(parse).collect();
    for pair in list.windows(2) {
        let [head, tail] = [pair[0], pair[1]];
        if let Ok(chosen) = choose(Ok(head), Ok(tail)) {
            let newest = head.generation.max(tail.generation);
            ensure!(chosen.superblock.generation == newest, "{chosen:?} of {pair:?}");
        }
    }
    let verdict = assemble(&list, 1);
    let is_true = match &verdict {
        Verdict::Nothing => list.is_empty(),
        Verdict::Complete { order } => {
            let right = |(index, at): (usize, &usize)| usize::from(list[*at].index) == index;
            order.len() == list.len()
                && order.len() == usize::from(list[0].count)
                && order.iter().enumerate().all(right)
        }
        Verdict::Degraded { order, stale, unsaid } => {
            let right = |(index, at): (usize, &Option<usize>)| {
                at.is_none_or(|at| usize::from(list[at].index) == index && !stale.contains(&at))
            };
            let here = order.iter().flatten().count();
            here + 1 == order.len()
                && (*unsaid == 0 || order[unsaid.trailing_zeros() as usize].is_none())
                && here + stale.len() == list.len()
                && order.iter().enumerate().all(right)
        }
        Verdict::Missing { members } => {
            let absent = |index: &u8| list.iter().all(|one| one.index != *index);
            members.len() > 1 && members.iter().all(|it| *it < list[0].count && absent(it))
        }
        Verdict::Foreign { at } => list[*at].volume != list[0].volume,
        Verdict::Duplicate { at: [one, two] } => one != two && list[*one].index == list[*two].index,
        Verdict::Apart { at: [one, two] } => {
            one != two
                && [one, two].iter().all(|at| list.iter().any(|by| excludes(by, &list[**at])))
        }
        Verdict::Stale { at } => {
            let at = &list[*at];
            list.iter().any(|one| one.generation > at.generation || excludes(one, at))
        }
        Verdict::Contradiction { at } => list.iter().any(|one| one != &list[*at]),
    };
    ensure!(is_true, "{verdict:?} of {list:?}");
    let backwards: Vec<Superblock> = list.iter().rev().copied().collect();
    let is_complete = |verdict: &Verdict| matches!(verdict, Verdict::Complete { .. });
    let other = assemble(&backwards, 1);
    ensure!(is_complete(&other) == is_complete(&verdict), "{verdict:?}, backwards {other:?}");
    Ok(())
}
