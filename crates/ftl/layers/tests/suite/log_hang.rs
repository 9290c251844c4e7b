//! `log` with a mirror continues without a device that timed out.

use crate::common::World;
use crate::common::churn::{Random, data, ready};
use hostftl_core::{Cause, Command, DeviceSet, Event, HostError, HostOp, Layer, SECTOR, Token};
use hostftl_layers::{LayerConfig, LayerKind, Mode};

/// Sectors of a chunk, and of the blocks behind the head of a stripe.
const CHUNK: usize = 128;
const ROW: u64 = 15 * 8;
/// Number of stripes that are written repeatedly.
const ROWS: u64 = 200;

fn config(missing: DeviceSet) -> LayerConfig {
    let new = LayerConfig::new(LayerKind::Log);
    let mut config = LayerConfig { superpage: CHUNK as u32, deadline: 1 << 40, ..new };
    config.members.missing = missing;
    config.log.parity = 1;
    config
}

fn hangs(_: Token, command: &Command) -> bool {
    command.device() == Some(1)
}

fn write(world: &mut World, row: u64, version: u64) -> u64 {
    world.write(row * ROW, data(row * ROW, ROW, version), false)
}

fn read(world: &mut World, row: u64) -> u64 {
    world.send(row * ROW, ROW, |world| HostOp::Read(world.payload(vec![0; ROW as usize * SECTOR])))
}

/// Writes all stripes and reads them again while a device hangs.
fn go_on(world: &mut World, version: u64) {
    for row in 0..ROWS {
        let id = write(world, row, version);
        world.settle_but(hangs);
        assert!(matches!(world.answer(id), Some(Ok(_))), "row {row} is not written");
        let id = read(world, row);
        world.settle_but(hangs);
        assert!(world.answer(id) == Some(Ok(data(row * ROW, ROW, version))), "row {row}");
    }
    let id = world.send(0, 0, |_| HostOp::Flush);
    world.settle_but(hangs);
    assert_eq!(world.answer(id), Some(Ok(Vec::new())));
}

#[test]
fn a_hanging_device_is_bypassed_after_its_deadline() {
    let disk = vec![0; 2 * 400 * CHUNK * SECTOR];
    let mut world = World::start_pair(&config(DeviceSet::EMPTY), disk, false, Mode::Format, 1);
    for row in 0..ROWS {
        let id = write(&mut world, row, 1);
        world.wait(id).unwrap();
    }
    world.flush();
    // Reads and writes occupy all operations that are available to them.
    let mut asked = Vec::new();
    for row in 0..60 {
        let id = if row % 3 == 0 { read(&mut world, row) } else { write(&mut world, row, 2) };
        asked.push((id, row));
        world.settle_but(hangs);
    }
    assert!(world.layer.credits().requests > 0, "or else a flush would wait here");
    let flush = world.send(0, 0, |_| HostOp::Flush);
    world.settle_but(hangs);
    assert!(world.answer(flush).is_none(), "it waits");
    world.wait_for_timer();
    world.settle_but(hangs);
    let lost = Event::DeviceFailed {
        device: 1,
        error: hostftl_core::DeviceError::Removed,
        abandoned: true,
    };
    assert!(world.events.contains(&lost), "{:?}", world.events);
    assert_eq!(world.layer.members().lost(), DeviceSet::single(1));
    for (id, row) in asked {
        let Some(Ok(held)) = world.answer(id) else { panic!("row {row} is not answered") };
        assert!(row % 3 > 0 || held == data(row * ROW, ROW, 1), "row {row}");
    }
    assert_eq!(world.answer(flush), Some(Ok(Vec::new())));
    (3..6).for_each(|version| go_on(&mut world, version));
    assert_eq!(world.allocations, 0);
    world.layer.check().unwrap();
    // Late completions are accepted, but the stale device is not trusted.
    world.settle();
    go_on(&mut world, 6);
    let disk = world.stop();
    let mut world = World::start_pair(&config(DeviceSet::single(1)), disk, false, Mode::Open, 2);
    assert!(ready(&world), "{:?}", world.events);
    (0..ROWS).for_each(|row| {
        assert!(world.read(row * ROW, ROW).unwrap() == data(row * ROW, ROW, 6), "row {row}");
    });
    world.stop();
}

#[test]
fn a_stop_does_not_wait_for_a_hanging_device() {
    let disk = vec![0; 2 * 400 * CHUNK * SECTOR];
    let mut world = World::start_pair(&config(DeviceSet::EMPTY), disk, false, Mode::Format, 1);
    (0..8).for_each(|row| {
        write(&mut world, row, 1);
    });
    world.settle_but(hangs);
    world.begin_stop();
    world.settle_but(hangs);
    assert!(!world.events.contains(&Event::Stopped));
    world.wait_for_timer();
    world.settle_but(hangs);
    assert!(world.events.contains(&Event::Stopped), "{:?}", world.events);
    let mut world =
        World::start_pair(&config(DeviceSet::single(1)), world.cut(), false, Mode::Open, 2);
    assert!(world.read(0, 8 * ROW).unwrap() == data(0, 8 * ROW, 1));
    world.stop();
}

fn forgets(_: Token, command: &Command) -> bool {
    matches!(command, Command::Reset { device: 1, .. })
}

/// Otherwise the discards on the hanging device would leave no room for commands of the others.
#[test]
fn a_hanging_device_holds_few_discards() {
    let config = LayerConfig { superpage: 32, ..config(DeviceSet::EMPTY) };
    let disk = vec![0; 2 * 192 * 4 * 32 * SECTOR];
    let mut world = World::start_pair(&config, disk, true, Mode::Format, 1);
    let rows = world.layer.limits().exported / ROW;
    for row in 0..rows {
        let id = write(&mut world, row, 1);
        world.wait(id).unwrap();
    }
    let trim = world.send(0, rows * ROW, |_| HostOp::Trim { fua: true });
    world.wait(trim).unwrap();
    let (mut most, mut asked) = (0, Vec::new());
    for row in 0..rows {
        if world.layer.credits().requests == 0 {
            break;
        }
        asked.push((write(&mut world, row, 2), row));
        world.settle_but(forgets);
        most = most.max(world.count(forgets));
    }
    assert_eq!(most, 32);
    world.wait_for_timer();
    world.settle_but(forgets);
    assert_eq!(world.layer.members().lost(), DeviceSet::single(1));
    for (id, row) in asked {
        assert!(matches!(world.answer(id), Some(Ok(_))), "row {row} is not written");
        let id = read(&mut world, row);
        world.settle_but(forgets);
        assert!(world.answer(id) == Some(Ok(data(row * ROW, ROW, 2))), "row {row}");
    }
    assert_eq!(world.count(forgets), 32, "they are still held");
    world.stop();
}

#[test]
fn a_second_hanging_device_fails_the_volume_without_data_loss() {
    let disk = vec![0; 2 * 400 * CHUNK * SECTOR];
    let mut world = World::start_pair(&config(DeviceSet::EMPTY), disk, false, Mode::Format, 1);
    let id = write(&mut world, 0, 1);
    world.wait(id).unwrap();
    world.send(0, 0, |_| HostOp::Flush);
    while world.layer.members().lost().is_empty() {
        world.settle_but(hangs);
        world.wait_for_timer();
    }
    go_on(&mut world, 2);
    let on_device = |_: Token, command: &Command| command.device().is_some();
    let asked = [write(&mut world, 0, 3), read(&mut world, 1)];
    world.settle_but(on_device);
    let flush = world.send(0, 0, |_| HostOp::Flush);
    world.settle_but(on_device);
    assert!(world.answer(flush).is_none(), "it waits");
    let is_over = |event: &&Event| matches!(event, Event::DeviceFailed { .. });
    while world.events.iter().filter(is_over).count() < 2 {
        world.wait_for_timer();
        world.settle_but(on_device);
    }
    assert_eq!(world.answer(flush), Some(Err(HostError::Io)));
    assert!(matches!(world.answer(asked[0]), Some(Ok(_))), "it was answered before");
    assert_eq!(world.answer(asked[1]), Some(Err(HostError::Io)));
    world.begin_stop();
    world.settle_but(on_device);
    assert!(world.events.contains(&Event::Stopped), "{:?}", world.events);
    let mut world =
        World::start_pair(&config(DeviceSet::single(1)), world.cut(), false, Mode::Open, 2);
    for row in 1..ROWS {
        assert!(world.read(row * ROW, ROW).unwrap() == data(row * ROW, ROW, 2), "row {row}");
    }
    world.stop();
}

/// Writes one random block and records its version.
fn overwrite(world: &mut World, random: &mut Random, versions: &mut [u64]) -> u64 {
    let block = random.below(versions.len() as u64);
    versions[block as usize] += 1;
    world.write(block * 8, data(block * 8, 8, versions[block as usize]), false)
}

/// GC and the host share the buffers of stripes. With reads of victims and writes on one device of
/// a mirror held, the volume continues on the other one.
#[test]
fn gc_and_writes_continue_after_a_device_hangs() {
    for seed in 1..4 {
        let disk = vec![0; 2 * 400 * CHUNK * SECTOR];
        let mut world = World::start_pair(&config(DeviceSet::EMPTY), disk, false, Mode::Format, 1);
        let blocks = world.layer.limits().exported / 8;
        let (mut random, mut versions) = (Random(seed), vec![0; blocks as usize]);
        for block in 0..blocks {
            world.write(block * 8, data(block * 8, 8, 0), false);
            world.settle();
        }
        for _ in 0..2 * blocks {
            overwrite(&mut world, &mut random, &mut versions);
            world.settle();
        }
        let (mut asked, mut gc_reads) = (Vec::new(), 0);
        for _ in 0..2 * blocks {
            if world.layer.credits().requests == 0 {
                break;
            }
            asked.push(overwrite(&mut world, &mut random, &mut versions));
            world.settle_but(hangs);
            gc_reads = gc_reads.max(world.count(reads_for_gc));
        }
        assert!(gc_reads > 0, "seed {seed}: GC does not read from the hanging device");
        world.wait_for_timer();
        world.settle_but(hangs);
        assert_eq!(world.layer.members().lost(), DeviceSet::single(1), "seed {seed}");
        for _ in 0..2 * blocks {
            asked.push(overwrite(&mut world, &mut random, &mut versions));
            world.settle_but(hangs);
        }
        for id in asked {
            assert!(matches!(world.answer(id), Some(Ok(_))), "seed {seed}: a write is stuck");
        }
        for (block, version) in (0..blocks).zip(versions) {
            let id =
                world.send(block * 8, 8, |world| HostOp::Read(world.payload(vec![0; 8 * SECTOR])));
            world.settle_but(hangs);
            assert!(world.answer(id) == Some(Ok(data(block * 8, 8, version))), "block {block}");
        }
        world.layer.check().unwrap();
        world.cut();
    }
}

fn reads_for_gc(_: Token, command: &Command) -> bool {
    matches!(command, Command::Read { device: 1, cause: Cause::Gc, .. })
}

/// Selects reads of device 1 for a client.
fn for_the_client(_: Token, command: &Command) -> bool {
    matches!(command, Command::Read { device: 1, cause: Cause::Host, .. })
}

/// A client waits for data that is rebuilt from device 1, because device 0 is new. Device 0
/// receives its missing chunks, and a root records that. Only then is device 1 lost.
#[test]
fn rebuilt_data_is_read_from_the_new_device() {
    let disk = vec![0; 2 * 400 * CHUNK * SECTOR];
    let mut world = World::start_pair(&config(DeviceSet::EMPTY), disk, false, Mode::Format, 1);
    for row in 0..ROWS {
        let id = write(&mut world, row, 1);
        world.wait(id).unwrap();
    }
    let mut disk = world.stop();
    let half = disk.len() / 2;
    disk[..half].fill(0);
    let mut new = config(DeviceSet::EMPTY);
    new.members.fresh = DeviceSet::single(0);
    let mut world = World::start_array_until_ready(&new, disk, 2, Mode::Open, 2);
    assert!(ready(&world), "{:?}", world.events);
    let asked = (0..8).map(|row| (read(&mut world, row), row)).collect::<Vec<_>>();
    world.settle_but(for_the_client);
    assert!(world.count(for_the_client) > 0, "the client waits for device 1");
    while world.layer.members().lost().is_empty() {
        world.wait_for_timer();
        world.settle_but(for_the_client);
    }
    assert_eq!(world.layer.members().lost(), DeviceSet::single(1));
    for (id, row) in asked {
        assert!(world.answer(id) == Some(Ok(data(row * ROW, ROW, 1))), "row {row}");
    }
    world.layer.check().unwrap();
    world.cut();
}
