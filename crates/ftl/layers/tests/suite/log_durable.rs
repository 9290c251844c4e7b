//! `log` reports background work as complete only when a power cut cannot undo it.
//!
//! Each test cuts the power directly after the report, with devices that lose their volatile cache.
//! It then loses as many devices as the report stated to be expendable.

use crate::common::World;
use crate::common::cache::Cache;
use crate::common::churn::{data, ready};
use crate::log_scrub::{CHUNK, DEVICE, PART, PARTS, config};
use hostftl_core::{AdminCommand, DeviceSet, Event, Layer, SECTOR, Scrub, TaskEnd, TaskKind};
use hostftl_layers::{LayerConfig, Mode};

/// Returns a closed volume with data over `devices` devices.
fn filled(devices: u64) -> Vec<u8> {
    let disk = vec![0; devices as usize * DEVICE * SECTOR];
    let mut world = World::start_array(&config(DeviceSet::EMPTY), disk, devices, Mode::Format, 1);
    for part in 0..PARTS {
        let id = world.write(part * PART, data(part * PART, PART, 1), false);
        world.wait(id).unwrap();
    }
    world.stop()
}

/// Opens the volume on devices with a volatile cache.
fn open(config: &LayerConfig, disk: Vec<u8>, devices: u64) -> World {
    let mut world = World::start_array(config, disk, devices, Mode::Open, 2);
    assert!(ready(&world), "{:?}", world.events);
    world.cache = Some(Cache::default());
    world
}

fn all_reads(world: &mut World) {
    for part in 0..PARTS {
        let held = world.read(part * PART, PART);
        assert!(held == Ok(data(part * PART, PART, 1)), "part {part} is lost");
    }
}

/// Damages one byte in each of many chunks of a device, except in its roots.
fn damage(disk: &mut [u8], device: usize) {
    let from = (device * DEVICE + 20 * CHUNK) * SECTOR;
    let to = (device + 1) * DEVICE * SECTOR;
    (from..to).step_by(3 * CHUNK * SECTOR + 4096).for_each(|byte| disk[byte] ^= 0x10);
}

/// Returns the end of the scrub, with the number of repaired and unrepaired stripes.
fn outcome(world: &World) -> Option<(TaskEnd, u64, u64)> {
    world.events.iter().find_map(|event| match *event {
        Event::Over { end, beyond, repaired: mended, unrepaired, .. } => {
            assert_eq!(beyond, 0, "parity makes up for all damage");
            Some((end, mended, unrepaired))
        }
        _ => None,
    })
}

fn has_task(world: &World, kind: TaskKind) -> bool {
    world.layer.tasks().iter().any(|task| task.kind == kind)
}

#[test]
fn a_power_cut_right_after_a_scrub_takes_no_repair_back() {
    let mut disk = filled(3);
    damage(&mut disk, 1);
    let mut world = open(&config(DeviceSet::EMPTY), disk, 3);
    world.operate(AdminCommand::Scrub(Scrub::Start(0))).unwrap();
    assert!(world.run_until(|world| outcome(world).is_some()), "it ends");
    let (_, repaired, unrepaired) = outcome(&world).expect("it is over");
    assert!(repaired > 5 && unrepaired == 0, "{repaired} rows, {unrepaired} not");
    let mut world = open(&config(DeviceSet::single(2)), world.cut(), 3);
    all_reads(&mut world);
    world.stop();
}

#[test]
fn a_scrub_resumed_after_a_power_cut_is_complete() {
    let mut damaged = filled(3);
    damage(&mut damaged, 1);
    let mut places = 0;
    for steps in (0..4000).step_by(400) {
        let mut world = open(&config(DeviceSet::EMPTY), damaged.clone(), 3);
        world.operate(AdminCommand::Scrub(Scrub::Start(0))).unwrap();
        let end = world.steps + steps;
        world.run_until(|world| world.steps >= end);
        let Some(task) = world.layer.tasks().into_iter().next() else { break };
        places += u64::from(task.place > 0);
        let mut world = open(&config(DeviceSet::EMPTY), world.cut(), 3);
        world.operate(AdminCommand::Scrub(Scrub::Start(task.place))).unwrap();
        assert!(world.run_until(|world| outcome(world).is_some()), "it ends");
        let mut world = open(&config(DeviceSet::single(2)), world.cut(), 3);
        all_reads(&mut world);
        world.cut();
    }
    assert!(places > 2, "the scrub was cut behind its beginning {places} times");
}

#[test]
fn a_stopped_scrub_counts_durable_repairs_only() {
    let mut disk = filled(3);
    damage(&mut disk, 1);
    let mut world = open(&config(DeviceSet::EMPTY), disk, 3);
    world.operate(AdminCommand::Scrub(Scrub::Start(0))).unwrap();
    world.run_until(|world| world.layer.counters().gc_runs > 0);
    world.operate(AdminCommand::Scrub(Scrub::Stop)).unwrap();
    assert!(world.run_until(|world| outcome(world).is_some()), "it ends");
    let Some((TaskEnd::Stopped, 0, 1..)) = outcome(&world) else {
        panic!("{:?}", outcome(&world));
    };
    world.cut();
}

#[test]
fn a_loss_after_protection_and_a_power_cut_is_survived() {
    let mut world = open(&config(DeviceSet::EMPTY), filled(4), 4);
    world.operate(AdminCommand::Offline(3)).unwrap();
    assert!(world.run_until(|world| has_task(world, TaskKind::Rebuild)), "it begins");
    assert!(world.run_until(|world| !has_task(world, TaskKind::Rebuild)), "it ends");
    let mut world = open(&config(DeviceSet::from_iter([2, 3])), world.cut(), 4);
    all_reads(&mut world);
    world.cut();
}

#[test]
fn a_loss_after_a_rebuild_and_a_power_cut_is_survived() {
    let mut disk = filled(3);
    disk[DEVICE * SECTOR..2 * DEVICE * SECTOR].fill(0);
    let mut fresh = config(DeviceSet::EMPTY);
    fresh.members.fresh = DeviceSet::single(1);
    let mut world = World::start_array_until_ready(&fresh, disk, 3, Mode::Open, 2);
    world.cache = Some(Cache::default());
    assert!(world.run_until(|world| !has_task(world, TaskKind::Resilver)), "it ends");
    let mut world = open(&config(DeviceSet::single(2)), world.cut(), 3);
    all_reads(&mut world);
    world.cut();
}

#[test]
fn a_removal_survives_a_power_cut_after_evacuation() {
    let mut world = open(&config(DeviceSet::EMPTY), filled(4), 4);
    world.operate(AdminCommand::Remove(3)).unwrap();
    assert!(world.run_until(|world| !has_task(world, TaskKind::Evacuate)), "it ends");
    let mut without = config(DeviceSet::from_iter([2, 3]));
    without.members.removed = DeviceSet::single(3);
    let mut world = open(&without, world.cut(), 4);
    all_reads(&mut world);
    world.cut();
}
