//! `log` on zoned devices: refused shapes, and data after stops and cuts.

use crate::common::World;
use crate::common::churn::{Random, churn, ready, verify};
use crate::common::zoned::Pointers;
use hostftl_core::{BLOCK, DeviceInfo, DeviceSet, Event, Layer, SECTOR, Segments};
use hostftl_layers::{AnyLayer, LayerConfig, Members, Mode};

const SHAPE: Segments = Segments {
    size: 512,
    write_unit: 8,
    write_best: 16,
    unreadable: 0,
    max_open: 0,
    count: 128,
    units: 1,
};

fn config() -> LayerConfig {
    LayerConfig::parse("log:superpage=16k:compress=none").expect("there is such a layer")
}

fn blank(shape: Segments) -> (Pointers, Vec<u8>) {
    (Pointers::new(shape), vec![0; (shape.size * shape.count) as usize * SECTOR])
}

/// Overwrites random ranges, over stops and cuts. Returns the number of GC runs.
fn lives(shape: Segments) -> u64 {
    let (zoned, disk) = blank(shape);
    let mut world = World::start_zoned(&config(), zoned, disk, Mode::Format, 3);
    let mut versions = vec![0; world.layer.limits().exported as usize];
    let (mut random, mut collected) = (Random(7), 0);
    for life in 0..6 {
        churn(&mut world, &mut versions, &mut random, 1_000, 40);
        collected += world.layer.counters().gc_runs;
        world.layer.check().unwrap();
        let stops = life % 3 == 0;
        let (zoned, disk) = if stops {
            let (zoned, disk, _) = world.stop_zoned();
            (zoned, disk)
        } else {
            world.flush();
            (world.zoned.clone().unwrap(), world.cut())
        };
        world = World::start_zoned(&config(), zoned, disk, Mode::Open, 5 + life);
        let ready = matches!(world.events.first(), Some(Event::Ready { .. }));
        assert!(ready, "life {life}: {:?}", world.events);
        verify(&mut world, &versions);
    }
    world.stop();
    collected
}

#[test]
fn flushed_data_survives_stops_and_power_cuts() {
    assert!(lives(SHAPE) > 50, "the volume turned over");
}

#[test]
fn no_more_zones_are_open_than_the_device_allows() {
    for max_open in [4, 9] {
        assert!(lives(Segments { max_open, ..SHAPE }) > 50, "the volume turned over");
    }
    // This device prefers larger writes, and its zones are not a whole number of chunks.
    lives(Segments { max_open: 6, write_unit: 16, size: 528, ..SHAPE });
}

#[test]
fn steps_do_not_allocate() {
    let (zoned, disk) = blank(Segments { max_open: 6, ..SHAPE });
    let mut world = World::start_zoned(&config(), zoned, disk, Mode::Format, 1);
    let space = world.layer.limits().exported - 64;
    for i in 0..4_000_u64 {
        let id = world.write(i * 7_919 % space, vec![1; (1 + i as usize % 40) * SECTOR], false);
        world.wait(id).unwrap();
        world.read(i * 7_919 % space, 40).unwrap();
    }
    assert_eq!(world.allocations, 0, "log allocated in a step");
    world.stop();
}

/// Each start writes two roots of two copies; a zone has room for the roots of sixteen starts.
#[test]
fn roots_alternate_between_zones() {
    let shape = Segments { max_open: 4, ..SHAPE };
    let (zoned, disk) = blank(shape);
    let mut world = World::start_zoned(&config(), zoned, disk, Mode::Format, 1);
    for life in 0..100_u8 {
        let id = world.write(0, vec![life + 1; BLOCK], true);
        world.wait(id).unwrap();
        let (zoned, disk) = (world.zoned.clone().unwrap(), world.cut());
        world = World::start_zoned(&config(), zoned, disk, Mode::Open, life.into());
        assert_eq!(world.read(0, 8).unwrap(), vec![life + 1; BLOCK], "life {life}");
    }
    world.stop();
}

#[test]
fn unsuitable_devices_are_refused_with_a_reason() {
    let refused =
        |devices: &[DeviceInfo]| AnyLayer::plan(&config(), devices).unwrap_err().to_string();
    let of = |shape: Segments| Pointers::new(shape).info();
    for (shape, part) in [
        (Segments { unreadable: 8, ..SHAPE }, "readable up to their write pointers"),
        (Segments { max_open: 3, ..SHAPE }, "four open zones"),
        (Segments { size: 96, ..SHAPE }, "four chunks"),
        (Segments { write_unit: 24, size: 480, ..SHAPE }, "a multiple of the indirection unit"),
        (Segments { count: 30, ..SHAPE }, "too small"),
    ] {
        let message = refused(&[of(shape)]);
        assert!(message.contains(part), "{message}");
    }
    let message = refused(&[of(SHAPE), DeviceInfo::block(1 << 20, 8)]);
    assert!(message.contains("either block devices or zoned devices"), "{message}");
    let message = refused(&[of(SHAPE), of(Segments { size: 1024, ..SHAPE })]);
    assert!(message.contains("zones of the same size"), "{message}");
}

const DEVICES: usize = 5;
const SEVERAL: Segments = Segments { size: 256, count: 64, ..SHAPE };
const DEVICE: usize = (SEVERAL.size * SEVERAL.count) as usize * SECTOR;
/// Sectors of a write: almost the capacity of a stripe.
const PART: u64 = 80;

fn on_several(zoned: &Pointers, disk: &[u8], missing: DeviceSet, mode: Mode) -> World {
    let mut config = config();
    config.log.parity = 2;
    config.members = Members { missing, ..Members::default() };
    let world = World::start_zoned(&config, zoned.clone(), disk.to_vec(), mode, 1);
    assert!(ready(&world), "{:?}", world.events);
    world
}

/// Returns content without a pattern, so that its parity does not resemble a head.
fn noise(version: u64) -> Vec<u8> {
    let mut random = Random(version);
    (0..PART * SECTOR as u64).map(|_| random.below(256) as u8).collect()
}

/// Returns device and position of the heads that differ from `before`.
fn new_heads(disk: &[u8], before: &[u8]) -> Vec<(usize, usize)> {
    let is_head = |at: &usize| disk[at + 4..at + 8] == *b"LROW";
    let is_new = |at: &usize| disk[*at..at + BLOCK] != before[*at..at + BLOCK];
    let heads = (0..disk.len()).step_by(BLOCK).filter(|at| is_head(at) && is_new(at));
    heads.map(|at| (at / DEVICE, at)).collect()
}

/// The power is cut before a chunk of the last stripe is in its zone, and the head of that stripe
/// is damaged. Recovery must write the original chunk in its place.
#[test]
fn missing_parity_is_not_rebuilt_from_a_corrupt_head() {
    let zoned = Pointers::of_several(SEVERAL, DEVICES);
    let mut world = on_several(&zoned, &vec![0; DEVICES * DEVICE], DeviceSet::EMPTY, Mode::Format);
    let id = world.write(0, noise(1), true);
    world.wait(id).unwrap();
    let (before, old) = (world.zoned.clone().unwrap(), world.disk.clone());
    let id = world.write(PART, noise(2), true);
    world.wait(id).unwrap();
    let (zoned, disk) = (world.zoned.clone().unwrap(), world.cut());
    let &[(home, head)] = &new_heads(&disk, &old)[..] else { panic!("one row was written") };
    let mut lacked = 0;
    for device in (0..DEVICES).filter(|device| *device != home) {
        let (mut zoned, mut disk) = (zoned.clone(), disk.clone());
        lacked += u32::from(zoned.lose_on(device, &before));
        disk[head + BLOCK - 1] ^= 1;
        disk[head + 100] ^= 1;
        let mut world = on_several(&zoned, &disk, DeviceSet::EMPTY, Mode::Open);
        world.settle();
        let (zoned, disk) = (world.zoned.clone().unwrap(), world.cut());
        for lost in (0..DEVICES).filter(|lost| *lost != home) {
            let mut world = on_several(
                &zoned,
                &disk,
                DeviceSet::from_iter([home as u8, lost as u8]),
                Mode::Open,
            );
            for (at, version) in [(0, 1), (PART, 2)] {
                let right = world.read(at, PART).is_ok_and(|held| held == noise(version));
                assert!(right, "{device} lacked its chunk, then {home} and {lost} were lost");
            }
            world.cut();
        }
    }
    assert_eq!(lacked as usize, DEVICES - 1, "the row is on all devices");
}
