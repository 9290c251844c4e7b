//! `shatl` over a memory device: data survives moves home, stops and cuts, in all modes.

use crate::common::World;
use crate::common::churn::{Random, data, ready, sector};
use crate::common::lives::{comes_back, stops_cleanly, survives_cuts};
use hostftl_core::{Command, HostError, Layer, SECTOR, Token};
use hostftl_layers::{LayerConfig, Mode};

fn config(superpage: u32, mode: &str) -> LayerConfig {
    let text = format!("{mode}:superpage={}", superpage as usize * SECTOR);
    LayerConfig { uuid: [7; 16], ..LayerConfig::parse(&text).expect("a layer") }
}

const MODES: [&str; 3] = ["shatl", "shatl:mode=ressd:threshold=10k", "hatl-auto"];

#[test]
fn written_data_reads_back() {
    for (superpage, layer) in
        [(16, MODES[0]), (32, MODES[1]), (128, MODES[0]), (16, MODES[2]), (64, MODES[2])]
    {
        comes_back(&config(superpage, layer));
    }
}

#[test]
fn a_clean_stop_needs_no_replay() {
    for layer in MODES {
        stops_cleanly(&config(32, layer));
    }
}

#[test]
fn a_flush_survives_a_cut() {
    for layer in MODES {
        survives_cuts(&config(16, layer));
    }
}

/// Moves home free superpages only after a flush, even if no host requests one.
#[test]
fn a_host_without_flushes_is_always_answered() {
    let ressd = "shatl:mode=ressd:threshold=18k";
    for seed in 4..6 {
        let mut disk = vec![0; 286 * 64 * SECTOR];
        let mut mode = Mode::Format;
        let mut random = Random(seed);
        for life in 0..6 {
            let mut world = World::start(&config(64, ressd), disk, mode, life);
            assert!(ready(&world), "life {life}: {:?}", world.events);
            let space = world.layer.limits().exported - 8;
            for _ in 0..2000 {
                let id = world.write(random.below(space), vec![1; 8 * SECTOR], false);
                world.wait(id).unwrap();
            }
            disk = world.cut();
            mode = Mode::Open;
        }
    }
}

/// The hidden area holds a sector once. A write of a whole superpage replaces its hidden copies.
#[test]
fn a_long_write_goes_home_and_invalidates_hidden_copies() {
    let disk = vec![0; 300 * 32 * SECTOR];
    let mut world = World::start(&config(32, "shatl"), disk, Mode::Format, 4);
    let mut write = |lba: u64, sectors: usize, byte: u8| {
        let id = world.write(lba, vec![byte; sectors * SECTOR], false);
        world.wait(id).unwrap();
        world.layer.check().unwrap();
    };
    write(40, 8, 1);
    write(44, 8, 2);
    write(35, 32, 3);
    write(50, 1, 4);
    world.flush();
    let mut expected = vec![3; 32 * SECTOR];
    expected[15 * SECTOR..16 * SECTOR].fill(4);
    assert!(world.read(35, 32).unwrap() == expected);
    let disk = world.cut();
    let mut world = World::start(&config(32, "shatl"), disk, Mode::Open, 5);
    assert!(world.read(35, 32).unwrap() == expected);
    world.stop();
}

/// Small sequential writes that fill a superpage go home in one write. Replaced hidden copies do
/// not reappear after a flush and a cut, and every other cut leaves a valid version.
#[test]
fn sequential_writes_go_home() {
    let config = config(32, "hatl-auto");
    for flushed in [false, true] {
        let mut world = World::start(&config, vec![0; 400 * 32 * SECTOR], Mode::Format, 11);
        let write = |world: &mut World, lba: u64, version: u64| {
            let id = world.write(lba, data(lba, 8, version), false);
            world.wait(id).unwrap();
            world.layer.check().unwrap();
        };
        (0..8).for_each(|lsp| write(&mut world, lsp * 32 + 8, 1));
        world.flush();
        assert_eq!(fact(&world, "hidden_sectors"), 64);
        (0..32).for_each(|at| write(&mut world, at * 8, 2));
        world.settle();
        assert_eq!(fact(&world, "hidden_sectors"), 0, "all is at home");
        write(&mut world, 16, 3);
        if flushed {
            world.flush();
        }
        let newest = |lba: u64| sector(lba, if (16..24).contains(&lba) { 3 } else { 2 });
        let disk = world.cut();
        let mut world = World::start(&config, disk, Mode::Open, 12);
        for lba in 0..256 {
            let found = world.read(lba, 1).unwrap();
            let old = sector(lba, if lba % 32 / 8 == 1 { 1 } else { 2 });
            assert!(found == newest(lba) || !flushed && (found == old), "sector {lba}");
        }
        world.stop();
    }
}

/// A direct write during the fill of a superpage is not overwritten when the superpage is full.
#[test]
fn newer_home_writes_are_kept() {
    let config = config(32, "hatl-auto");
    let mut world = World::start(&config, vec![0; 400 * 32 * SECTOR], Mode::Format, 13);
    for at in 0..3 {
        let id = world.write(at * 8, data(at * 8, 8, 1), false);
        world.wait(id).unwrap();
    }
    let late = world.write(24, data(24, 8, 1), false);
    let token = world.newest();
    world.write(0, data(0, 24, 2), false);
    world.settle_but(|it: Token, _: &Command| it == token);
    world.wait(late).unwrap();
    world.settle();
    assert!(world.read(0, 24).unwrap() == data(0, 24, 2));
    world.flush();
    let disk = world.cut();
    let mut world = World::start(&config, disk, Mode::Open, 14);
    assert!(world.read(0, 24).unwrap() == data(0, 24, 2));
    assert!(world.read(24, 8).unwrap() == data(24, 8, 1));
    world.stop();
}

fn fact(world: &World, wanted: &str) -> u64 {
    let facts = world.layer.facts();
    facts.into_iter().find(|(name, _)| *name == wanted).expect("it is reported").1
}

/// Returns the number of superpages in the hidden area of `hatl-auto`.
fn hidden_superpages(world: &World) -> u64 {
    fact(world, "hidden_superpages")
}

/// If the map unit is smaller than a superpage, whole map units go home. Parts of them are hidden
/// until whole ones replace them, also after a cut.
#[test]
fn whole_map_units_are_written_home() {
    let config = config(32, "hatl-auto");
    let disk = vec![0; 400 * 32 * SECTOR];
    let mut world = World::start_over(&config, 8, disk, Mode::Format, 9);
    let hidden = |world: &World| fact(world, "hidden_sectors");
    let write = |world: &mut World, lba: u64, sectors: usize, byte: u8| {
        let id = world.write(lba, vec![byte; sectors * SECTOR], false);
        world.wait(id).unwrap();
        world.layer.check().unwrap();
    };
    write(&mut world, 40, 16, 1);
    assert_eq!(hidden(&world), 0, "whole units go home");
    write(&mut world, 44, 8, 2);
    assert_eq!(hidden(&world), 8, "parts of units are hidden");
    write(&mut world, 40, 8, 3);
    assert_eq!(hidden(&world), 4, "a whole unit replaces its hidden sectors");
    world.flush();
    let mut expected = vec![1; 16 * SECTOR];
    expected[..8 * SECTOR].fill(3);
    expected[8 * SECTOR..12 * SECTOR].fill(2);
    assert!(world.read(40, 16).unwrap() == expected);
    let disk = world.cut();
    let mut world = World::start_over(&config, 8, disk, Mode::Open, 10);
    assert!(world.read(40, 16).unwrap() == expected);
    assert_eq!(hidden(&world), 4);
    world.stop();
}

/// Returns a configuration whose budget lends a quarter of a device of 400 superpages.
fn quarter() -> LayerConfig {
    let mut config = config(32, "hatl-auto");
    config.shatl.budget = Some(8 << 10);
    config
}

/// The last homes are lent to the hidden area. They read as zeros regardless of the area's
/// contents, and the loan ends permanently when the host writes to them.
#[test]
fn a_home_is_lent_until_the_host_writes_there() {
    let disk = vec![0xaa; 400 * 32 * SECTOR];
    let config = quarter();
    let mut world = World::start(&config, disk, Mode::Format, 6);
    let all = hidden_superpages(&world);
    assert!(all > 150, "{all} superpages are hidden");
    let last = world.layer.limits().exported - 32;
    let mut random = Random(3);
    for _ in 0..4000 {
        let id = world.write(random.below(60) * 32 + random.below(4) * 8, vec![1; 4096], false);
        world.wait(id).unwrap();
    }
    assert!(world.read(last, 32).unwrap() == vec![0; 32 * SECTOR]);
    assert_eq!(hidden_superpages(&world), all, "reading and writing elsewhere ends no loan");
    let id = world.write(last + 8, vec![7; 4096], false);
    world.wait(id).unwrap();
    world.layer.check().unwrap();
    let fewer = hidden_superpages(&world);
    assert!(fewer < all && fewer + 8 > all, "{fewer} of {all}: one part is back");
    let mut expected = vec![0; 32 * SECTOR];
    expected[8 * SECTOR..16 * SECTOR].fill(7);
    assert!(world.read(last, 32).unwrap() == expected);
    world.flush();
    let disk = world.cut();
    let mut world = World::start(&config, disk, Mode::Open, 7);
    assert!(world.read(last, 32).unwrap() == expected);
    assert_eq!(hidden_superpages(&world), fewer);
    let id = world.write(last, vec![9; 32 * SECTOR], false);
    world.wait(id).unwrap();
    world.layer.check().unwrap();
    world.stop();
}

/// Returns the sector of the disk with the given content.
fn find_sector(world: &World, content: &[u8]) -> u64 {
    let mut places = (0u64..).zip(world.disk.chunks(SECTOR)).filter(|(_, it)| *it == content);
    let place = places.next().expect("it is on the disk").0;
    assert!(places.next().is_none(), "it is there once");
    place
}

/// An unreadable hidden sector is marked as lost when the loan of its superpage ends. It remains an
/// error, also after a cut, until it is rewritten. No other sector is affected, and the home is
/// written.
#[test]
fn a_loan_ends_though_a_hidden_sector_in_it_cannot_be_read() {
    let config = quarter();
    let mut world = World::start(&config, vec![0; 400 * 32 * SECTOR], Mode::Format, 8);
    let write = |world: &mut World, lba: u64, sectors: u64, version: u64| {
        let id = world.write(lba, data(lba, sectors, version), false);
        world.wait(id).unwrap();
        world.layer.check().unwrap();
    };
    write(&mut world, 0, 32, 1);
    // Superpages that belong only to the hidden area are filled before lent ones.
    for lsp in 10..110 {
        write(&mut world, lsp * 32 + 8, 24, 2);
    }
    world.flush();
    let first_home = find_sector(&world, &sector(0, 1));
    let lost = 105 * 32 + 18;
    let place = find_sector(&world, &sector(lost, 2));
    world.bad.insert(place);
    let lent = (place - first_home) / 32 * 32;
    assert!(lent > 100 * 32, "the hidden sector is at the home of sector {lent}");
    write(&mut world, lent + 16, 8, 3);
    for life in 0..3 {
        assert!(world.read(lent, 16).unwrap() == vec![0; 16 * SECTOR]);
        assert!(world.read(lent + 16, 8).unwrap() == data(lent + 16, 8, 3));
        for lsp in 10..110 {
            for lba in lsp * 32 + 8..lsp * 32 + 32 {
                let expected = if lba == lost { Err(HostError::Io) } else { Ok(sector(lba, 2)) };
                assert!(world.read(lba, 1) == expected, "sector {lba} in life {life}");
            }
        }
        world.flush();
        let disk = if life == 1 { world.stop() } else { world.cut() };
        world = World::start(&config, disk, Mode::Open, life);
        world.layer.check().unwrap();
    }
    write(&mut world, lost, 1, 4);
    assert!(world.read(lost, 1).unwrap() == sector(lost, 4));
    world.layer.check().unwrap();
    world.stop();
}

/// Writes single sectors of 200 LSPs in turn, and sectors of LSP 0 at intervals such that each
/// superpage holds one.
fn scatter(world: &mut World, writes: u64) {
    for i in 0..writes {
        let lba = if i % 60 == 0 { 1 + i / 60 } else { (16 + i % 200) * 64 + i / 200 };
        let id = world.write(lba, data(lba, 1, 1), false);
        world.wait(id).unwrap();
    }
}

/// Delays the data of a write of sector 0, completes a younger write of the sector in a later
/// stage, and lets GC move the copy home. Returns whether all of that happened, after `writes`
/// earlier writes.
fn overtakes(config: &LayerConfig, writes: u64) -> bool {
    let mut world = World::start(config, vec![0; 300 * 64 * SECTOR], Mode::Format, 1);
    scatter(&mut world, writes);
    let late = world.write(0, data(0, 1, 2), false);
    let token = world.newest();
    let held = |it: Token, _: &Command| it == token;
    for sent in 0..250 {
        let lba = if sent == 80 { 0 } else { (16 + sent) * 64 + 30 };
        world.write(lba, data(lba, 1, 3), false);
        world.settle_but(held);
    }
    let home = world.disk.chunks(SECTOR).any(|it| it == sector(0, 3));
    world.wait(late).unwrap();
    let newest = world.read(0, 1).unwrap();
    world.flush();
    let disk = world.cut();
    let mut world = World::start(config, disk, Mode::Open, 2);
    assert!(world.read(0, 1).unwrap() == newest, "an older version is back");
    world.stop();
    home && newest == sector(0, 2)
}

/// The newest version remains after a cut, although the stage of the copy that went home is listed
/// later.
#[test]
fn a_write_after_a_copy_home_remains_newest_after_a_cut() {
    let config = config(64, "shatl");
    let moments = (52..62).filter(|spans| overtakes(&config, *spans * 60)).count();
    assert!(moments > 0, "no number of writes brings the moment");
}
