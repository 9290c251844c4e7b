//! `pblk` and `rrpc`: refused shapes, data after restarts, and the same map after recovery.

use crate::common::World;
use crate::common::churn::{Random, churn, data, verify};
use crate::common::zoned::Pointers;
use hostftl_core::{BLOCK, DeviceInfo, Event, Layer, SECTOR, Segments};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};

const BOTH: [LayerKind; 2] = [LayerKind::Pblk, LayerKind::Rrpc];

fn segments(kind: LayerKind) -> Segments {
    let units = if kind == LayerKind::Pblk { 4 } else { 1 };
    Segments {
        size: 256,
        write_unit: 8,
        write_best: 16,
        unreadable: 0,
        max_open: 0,
        count: 64 * units,
        units,
    }
}

fn config(kind: LayerKind) -> LayerConfig {
    LayerConfig { superpage: 32, ..LayerConfig::new(kind) }
}

fn blank(kind: LayerKind) -> (Pointers, Vec<u8>) {
    let shape = segments(kind);
    (Pointers::new(shape), vec![0; (shape.size * shape.count) as usize * SECTOR])
}

/// Returns a blank device whose segments are just long enough that lines of `pblk` have lists.
fn with_lists(kind: LayerKind) -> (Pointers, Vec<u8>) {
    let Segments { size, units, .. } = segments(kind);
    let long = Segments { size: 2 * size, count: 32 * units, ..segments(kind) };
    let shape = if kind == LayerKind::Pblk { long } else { segments(kind) };
    (Pointers::new(shape), vec![0; (shape.size * shape.count) as usize * SECTOR])
}

fn roomy(kind: LayerKind) -> LayerConfig {
    LayerConfig { spare_permille: 350, ..config(kind) }
}

#[test]
fn the_map_is_the_same_after_a_stop_and_after_every_recovery() {
    for kind in BOTH {
        let (zoned, disk) = blank(kind);
        let mut replayed = 0;
        let mut world = World::start_zoned(&config(kind), zoned, disk, Mode::Format, 3);
        let mut versions = vec![0; world.layer.limits().exported as usize];
        let mut random = Random(7);
        for round in 0..3 {
            churn(&mut world, &mut versions, &mut random, 3_000, 40);
            assert!(world.layer.counters().gc_runs > 0 || round == 0, "the volume turned over");
            // A stop leaves nothing to replay. After a cut the rows are replayed, in every start
            // again.
            let (zoned, disk, before) = if round == 0 {
                let (zoned, disk, crc) = world.stop_zoned();
                (zoned, disk, crc.map(Some))
            } else {
                world.flush();
                (world.zoned.clone().unwrap(), world.cut(), None)
            };
            world = World::start_zoned(&config(kind), zoned, disk, Mode::Open, 5);
            let first = world.layer.map_crc();
            assert_eq!(before.unwrap_or(first), first, "{kind}: the map is that of the stop");
            for life in 0..3 {
                let (zoned, disk) = (world.zoned.clone().unwrap(), world.cut());
                world = World::start_zoned(&config(kind), zoned, disk, Mode::Open, 6 + life);
                let Some(Event::Ready { replayed: rows, .. }) = world.events.first() else {
                    panic!("{kind}: {:?}", world.events)
                };
                assert_eq!(*rows == 0, round == 0, "{kind}: a stop leaves nothing to replay");
                replayed += rows;
                assert_eq!(world.layer.map_crc(), first, "{kind}, round {round}, life {life}");
            }
            verify(&mut world, &versions);
        }
        assert!(replayed > 100, "{kind}: rows were replayed");
        assert_eq!(world.layer.check(), Ok(()));
        world.stop();
    }
}

#[test]
fn steps_do_not_allocate_and_a_flush_pads_a_strip() {
    for kind in BOTH {
        let (zoned, disk) = with_lists(kind);
        let mut world = World::start_zoned(&roomy(kind), zoned, disk, Mode::Format, 1);
        let space = world.layer.limits().exported - 64;
        let padded = world.layer.counters().padded;
        let id = world.write(0, vec![2; BLOCK], false);
        world.wait(id).unwrap();
        world.flush();
        assert_eq!(world.layer.counters().padded - padded, 32 - 16, "a block, a tail, and pad");
        for i in 0..4_000_u64 {
            let id = world.write(i * 7_919 % space, vec![1; (1 + i as usize % 40) * SECTOR], false);
            world.wait(id).unwrap();
            world.read(i * 7_919 % space, 40).unwrap();
        }
        assert_eq!(world.allocations, 0, "{kind} allocated in a step");
        world.stop();
    }
}

/// Cuts alone take no space, and cuts after each small write take no more than GC frees.
#[test]
fn a_thousand_cuts_leave_space_for_the_next_write() {
    for (kind, unreadable) in [(BOTH[0], 32), (BOTH[0], 96), (BOTH[1], 64)] {
        let shape = Segments { unreadable, ..segments(kind) };
        let disk = vec![0; (shape.size * shape.count) as usize * SECTOR];
        let mut world =
            World::start_zoned(&config(kind), Pointers::new(shape), disk, Mode::Format, 3);
        let blocks = world.layer.limits().exported / 8;
        let mut values = vec![0; blocks as usize];
        for block in 0..blocks {
            let id = world.write(block * 8, vec![1; BLOCK], false);
            world.wait(id).unwrap();
            values[block as usize] = 1;
        }
        for life in 0..1000 {
            let block = (life * 7_919) % blocks;
            let value = (life % 250) as u8 + 2;
            let id = world.write(block * 8, vec![value; BLOCK], true);
            assert_eq!(world.wait(id), Ok(()), "{kind}, {unreadable} unreadable, life {life}");
            values[block as usize] = value;
            for again in 0..1 + u64::from(life % 10 == 0) {
                let (zoned, disk) = (world.zoned.clone().unwrap(), world.cut());
                world = World::start_zoned(&config(kind), zoned, disk, Mode::Open, life + again);
                // Strips that GC has sent so far are padded by less than a strip.
                let padded = world.layer.counters().padded;
                assert!(padded < 24 || again == 0, "{kind}, life {life}: padded again, {padded}");
            }
        }
        for block in 0..blocks {
            let found = world.read(block * 8, 8).unwrap();
            assert_eq!(found, vec![values[block as usize]; BLOCK], "{kind}, block {block}");
        }
        world.stop();
    }
}

/// A cut may leave any part of the pads that recovery writes. No later row may be mistaken for a
/// pad.
#[test]
fn interrupted_padding_hides_no_data() {
    for (kind, unreadable) in [(BOTH[0], 32), (BOTH[0], 64), (BOTH[1], 32)] {
        let shape = Segments { unreadable, ..segments(kind) };
        let disk = vec![0; (shape.size * shape.count) as usize * SECTOR];
        let mut world =
            World::start_zoned(&config(kind), Pointers::new(shape), disk, Mode::Format, 3);
        let mut random = Random(11);
        for life in 0..400 {
            let value = (life % 250) as u8 + 2;
            let id = world.write(0, vec![value; BLOCK], true);
            assert_eq!(world.wait(id), Ok(()), "{kind}, {unreadable} unreadable, life {life}");
            for again in 0..4 {
                let (mut zoned, disk) = (world.zoned.clone().unwrap(), world.cut());
                world = World::start_zoned(&config(kind), zoned.clone(), disk, Mode::Open, life);
                if again < 3 {
                    let mut padded = world.zoned.clone().unwrap();
                    padded.lose(&zoned, 8, |units| random.below(units + 1));
                    zoned = padded;
                    world.zoned = Some(zoned);
                }
            }
            let found = world.read(0, 8).unwrap();
            assert_eq!(found, vec![value; BLOCK], "{kind}, {unreadable} unreadable, life {life}");
        }
        world.stop();
    }
}

/// Returns lines of 128 strips of 32 KiB; a root is written every 640 rows.
fn long_lines() -> Segments {
    Segments { size: 1024, count: 40 * 8, units: 8, ..segments(LayerKind::Pblk) }
}

fn of_long_lines(zoned: Pointers, disk: Vec<u8>, mode: Mode) -> World {
    let config = LayerConfig { superpage: 64, ..LayerConfig::new(LayerKind::Pblk) };
    World::start_zoned(&config, zoned, disk, mode, 3)
}

/// Returns the positions of the strips with parts of lists, found by their tails.
fn parts(disk: &[u8]) -> Vec<usize> {
    let strips = (0..disk.len()).step_by(64 * SECTOR);
    let tail = |at: usize| &disk[at + 64 * SECTOR - BLOCK..][..BLOCK];
    strips.filter(|at| &tail(*at)[4..8] == b"ZTAL" && tail(*at)[58] == 2).collect()
}

fn fact(world: &World, name: &str) -> u64 {
    world.layer.facts().into_iter().find(|(known, _)| *known == name).expect("it is reported").1
}

/// Without a recent checkpoint a start reads the list of each full line, and the tails where the
/// list is damaged, with the same result.
#[test]
fn a_list_replaces_the_tails_of_its_line() {
    let shape = long_lines();
    let disk = vec![0; (shape.size * shape.count) as usize * SECTOR];
    let mut world = of_long_lines(Pointers::new(shape), disk, Mode::Format);
    let mut versions = vec![0; world.layer.limits().exported as usize];
    let mut random = Random(5);
    while fact(&world, "lists_written") < 24 {
        churn(&mut world, &mut versions, &mut random, 20, 1000);
    }
    world.flush();
    let (zoned, disk) = (world.zoned.clone().unwrap(), world.cut());
    let mut seen = Vec::new();
    // Undamaged, with a damaged tail in each part, or with a damaged record in each part.
    for damaged in [None, Some(63 * SECTOR), Some(20)] {
        let mut disk = disk.clone();
        let parts = parts(&disk);
        assert!(parts.len() >= 20, "lines have lists");
        for part in parts.iter().filter(|_| damaged.is_some()) {
            disk[part + damaged.unwrap_or(0)] ^= 1;
        }
        let mut world = of_long_lines(zoned.clone(), disk, Mode::Open);
        let Some(Event::Ready { replayed, .. }) = world.events.first() else {
            panic!("{:?}", world.events)
        };
        let (reads, sectors) = world.meta_reads;
        println!("{replayed} rows replayed, {reads} reads, {sectors} sectors of metadata");
        seen.push((*replayed, reads, world.layer.map_crc()));
        verify(&mut world, &versions);
        assert_eq!(world.layer.check(), Ok(()));
        world.cut();
    }
    let [whole, others @ ..] = &seen[..] else { panic!("three starts") };
    assert!(others.iter().all(|it| (it.0, it.2) == (whole.0, whole.2)), "{seen:?}");
    let spared = others.iter().all(|it| whole.1 < it.1 / 2);
    assert!(whole.0 > 400 && spared, "lists spare reads: {seen:?}");
}

/// The amount of data written since the volume was created is known after a cut and after a stop.
#[test]
fn write_counters_continue() {
    for kind in BOTH {
        let (zoned, disk) = with_lists(kind);
        let mut world = World::start_zoned(&roomy(kind), zoned, disk, Mode::Format, 3);
        let mut versions = vec![0; world.layer.limits().exported as usize];
        let mut random = Random(7);
        let names = ["host", "gc", "pad", "map", "checkpoint", "list"];
        let all = |world: &World| names.map(|name| fact(world, &format!("ever_{name}_bytes")));
        for cut in [true, false, true] {
            churn(&mut world, &mut versions, &mut random, 4_000, 40);
            world.flush();
            world.settle();
            let before = all(&world);
            let (zoned, disk) = if cut {
                (world.zoned.clone().unwrap(), world.cut())
            } else {
                let (zoned, disk, _) = world.stop_zoned();
                (zoned, disk)
            };
            world = World::start_zoned(&roomy(kind), zoned, disk, Mode::Open, 5);
            let after = all(&world);
            let grown = names.iter().zip(before.iter().zip(after));
            for (name, (before, after)) in grown {
                let exact = cut && !matches!(*name, "pad" | "map");
                assert!(after == *before || !exact && after > *before, "{kind}: {name}");
            }
            assert!(before[0] > 1 << 20 && before[1] > 0, "{kind}: {before:?}");
            assert_eq!(before[5] > 0, kind == LayerKind::Pblk, "{kind}: {before:?}");
        }
        world.stop();
    }
}

/// All invalid data is in the last filled line or in the one being filled.
#[test]
fn a_full_volume_accepts_overwrites_of_one_block() {
    for kind in BOTH {
        let (zoned, disk) = blank(kind);
        let mut world = World::start_zoned(&config(kind), zoned, disk, Mode::Format, 3);
        let sectors = world.layer.limits().exported;
        let mut versions = vec![7; sectors as usize];
        for lba in (0..sectors).step_by(24) {
            let id = world.write(lba, data(lba, 24.min(sectors - lba), 7), false);
            assert_eq!(world.wait(id), Ok(()));
        }
        for version in 8..2_000 {
            let id = world.write(80, data(80, 8, version), version % 3 == 0);
            assert_eq!(world.wait(id), Ok(()), "{kind}, version {version}");
            versions[80..88].fill(version);
            if version % 50 == 0 {
                world.flush();
                let (zoned, disk) = (world.zoned.clone().unwrap(), world.cut());
                world = World::start_zoned(&config(kind), zoned, disk, Mode::Open, version);
            }
        }
        verify(&mut world, &versions);
        world.stop();
    }
}

#[test]
fn unsuitable_devices_are_refused_with_a_reason() {
    let refused = |kind: LayerKind, device: DeviceInfo| {
        AnyLayer::plan(&config(kind), &[device]).unwrap_err().to_string()
    };
    for kind in BOTH {
        let shape = segments(kind);
        let of = |shape: Segments| Pointers::new(shape).info();
        let message = refused(kind, DeviceInfo::block(1 << 20, 8));
        assert!(message.contains("need one zoned device"), "{message}");
        let message = refused(kind, of(Segments { max_open: 1, ..shape }));
        assert!(message.contains("too few open segments"), "{message}");
        let message = refused(kind, of(Segments { count: 8 * shape.units, ..shape }));
        let expected =
            if kind == LayerKind::Pblk { "too few segments" } else { "stop host writes" };
        assert!(message.contains(expected), "{message}");
    }
    // Four times eight units exceed a tenth of 319 segments, and equal a tenth of 320.
    let of = |each: u32| Segments { count: each * 8, units: 8, ..segments(LayerKind::Rrpc) };
    let info = |each| Pointers::new(of(each)).info();
    assert!(refused(LayerKind::Rrpc, info(319)).contains("stop host writes"));
    assert!(AnyLayer::plan(&config(LayerKind::Rrpc), &[info(320)]).is_ok());
}
