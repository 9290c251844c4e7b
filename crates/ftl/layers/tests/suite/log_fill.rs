//! `log` with two parities rebuilds a new device while another one is damaged. Afterwards any two
//! devices may be lost.

use crate::common::World;
use crate::common::churn::{data, ready};
use hostftl_core::{Codec, DeviceSet, Layer, SECTOR};
use hostftl_layers::{LayerConfig, LayerKind, Members, Mode};

const DEVICES: usize = 5;
const CHUNK: usize = 64;
/// Sectors of a device.
const DEVICE: usize = 400 * CHUNK;
const PAGE: usize = 4096;
/// Sectors of a write, and number of writes.
const PART: u64 = 64;
const PARTS: u64 = 200;

fn config(missing: DeviceSet, fresh: DeviceSet) -> LayerConfig {
    let new = LayerConfig::new(LayerKind::Log);
    let mut config = LayerConfig { superpage: CHUNK as u32, ..new };
    (config.log.parity, config.log.compress) = (2, Codec::Raw);
    config.members = Members { missing, fresh, ..Members::default() };
    config
}

fn open(disk: Vec<u8>, missing: DeviceSet, fresh: DeviceSet) -> World {
    let config = config(missing, fresh);
    let world = World::start_array_until_ready(&config, disk, DEVICES as u64, Mode::Open, 2);
    assert!(ready(&world), "{:?}", world.events);
    world
}

/// Returns a closed volume with data, in stripes of all lengths.
fn filled() -> Vec<u8> {
    let disk = vec![0; DEVICES * DEVICE * SECTOR];
    let mut world = World::start_array(
        &config(DeviceSet::EMPTY, DeviceSet::EMPTY),
        disk,
        DEVICES as u64,
        Mode::Format,
        1,
    );
    for part in 0..PARTS {
        let id = world.write(part * PART, data(part * PART, PART, 1), part % 7 == 0);
        world.wait(id).unwrap();
    }
    world.stop()
}

fn of_device(device: usize) -> core::ops::Range<usize> {
    device * DEVICE * SECTOR..(device + 1) * DEVICE * SECTOR
}

fn is_head(page: &[u8; PAGE]) -> bool {
    page[4..8] == *b"LROW"
}

/// Returns the number of heads on a device.
fn heads(disk: &[u8], device: usize) -> usize {
    disk[of_device(device)].as_chunks().0.iter().filter(|page| is_head(page)).count()
}

/// Damages the given byte of all heads on a device.
fn harm_heads(disk: &mut [u8], device: usize, byte: usize) {
    let pages = disk[of_device(device)].as_chunks_mut().0;
    pages.iter_mut().filter(|page| is_head(page)).for_each(|head| head[byte] ^= 0x10);
}

/// Rebuilds a new device 1 while the given byte of all heads on device 2 is damaged.
fn fill_beside(byte: usize) {
    let mut disk = filled();
    disk[of_device(1)].fill(0);
    assert!(heads(&disk, 2) > 20);
    harm_heads(&mut disk, 2, byte);
    let mut world = open(disk, DeviceSet::EMPTY, DeviceSet::single(1));
    world.settle();
    world.layer.check().unwrap();
    let disk = world.stop();
    let got = heads(&disk, 1);
    assert!(got > 20, "it got {got} heads");
    for lost in [[2, 3], [0, 2], [3, 4]] {
        let missing = DeviceSet::from_iter(lost);
        let mut world = open(disk.clone(), missing, DeviceSet::EMPTY);
        for part in 0..PARTS {
            let held = world.read(part * PART, PART);
            let right = held.is_ok_and(|held| held == data(part * PART, PART, 1));
            assert!(right, "byte {byte}, without {lost:?}: part {part}");
        }
        world.cut();
    }
}

#[test]
fn a_stripe_with_a_wrong_head_rebuilds_no_chunk() {
    fill_beside(100);
}

#[test]
fn a_chunk_that_contradicts_the_other_parity_is_not_rebuilt() {
    // No checksum covers the bytes behind the entries of a head.
    fill_beside(PAGE - 1);
}

/// Moves would delay the root that lets the device join, and the rebuild writes its chunks in place
/// anyway.
#[test]
fn collection_waits_until_a_new_device_has_joined() {
    let mut disk = filled();
    disk[of_device(1)].fill(0);
    let mut world = open(disk, DeviceSet::EMPTY, DeviceSet::single(1));
    world.settle();
    let (runs, gauges) = (world.layer.counters().gc_runs, world.layer.gauges());
    assert_eq!((runs, gauges.map(|it| it.exposed)), (0, Some(0)));
    world.stop();
}
