//! The journal of `log` absorbs flushes, stripes are still written full, and a cut loses nothing.

use crate::common::World;
use crate::common::churn::{Random, churn, data, ready, verify};
use crate::common::zoned::Pointers;
use hostftl_core::{DeviceInfo, DeviceSet, Event, HostOp, Layer, SECTOR, Segments};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};

/// Sectors of a chunk, and of a record with its head of four pages.
const CHUNK: usize = 128;
const SLOT: usize = 160;
/// Sectors of the empty record at the beginning of a life.
const FIRST: u64 = 8;
/// Sectors of the journal.
const JOURNAL: u64 = 10 * SLOT as u64;

fn config() -> LayerConfig {
    let mut config = LayerConfig { superpage: CHUNK as u32, ..LayerConfig::new(LayerKind::Log) };
    config.log.journal = true;
    config
}

/// Returns a blank disk of 300 chunks and the journal.
fn disk() -> Vec<u8> {
    vec![0; (300 * CHUNK + JOURNAL as usize) * SECTOR]
}

fn start(disk: Vec<u8>, mode: Mode, seed: u64) -> World {
    World::start_journaled(&config(), disk, JOURNAL, mode, seed)
}

/// Opens a volume whose journal is missing.
fn without(disk: Vec<u8>) -> World {
    let mut config = config();
    config.members.missing = DeviceSet::single(1);
    World::start_journaled(&config, disk, JOURNAL, Mode::Open, 1)
}

#[test]
fn zoned_and_small_journals_are_refused() {
    let shape = Segments {
        size: 512,
        write_unit: 8,
        write_best: 16,
        unreadable: 0,
        max_open: 0,
        count: 128,
        units: 1,
    };
    let (zoned, block) = (Pointers::new(shape).info(), DeviceInfo::block(1 << 16, 8));
    let refused = |devices: [&DeviceInfo; 2]| {
        let why = AnyLayer::plan(&config(), &devices.map(Clone::clone)).unwrap_err();
        why.to_string()
    };
    let error = refused([&zoned, &block]);
    assert!(error.contains("no journal with zoned devices"), "{error}");
    let error = refused([&block, &zoned]);
    assert!(
        error.contains("log can't use a zoned device as its journal; use a block device"),
        "{error}"
    );
    let error = refused([&block, &DeviceInfo::block(600, 8)]);
    assert!(error.contains("too small"), "{error}");
    assert!(AnyLayer::plan(&config(), &[block.clone(), block]).is_ok());
}

#[test]
fn a_flush_writes_a_record_and_seals_no_row() {
    let mut world = start(disk(), Mode::Format, 1);
    let before = world.layer.counters();
    for round in 0..2 {
        let id = world.write(round * 8, data(round * 8, 8, 1), false);
        world.wait(id).unwrap();
        world.flush();
    }
    let after = world.layer.counters();
    assert_eq!(after.journal_written, FIRST + 2 * 16, "two records: a page of head, and a block");
    assert_eq!(after.map_written, before.map_written, "no row has its head yet");
    world.flush();
    assert_eq!(world.layer.counters().journal_written, FIRST + 2 * 16, "nothing is logged twice");
    let mut world = start(world.cut(), Mode::Open, 2);
    assert!(ready(&world), "{:?}", world.events);
    assert_eq!(world.read(0, 16).unwrap(), data(0, 16, 1));
    world.layer.check().unwrap();
    world.stop();
}

#[test]
fn fua_writes_are_journaled_and_trims_go_to_stripes() {
    let mut world = start(disk(), Mode::Format, 1);
    let id = world.write(0, data(0, 16, 5), true);
    world.wait(id).unwrap();
    let id = world.send(8, 8, |_| HostOp::Trim { fua: true });
    world.wait(id).unwrap();
    assert_eq!(
        world.layer.counters().journal_written,
        FIRST + 24,
        "a page of head, and two blocks"
    );
    let mut world = start(world.cut(), Mode::Open, 2);
    assert_eq!(world.read(0, 8).unwrap(), data(0, 8, 5));
    assert_eq!(world.read(8, 8).unwrap(), vec![0; 8 * SECTOR]);
    world.stop();
}

#[test]
fn writes_longer_than_a_record_bypass_the_journal() {
    let mut world = start(disk(), Mode::Format, 1);
    let id = world.write(0, data(0, 256, 5), true);
    world.wait(id).unwrap();
    assert_eq!(world.layer.counters().journal_written, FIRST);
    let mut world = start(world.cut(), Mode::Open, 2);
    assert_eq!(world.read(0, 256).unwrap(), data(0, 256, 5));
    world.stop();
}

#[test]
fn a_full_ring_seals_stripes_and_continues() {
    let mut world = start(disk(), Mode::Format, 1);
    for version in 1..200 {
        let id = world.write(0, data(0, 1, version), true);
        world.wait(id).unwrap();
    }
    let facts = world.layer.facts();
    let fact = |name: &str| facts.iter().find(|(known, _)| *known == name).unwrap().1;
    assert!(fact("journal_records") < 10 && fact("journal_passed_by") > 0);
    let mut world = start(world.cut(), Mode::Open, 2);
    assert_eq!(world.read(0, 1).unwrap(), data(0, 1, 199));
    world.stop();
}

#[test]
fn survives_cuts_and_turns_of_the_ring() {
    let (mut disk, mut mode) = (disk(), Mode::Format);
    let (mut versions, mut random) = (Vec::new(), Random(9));
    for life in 0..40 {
        let mut world = start(disk, mode, life);
        assert!(ready(&world), "life {life}: {:?}", world.events);
        versions.resize(world.layer.limits().exported as usize, 0);
        verify(&mut world, &versions);
        churn(&mut world, &mut versions, &mut random, 300, 3);
        world.flush();
        world.layer.check().unwrap();
        assert!(world.layer.counters().journal_written > 100 * 16, "flushes are logged");
        disk = world.cut();
        mode = Mode::Open;
    }
}

/// Starts a volume with room for all streams, so that first writes and overwrites go to different
/// stripes.
fn start_roomy(disk: Vec<u8>, mode: Mode, seed: u64) -> World {
    let config = LayerConfig { spare_permille: 500, ..config() };
    World::start_journaled(&config, disk, JOURNAL, mode, seed)
}

fn roomy() -> Vec<u8> {
    vec![0; (800 * CHUNK + JOURNAL as usize) * SECTOR]
}

fn overwrite(world: &mut World, block: u64, version: u64) {
    let id = world.write(block * 8, data(block * 8, 8, version), false);
    world.wait(id).unwrap();
}

#[test]
fn a_stripe_sealed_after_a_record_lists_no_older_version() {
    let mut world = start_roomy(roomy(), Mode::Format, 1);
    overwrite(&mut world, 0, 1);
    overwrite(&mut world, 0, 2);
    world.flush();
    // The stripe with the older version fills up; the stripe with the newer one does not.
    let before = world.layer.counters().map_written;
    (1..20).for_each(|block| overwrite(&mut world, block, 1));
    world.settle();
    assert_eq!(world.layer.counters().map_written, before + 8, "one row got its head");
    let mut world = start_roomy(world.cut(), Mode::Open, 2);
    assert_eq!(world.read(0, 8).unwrap(), data(0, 8, 2));
    world.stop();
}

#[test]
fn a_stripe_with_a_trim_is_sealed_before_later_writes() {
    let mut world = start_roomy(roomy(), Mode::Format, 1);
    overwrite(&mut world, 0, 1);
    let id = world.send(0, 8, |_| HostOp::Trim { fua: false });
    world.wait(id).unwrap();
    overwrite(&mut world, 0, 2);
    overwrite(&mut world, 0, 3);
    world.flush();
    (1..40).for_each(|block| overwrite(&mut world, block, 1));
    world.settle();
    let mut world = start_roomy(world.cut(), Mode::Open, 2);
    assert_eq!(world.read(0, 8).unwrap(), data(0, 8, 3));
    world.stop();
}

#[test]
fn a_record_has_no_older_version_than_earlier_stripes() {
    let mut world = start_roomy(roomy(), Mode::Format, 1);
    overwrite(&mut world, 0, 1);
    overwrite(&mut world, 1, 1);
    overwrite(&mut world, 0, 2);
    // The stripe with the newer version fills up and becomes durable; the stripe with the older one
    // does not.
    (2..70).for_each(|version| overwrite(&mut world, 1, version));
    world.settle();
    let before = world.layer.counters().journal_written;
    world.flush();
    assert!(world.layer.counters().journal_written > before, "it goes to the journal");
    let mut world = start_roomy(world.cut(), Mode::Open, 2);
    assert_eq!(world.read(0, 8).unwrap(), data(0, 8, 2));
    assert_eq!(world.read(8, 8).unwrap(), data(8, 8, 69));
    world.stop();
}

#[test]
fn no_step_allocates_with_a_journal() {
    let mut world = start(disk(), Mode::Format, 1);
    let mut versions = vec![0; world.layer.limits().exported as usize];
    churn(&mut world, &mut versions, &mut Random(3), 6000, 4);
    assert!(world.layer.counters().gc_runs > 0, "the volume turned over");
    assert_eq!(world.allocations, 0);
    world.stop();
}

#[test]
fn without_its_journal_a_volume_opens_only_after_a_clean_stop() {
    let mut world = start(disk(), Mode::Format, 1);
    let id = world.write(0, data(0, 8, 1), true);
    world.wait(id).unwrap();
    let disk = world.cut();
    let world = without(disk.clone());
    let [Event::Unrecoverable(why)] = world.events[..] else { panic!("{:?}", world.events) };
    assert!(why.contains("reconnect it"), "{why}");
    drop(world.cut());
    let mut world = start(disk, Mode::Open, 2);
    assert_eq!(world.read(0, 8).unwrap(), data(0, 8, 1));
    let mut world = without(world.stop());
    assert!(ready(&world));
    assert_eq!(world.layer.members().lost(), DeviceSet::single(1));
    let id = world.write(0, data(0, 8, 2), true);
    world.wait(id).unwrap();
    assert_eq!(world.layer.counters().journal_written, 0);
    let mut world = without(world.cut());
    assert_eq!(world.read(0, 8).unwrap(), data(0, 8, 2), "it was never needed");
    let mut world = start(world.cut(), Mode::Open, 2);
    assert_eq!(world.read(0, 8).unwrap(), data(0, 8, 2), "its previous content is old");
    world.stop();
}

#[test]
fn a_damaged_needed_record_is_detected() {
    let mut world = start(disk(), Mode::Format, 1);
    for at in 0..3 {
        let id = world.write(at * 8, data(at * 8, 8, 1), true);
        world.wait(id).unwrap();
    }
    let disk = world.cut();
    let slot = |number: usize| (300 * CHUNK + number * SLOT) * SECTOR;
    // The first record with a block is in slot 2; its block follows one page of head.
    for at in [slot(2) + 70, slot(2) + 4096 + 9, slot(3) + 30] {
        let mut damaged = disk.clone();
        damaged[at] ^= 1;
        let world = start(damaged, Mode::Open, 2);
        assert!(
            matches!(world.events[..], [Event::Unrecoverable(why)] if why.contains("is damaged")),
            "byte {at}: {:?}",
            world.events
        );
        drop(world.cut());
    }
    let mut torn = disk.clone();
    torn[slot(4) + 4096 + 9] ^= 1;
    let mut world = start(torn, Mode::Open, 2);
    assert_eq!(world.read(0, 16).unwrap(), data(0, 16, 1));
    assert_eq!(world.read(16, 8).unwrap(), vec![0; 8 * SECTOR], "the newest looks torn");
    world.stop();
}

fn fua(world: &mut World, block: u64, version: u64) {
    let id = world.write(block * 8, data(block * 8, 8, version), true);
    world.wait(id).unwrap();
}

/// Returns the disk with another journal.
fn with(disk: &[u8], journal: &[u8]) -> Vec<u8> {
    let rows = 300 * CHUNK * SECTOR;
    [&disk[..rows], &journal[rows..]].concat()
}

/// Starts with another journal, which must be refused. Returns the disk.
fn refused(disk: &[u8], journal: &[u8]) -> Vec<u8> {
    let world = start(with(disk, journal), Mode::Open, 3);
    let [Event::Unrecoverable(why)] = world.events[..] else { panic!("{:?}", world.events) };
    assert!(why.contains("an older copy"), "{why}");
    let left = world.cut();
    let rows = 300 * CHUNK * SECTOR;
    assert!(left[rows..] == journal[rows..], "it is left as it was");
    left
}

#[test]
fn a_journal_of_an_earlier_life_is_refused_until_the_device_is_back() {
    let mut world = start(disk(), Mode::Format, 1);
    fua(&mut world, 0, 1);
    let first = world.cut();
    let mut world = start(first.clone(), Mode::Open, 2);
    fua(&mut world, 1, 1);
    let second = world.cut();
    refused(&second, &disk());
    let left = refused(&second, &first);
    let mut world = start(with(&left, &second), Mode::Open, 4);
    assert_eq!(world.read(0, 16).unwrap(), data(0, 16, 1));
    // Nothing was written in this life, but its empty record is missing.
    refused(&world.cut(), &second);
}

#[test]
fn after_a_clean_stop_an_older_journal_does_no_harm() {
    let mut world = start(disk(), Mode::Format, 1);
    fua(&mut world, 0, 1);
    let old = world.disk.clone();
    fua(&mut world, 0, 2);
    let stopped = world.stop();
    let mut world = start(with(&stopped, &old), Mode::Open, 2);
    assert_eq!(world.read(0, 8).unwrap(), data(0, 8, 2));
    fua(&mut world, 0, 3);
    let left = world.cut();
    refused(&left, &stopped);
    let mut world = start(left, Mode::Open, 3);
    assert_eq!(world.read(0, 8).unwrap(), data(0, 8, 3));
    world.stop();
}

#[test]
fn a_stripe_records_the_durable_journal_records() {
    let mut world = start(disk(), Mode::Format, 1);
    fua(&mut world, 0, 1);
    let old = world.disk.clone();
    fua(&mut world, 0, 2);
    let before = world.disk.clone();
    // Fills and writes a stripe.
    let heads = world.layer.counters().map_written;
    (1..30).for_each(|block| overwrite(&mut world, block, 1));
    world.settle();
    assert!(world.layer.counters().map_written > heads);
    let after = world.cut();
    refused(&after, &old);
    let mut world = start(after, Mode::Open, 2);
    assert_eq!(world.read(0, 8).unwrap(), data(0, 8, 2));
    world.stop();
    // Only the journal contained the previous record.
    let mut world = start(with(&before, &old), Mode::Open, 2);
    assert_eq!(world.read(0, 8).unwrap(), data(0, 8, 1), "the limit that SEMANTICS.md states");
    world.stop();
}

#[test]
fn a_root_records_the_durable_journal_records() {
    let mut world = start(disk(), Mode::Format, 1);
    fua(&mut world, 0, 1);
    let old = world.disk.clone();
    fua(&mut world, 0, 2);
    let roots = |world: &World| {
        world.events.iter().filter(|event| matches!(event, Event::CheckpointDone)).count()
    };
    let mut version = 1;
    // The first root may have been started earlier.
    while roots(&world) < 2 {
        version += 1;
        (1..200).for_each(|block| overwrite(&mut world, block, version));
    }
    let after = world.cut();
    refused(&after, &old);
    let mut world = start(after, Mode::Open, 2);
    assert_eq!(world.read(0, 8).unwrap(), data(0, 8, 2));
    world.stop();
}

#[test]
fn a_record_named_by_a_stripe_is_not_taken_as_torn() {
    let mut world = start(disk(), Mode::Format, 1);
    fua(&mut world, 0, 1);
    (1..30).for_each(|block| overwrite(&mut world, block, 1));
    world.settle();
    let mut damaged = world.cut();
    // The record of block 0 is the second one, in the second slot.
    damaged[(300 * CHUNK + 2 * SLOT) * SECTOR + 4096 + 9] ^= 1;
    let world = start(damaged, Mode::Open, 2);
    assert!(matches!(world.events[..], [Event::Unrecoverable(_)]), "{:?}", world.events);
    drop(world.cut());
}
