//! A device is added to a full `log`.

use crate::common::World;
use crate::common::churn::data;
use hostftl_core::{AdminCommand, Codec, Command, DeviceSet, Layer, SECTOR, TaskKind, Token};
use hostftl_layers::{LayerConfig, LayerKind, Members, Mode};

pub(crate) const CHUNK: usize = 64;
pub(crate) const DEVICE: usize = 300 * CHUNK;
/// Sectors of a write.
pub(crate) const PART: u64 = 64;
const SEEDS: u64 = 4;

pub(crate) fn config() -> LayerConfig {
    let new = LayerConfig::new(LayerKind::Log);
    let mut config = LayerConfig { superpage: CHUNK as u32, ..new };
    config.log.parity = 1;
    config.log.compress = Codec::Raw;
    config
}

#[test]
fn a_growing_full_volume_refuses_no_writes() {
    let mut world = World::start_array(&config(), vec![0; 3 * DEVICE * SECTOR], 3, Mode::Format, 1);
    let before = world.layer.limits().exported;
    for at in (0..before).step_by(PART as usize) {
        let id = world.write(at, data(at, PART.min(before - at), 1), false);
        world.wait(id).unwrap();
    }
    let full = world.stop();
    for seed in 0..SEEDS {
        let mut disk = full.clone();
        disk.resize(4 * DEVICE * SECTOR, 0);
        let more = DeviceSet::single(3);
        let members = Members { born: 3, missing: more, fresh: more, ..Members::default() };
        let config = LayerConfig { members, ..config() };
        let mut world = World::start_array_until_ready(&config, disk, 4, Mode::Open, seed);
        let after = world.layer.limits().exported;
        assert!(after > before * 5 / 4, "{before} to {after}");
        // The root that records the device is delayed until the old devices are full.
        let on_it = |_: Token, command: &Command| command.device() == Some(3);
        let mut ids = Vec::new();
        for at in (before.next_multiple_of(PART)..after - PART).step_by(PART as usize) {
            ids.push(world.write(at, data(at, PART, 2), false));
            world.settle_but(on_it);
        }
        ids.into_iter().for_each(|id| assert_eq!(world.wait(id), Ok(()), "seed {seed}"));
        world.cut();
    }
}

/// The root in progress cannot list the missing chunks of the device, because its images were
/// started before the device joined.
#[test]
fn a_device_added_during_a_root_joins_without_further_writes() {
    for seed in 0..SEEDS {
        let disk = vec![0; 3 * DEVICE * SECTOR];
        let mut world = World::start_array(&config(), disk, 3, Mode::Format, seed);
        let id = world.write(0, data(0, PART, 1), false);
        world.wait(id).unwrap();
        world.operate(AdminCommand::Offline(2)).expect("the volume can lose a device");
        world.settle();
        world.operate(AdminCommand::Settle).expect("a root can be written at any time");
        // The flush at the end of the root is held back.
        let is_flush = |_: Token, command: &Command| matches!(command, Command::Flush { .. });
        world.settle_but(is_flush);
        assert!(world.count(is_flush) > 0, "the root is not durable yet");
        world
            .operate(AdminCommand::Replaced { device: 2, discard: false })
            .expect("it is known as lost");
        world.settle();
        let tasks = world.layer.tasks();
        assert!(tasks.iter().all(|task| task.kind != TaskKind::Resilver), "seed {seed}: {tasks:?}");
        world.stop();
    }
}
