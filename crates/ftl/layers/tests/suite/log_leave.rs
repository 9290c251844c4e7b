//! Removal of a device from `log`.

use crate::common::World;
use crate::common::churn::data;
use crate::log_grow::{CHUNK, DEVICE, PART, config};
use hostftl_core::{
    AdminCommand, Command, DeviceInfo, DeviceSet, HostOp, Layer, Refusal, SECTOR, Task, TaskKind,
    Token,
};
use hostftl_layers::{AnyLayer, Mode};

fn evacuation(world: &World) -> Option<Task> {
    world.layer.tasks().iter().find(|task| task.kind == TaskKind::Evacuate).copied()
}

#[test]
fn a_removal_waits_until_valid_data_fits_elsewhere() {
    let mut world = World::start_array(&config(), vec![0; 4 * DEVICE * SECTOR], 4, Mode::Format, 1);
    let all = world.layer.limits().exported / PART * PART;
    let first = all * 2 / 5 / PART * PART;
    for at in (0..first).step_by(PART as usize) {
        let id = world.write(at, data(at, PART, 1), false);
        world.wait(id).expect("four devices have room");
    }
    world.flush();
    world.operate(AdminCommand::Remove(3)).expect("two fifths fit on three devices");
    // No data moves before the remainder is written.
    let of_it = |_: Token, command: &Command| command.device() == Some(3);
    let mut ids = Vec::new();
    for at in (first..all).step_by(PART as usize) {
        ids.push(world.write(at, data(at, PART, 1), false));
        world.settle_but(of_it);
    }
    ids.into_iter().for_each(|id| assert_eq!(world.wait(id), Ok(())));
    world.settle();
    let task = evacuation(&world).expect("the device is to leave");
    assert!(task.lacks_room && task.left > 0, "{task:?}");
    let left = task.left;
    world.settle();
    assert_eq!(evacuation(&world).map(|it| (it.lacks_room, it.left)), Some((true, left)));
    let id = world.send(all / 4, all * 3 / 4, |_| HostOp::Trim { fua: true });
    world.wait(id).expect("a trim always has room");
    world.settle();
    // Moves are paced for a while after a host request.
    while evacuation(&world).is_some_and(|task| !task.lacks_room) {
        world.wait_for_timer();
        world.settle();
    }
    assert_eq!(evacuation(&world), None, "it has left");
    let kept = world.read(0, all / 4).expect("it is there");
    assert!(kept == data(0, all / 4, 1));
    world.stop();
}

#[test]
fn the_last_device_is_not_removed() {
    let config = config();
    let fits = |size: &usize| {
        let device = DeviceInfo::block(*size as u64, 8);
        AnyLayer::plan(&config, &vec![device; 3]).is_ok()
    };
    let least = (1..300).map(|chunks| chunks * CHUNK).find(fits).expect("some size fits");
    let mut world = World::start_array(&config, vec![0; 3 * least * SECTOR], 3, Mode::Format, 1);
    let why = world.operate(AdminCommand::Remove(2));
    let refused = "the remaining devices are too small";
    assert_eq!(why, Err(Refusal::Because(refused)));
    world.stop();
}

#[test]
fn an_empty_lost_device_is_removed_without_further_writes() {
    let mut world = World::start_array(&config(), vec![0; 4 * DEVICE * SECTOR], 4, Mode::Format, 1);
    let id = world.write(0, data(0, PART, 1), true);
    world.wait(id).unwrap();
    world.operate(AdminCommand::Offline(2)).expect("the volume can lose a device");
    while world.layer.members().rebuilt().is_empty() {
        world.settle();
        world.wait_for_timer();
    }
    world.settle();
    world.operate(AdminCommand::Remove(2)).expect("it is empty");
    world.settle();
    assert_eq!(world.layer.members().removed(), DeviceSet::single(2));
    assert_eq!(evacuation(&world), None);
    world.stop();
}
