//! Tests of superblocks: reading back, and refusal of inconsistent values.

use super::*;
use proptest::prelude::*;

prop_compose! {
    fn any_superblock()(
        generation in 0..MOST_GENERATIONS, volume: [u8; 16], device: [u8; 16],
        count in 1..=MAX_DEVICES,
        lengths in prop::array::uniform16(1..MOST_SECTORS), layer_format: u32,
        index: u8, missing: u16, layer in "[a-z]{1,16}(:[a-z]{1,9}=[0-9a-z.]{1,20}){0,7}",
        data_start in RESERVE / 8..1_u64 << 50, data_len in 1..1_u64 << 53,
        exported in 0..MOST_SECTORS, created: u64,
        label in "[ -~]{0,60}é?", more in 0..9_u64, change in 1..u64::MAX, parent: u64,
        changed: u64, members: [[u8; 16]; DEVICES], lost in prop::array::uniform16(1..u64::MAX),
        out: u16, fresh: u16, born: u8, gone: u16, leaving: u16, spare: u16, returning: u16,
    ) -> Superblock {
        let index = index % count;
        let missing = missing & ((1_u32 << count) - 1) as u16 & !(1 << index);
        let mut members = members;
        members[usize::from(index)] = device;
        members[usize::from(count)..].fill([0; 16]);
        let lost = core::array::from_fn(|at| if missing >> at & 1 == 1 { lost[at] } else { 0 });
        let parent = if parent == change { 0 } else { parent };
        let data_start = 8 * data_start;
        let mut lengths = lengths;
        lengths[usize::from(index)] = data_len;
        lengths[usize::from(count)..].fill(0);
        let device_sectors = data_start + data_len + RESERVE + more;
        Superblock {
            generation, volume, device, index, count, missing, change, parent, changed, members,
            lost, layer_format, out: missing & out,
            fresh: fresh & !missing & ((1_u32 << count) - 1) as u16,
            born: born % (count + 1),
            removed: missing & out & gone,
            leaving: leaving & !(missing & out & gone) & ((1_u32 << count) - 1) as u16,
            spare: spare & !(missing & out & gone | leaving) & ((1_u32 << count) - 1) as u16,
            returning: returning & fresh & !missing & ((1_u32 << count) - 1) as u16,
            lengths, layer: Text::new(&layer).unwrap(), data_start, data_len,
            device_sectors, exported, created, label: Text::new(&label).unwrap(),
        }
    }
}

proptest! {
    #[test]
    fn parse_undoes_emit(superblock in any_superblock(), at: u64) {
        prop_assert_eq!(Superblock::parse(&superblock.emit(at), at), Ok(superblock));
    }

    #[test]
    fn a_flipped_bit_is_refused(superblock in any_superblock(), bit in 0..4096_usize * 8) {
        let mut page = superblock.emit(0);
        page.0[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Superblock::parse(&page, 0).is_err());
    }

    #[test]
    fn another_place_is_refused(superblock in any_superblock(), at: u64, there: u64) {
        prop_assume!(at != there);
        let parsed = Superblock::parse(&superblock.emit(at), there);
        prop_assert_eq!(parsed, Err(SuperFault::Damaged));
    }

    #[test]
    fn the_window_keeps_clear_of_both_copies(sectors in 3 * RESERVE..1 << 40) {
        let (start, len) = data_window(sectors);
        prop_assert!(start >= RESERVE && len > 0 && len % RESERVE == 0);
        prop_assert!(start + len + RESERVE <= sectors);
        prop_assert!(start + len <= places(sectors)[1]);
    }
}

/// Returns the superblock of a volume with one device.
fn sound() -> Superblock {
    Superblock {
        generation: 1,
        volume: [1; 16],
        device: [2; 16],
        index: 0,
        count: 1,
        layer_format: 1,
        layer: Text::new("x").unwrap(),
        data_start: 2048,
        data_len: 2048,
        device_sectors: 8192,
        exported: 2048,
        created: 0,
        label: Text::new("").unwrap(),
        change: 1,
        changed: 0,
        members: core::array::from_fn(|at| if at == 0 { [2; 16] } else { [0; 16] }),
        lengths: core::array::from_fn(|at| if at == 0 { 2048 } else { 0 }),
        ..Superblock::default()
    }
}

#[test]
fn impossible_lengths_are_refused() {
    let sound = sound();
    let parse = |one: Superblock| Superblock::parse(&one.emit(0), 0);
    assert_eq!(parse(sound), Ok(sound));
    let most = u64::MAX;
    for odd in [
        Superblock { device_sectors: most, ..sound },
        Superblock { device_sectors: 1 << 54, ..sound },
        Superblock { exported: most, ..sound },
        Superblock { lengths: [2048; DEVICES], ..sound },
        Superblock { lengths: [0; DEVICES], ..sound },
        Superblock { data_len: 2040, ..sound },
        Superblock { data_len: most, ..sound },
        Superblock { data_len: 4097, ..sound },
        Superblock { data_start: 0, ..sound },
        Superblock { data_start: 2049, ..sound },
        Superblock { data_start: most, ..sound },
        Superblock { device_sectors: 0, ..sound },
        Superblock { layer: Text::new("ha\x1b[2J").unwrap(), ..sound },
        Superblock { label: Text::new("a\x1b[2Jb").unwrap(), ..sound },
        Superblock { label: Text::new("a\u{9b}b").unwrap(), ..sound },
    ] {
        assert!(matches!(parse(odd), Err(SuperFault::Nonsense(_))), "{odd:?}");
    }
}

#[test]
fn garbage_and_other_versions_are_distinguished() {
    let zero = Page::default();
    assert_eq!(Superblock::parse(&zero, 0), Err(SuperFault::Foreign));
    let superblock = Superblock { index: 3, count: 3, members: [[0; 16]; DEVICES], ..sound() };
    let parsed = Superblock::parse(&superblock.emit(0), 0);
    assert_eq!(parsed, Err(SuperFault::Nonsense("the number of the device")));
    let mut good = Superblock { index: 2, ..superblock };
    good.members[..3].copy_from_slice(&[[7; 16], [8; 16], good.device]);
    good.lengths[..3].copy_from_slice(&[4096, 8192, 2048]);
    assert_eq!(Superblock::parse(&good.emit(0), 0), Ok(good));
    let wrong = |change: &dyn Fn(&mut Superblock)| {
        let mut one = good;
        change(&mut one);
        match Superblock::parse(&one.emit(0), 0) {
            Err(SuperFault::Nonsense(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let set = "the set of devices that are not members";
    assert_eq!(wrong(&|one| one.missing = 0b100), set);
    assert_eq!(wrong(&|one| one.missing = 0b1000), set);
    let times = "the times at which devices left the volume";
    assert_eq!(wrong(&|one| one.missing = 0b10), times);
    assert_eq!(wrong(&|one| one.lost[1] = 5), times);
    assert_eq!(wrong(&|one| one.members[2] = [1; 16]), "the list of devices");
    assert_eq!(wrong(&|one| one.members[3] = [1; 16]), "the list of devices");
    assert_eq!(wrong(&|one| one.change = 0), "the number of the last change");
    assert_eq!(wrong(&|one| one.parent = 1), "the number of the last change");
    let mut page = superblock.emit(0);
    put_u32(&mut page, 40, VERSION + 1);
    page::seal(&mut page, Stamp { kind: KIND, uuid: superblock.volume, at: 0 }, 1);
    assert_eq!(Superblock::parse(&page, 0), Err(SuperFault::Version(VERSION + 1)));
}
