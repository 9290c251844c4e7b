//! Victims of GC in `log`, and the reads of a victim.

use hostftl_core::{Cause, Codec, Command, DeviceSet, HostOp, Layer, SECTOR, Target, Token};
use hostftl_layers::policy::GcPolicy;
use hostftl_layers::{LayerConfig, LayerKind, Mode};

use crate::common::World;
use crate::common::churn::{Random, data};

/// Sectors of a chunk.
const CHUNK: usize = 64;

fn is_gc_read(_: Token, command: &Command) -> bool {
    matches!(command, Command::Read { into: Target::Data(_), cause: Cause::Gc, .. })
}

/// Data that the host never overwrites remains the oldest. Selecting it gains nothing under this
/// policy, but the host must still get the space that other victims free.
#[test]
fn fully_valid_segments_do_not_block_other_victims() {
    let mut config = LayerConfig { superpage: CHUNK as u32, ..LayerConfig::new(LayerKind::Log) };
    (config.log.compress, config.log.gc) = (Codec::Raw, GcPolicy::Fifo);
    let mut world = World::start(&config, vec![0; 400 * CHUNK * SECTOR], Mode::Format, 1);
    let blocks = world.layer.limits().exported / 8;
    let mut random = Random(1);
    for version in 0..6 * blocks {
        let rest = blocks / 4 + random.below(blocks - blocks / 4);
        let block = if version < blocks { version } else { rest };
        let id = world.write(block * 8, data(block * 8, 8, version), false);
        assert_eq!(world.wait(id), Ok(()), "write {version} of a volume that has room");
    }
    assert!(world.read(0, 8) == Ok(data(0, 8, 0)), "blocks that were never overwritten");
    world.stop();
}

/// Stripes on one device have one chunk, so each read belongs to another stripe.
#[test]
fn several_rows_of_a_victim_are_under_way_at_once() {
    let mut config = LayerConfig { superpage: CHUNK as u32, ..LayerConfig::new(LayerKind::Log) };
    config.log.compress = Codec::Raw;
    let mut world = World::start(&config, vec![0; 400 * CHUNK * SECTOR], Mode::Format, 1);
    let blocks = world.layer.limits().exported / 8;
    let (mut random, mut versions) = (Random(1), vec![0; blocks as usize]);
    for version in 0..6 * blocks {
        let block = if version < blocks { version } else { random.below(blocks) };
        world.write(block * 8, data(block * 8, 8, version), false);
        versions[block as usize] = version;
        world.settle_but(is_gc_read);
        if world.count(is_gc_read) > 0 {
            break;
        }
    }
    let rows = world.count(is_gc_read);
    assert!((2..=16).contains(&rows), "{rows} rows of a victim are read");
    world.settle();
    for (block, version) in (0..blocks).zip(versions) {
        assert!(world.read(block * 8, 8) == Ok(data(block * 8, 8, version)), "block {block}");
    }
    world.stop();
}

/// One of three devices is lost, so each stripe has two chunks left.
#[test]
fn sources_of_a_missing_chunk_are_read_once() {
    let mut config = LayerConfig { superpage: CHUNK as u32, ..LayerConfig::new(LayerKind::Log) };
    (config.log.compress, config.log.parity, config.spare_permille) = (Codec::Raw, 1, 500);
    let mut world =
        World::start_array(&config, vec![0; 3 * 400 * CHUNK * SECTOR], 3, Mode::Format, 1);
    let row = (2 * CHUNK as u64 / 8 - 1) * 8;
    let rows = 60;
    for at in 0..rows {
        let id = world.write(at * row, data(at * row, row, 1), false);
        world.wait(id).unwrap();
    }
    let mut disk = world.stop();
    disk[400 * CHUNK * SECTOR..800 * CHUNK * SECTOR].fill(0xee);
    config.members.missing = DeviceSet::single(1);
    let mut world = World::start_array(&config, disk, 3, Mode::Open, 2);
    world.settle();
    assert_eq!(world.layer.gauges().map(|it| it.exposed), Some(0), "all has parity again");
    let read = world.data_read;
    let most = rows * 2 * CHUNK as u64;
    assert!((most / 2..=most).contains(&read), "{read} sectors of {most} were read");
    for at in 0..rows {
        assert!(world.read(at * row, row) == Ok(data(at * row, row, 1)), "row {at}");
    }
    world.stop();
}

/// Copies of rebuilt data gain no space. They must not use the reserve of GC, because GC could not
/// continue after the next start, and writes would be refused.
#[test]
fn rebuilds_for_reads_leave_buffers_for_gc() {
    let mut config = LayerConfig { superpage: CHUNK as u32, ..LayerConfig::new(LayerKind::Log) };
    (config.log.compress, config.log.parity) = (Codec::Raw, 1);
    let device = 400 * CHUNK * SECTOR;
    let mut world = World::start_array(&config, vec![0; 3 * device], 3, Mode::Format, 1);
    let blocks = world.layer.limits().exported / 8;
    let mut random = Random(1);
    for version in 0..2 * blocks {
        let block = if version < blocks { version } else { random.below(blocks) };
        let id = world.write(block * 8, data(block * 8, 8, version), false);
        world.wait(id).unwrap();
    }
    let mut disk = world.stop();
    disk[device + 8 * CHUNK * SECTOR..2 * device].fill(0xee);
    let mut world = World::start_array_until_ready(&config, disk, 3, Mode::Open, 2);
    for block in 0..blocks {
        let id = world.send(block * 8, 8, |world| HostOp::Read(world.payload(vec![0; 4096])));
        world.settle_but(is_gc_read);
        assert!(matches!(world.answer(id), Some(Ok(_))), "block {block} is made from parity");
    }
    assert!(world.layer.gauges().is_some_and(|it| it.repaired > 0));
    let disk = world.cut_flushed();
    let mut world = World::start_array_until_ready(&config, disk, 3, Mode::Open, 3);
    for block in 0..blocks {
        let id = world.write(block * 8, data(block * 8, 8, 1), false);
        assert_eq!(world.wait(id), Ok(()), "block {block} has room");
    }
    world.stop();
}
