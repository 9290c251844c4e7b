//! Scrubs of `log`: all valid data is verified, and damaged data is rewritten.

use crate::common::World;
use crate::common::churn::{data, ready};
use hostftl_core::{
    AdminCommand, AdminOutcome, Codec, DeviceSet, Event, Layer, Refusal, SECTOR, Scrub, Setting,
    TaskEnd, TaskKind,
};
use hostftl_layers::{LayerConfig, LayerKind, Mode};

pub(crate) const CHUNK: usize = 64;
/// Sectors of each of the three devices.
pub(crate) const DEVICE: usize = 600 * CHUNK;
/// Sectors of a write, and number of writes.
pub(crate) const PART: u64 = 64;
pub(crate) const PARTS: u64 = 150;

pub(crate) fn config(missing: DeviceSet) -> LayerConfig {
    let new = LayerConfig::new(LayerKind::Log);
    let mut config = LayerConfig { superpage: CHUNK as u32, ..new };
    config.members.missing = missing;
    (config.log.parity, config.log.compress) = (1, Codec::Raw);
    config
}

/// Returns a closed volume with data.
pub(crate) fn filled() -> Vec<u8> {
    let disk = vec![0; 3 * DEVICE * SECTOR];
    let mut world = World::start_array(&config(DeviceSet::EMPTY), disk, 3, Mode::Format, 1);
    for part in 0..PARTS {
        let id = world.write(part * PART, data(part * PART, PART, 1), false);
        world.wait(id).unwrap();
    }
    world.stop()
}

fn open(disk: Vec<u8>, missing: DeviceSet) -> World {
    let world = World::start_array(&config(missing), disk, 3, Mode::Open, 2);
    assert!(ready(&world), "{:?}", world.events);
    world
}

fn all_reads(world: &mut World) {
    for part in 0..PARTS {
        let held = world.read(part * PART, PART).expect("it can be read");
        assert!(held == data(part * PART, PART, 1), "part {part}");
    }
}

fn over(world: &World) -> Option<(TaskEnd, u64, u64)> {
    world.events.iter().find_map(|event| match *event {
        Event::Over { task: TaskKind::Scrub, end, beyond, repaired: mended, .. } => {
            Some((end, beyond, mended))
        }
        _ => None,
    })
}

/// Damages one byte in each of many chunks of a device, data and parity alike, except in its roots.
pub(crate) fn harm(disk: &mut [u8], device: usize) {
    let from = (device * DEVICE + 20 * CHUNK) * SECTOR;
    let to = (device + 1) * DEVICE * SECTOR;
    (from..to).step_by(3 * CHUNK * SECTOR + 4096).for_each(|byte| disk[byte] ^= 0x10);
}

#[test]
fn corruption_on_a_device_is_repaired_before_another_loss() {
    let mut disk = filled();
    harm(&mut disk, 1);
    let mut world = open(disk, DeviceSet::EMPTY);
    assert_eq!(world.operate(AdminCommand::Scrub(Scrub::Start(0))), Ok(AdminOutcome::Started));
    world.settle();
    let Some((TaskEnd::Done, 0, mended)) = over(&world) else { panic!("{:?}", world.events) };
    assert!(mended > 5, "{mended} rows were wrong");
    assert!(world.layer.tasks().is_empty());
    world.layer.check().unwrap();
    all_reads(&mut world);
    // Damaged data has left the first device; otherwise the loss of the other device would reveal
    // it.
    let mut world = open(world.stop(), DeviceSet::single(2));
    all_reads(&mut world);
    world.stop();
}

#[test]
fn without_a_scrub_the_same_harm_and_the_same_loss_cost_data() {
    let mut disk = filled();
    harm(&mut disk, 1);
    let mut world = open(disk, DeviceSet::single(2));
    let lost = (0..PARTS).filter(|part| world.read(part * PART, PART).is_err()).count();
    assert!(lost > 0, "the test above shows nothing");
    world.cut();
}

#[test]
fn unrepairable_data_is_reported_and_the_scrub_continues() {
    let mut disk = filled();
    harm(&mut disk, 0);
    harm(&mut disk, 1);
    let mut world = open(disk, DeviceSet::EMPTY);
    world.operate(AdminCommand::Scrub(Scrub::Start(0))).unwrap();
    world.settle();
    let Some((TaskEnd::Done, beyond, _)) = over(&world) else { panic!("{:?}", world.events) };
    let corrupt = world.events.iter().filter(|it| matches!(it, Event::Corrupt { .. })).count();
    assert!(beyond > 0 && corrupt > 0, "{beyond} blocks, {corrupt} ranges");
    world.cut();
}

#[test]
fn a_sound_volume_has_no_findings_and_reports_progress() {
    let mut world = open(filled(), DeviceSet::EMPTY);
    assert_eq!(world.operate(AdminCommand::Scrub(Scrub::Stop)), Ok(AdminOutcome::NoChange));
    assert!(matches!(world.operate(AdminCommand::Scrub(Scrub::Pause)), Err(Refusal::Because(_))));
    world.operate(AdminCommand::Scrub(Scrub::Start(0))).unwrap();
    let task = |world: &World| world.layer.tasks().into_iter().next();
    let all = task(&world).expect("it goes on").left;
    while task(&world).is_some_and(|task| task.place < 8) {
        world.complete_one();
    }
    assert_eq!(world.operate(AdminCommand::Scrub(Scrub::Pause)), Ok(AdminOutcome::Started));
    assert_eq!(world.operate(AdminCommand::Scrub(Scrub::Pause)), Ok(AdminOutcome::NoChange));
    world.settle();
    let rests = task(&world).expect("it rests");
    assert!(rests.is_paused && rests.done > 0 && rests.done + rests.left == all, "{rests:?}");
    // After a restart the scrub continues at its position.
    let mut world = open(world.stop(), DeviceSet::EMPTY);
    world.operate(AdminCommand::Scrub(Scrub::Start(rests.place))).unwrap();
    assert_eq!(task(&world).map(|task| task.place), Some(rests.place));
    world.settle();
    assert_eq!(over(&world), Some((TaskEnd::Done, 0, 0)));
    all_reads(&mut world);
    world.stop();
}

#[test]
fn settings_change_while_the_volume_is_served() {
    let mut world = open(filled(), DeviceSet::EMPTY);
    assert_eq!(
        world.operate(AdminCommand::Set(Setting::RebuildShare(30))),
        Ok(AdminOutcome::NoChange)
    );
    assert_eq!(
        world.operate(AdminCommand::Set(Setting::RebuildShare(5))),
        Ok(AdminOutcome::Started)
    );
    assert!(world.operate(AdminCommand::Set(Setting::RebuildShare(0))).is_err());
    assert!(world.operate(AdminCommand::Set(Setting::Gc(99))).is_err());
    for (round, policy) in [1, 2, 258, 0, 3].into_iter().enumerate() {
        assert_eq!(
            world.operate(AdminCommand::Set(Setting::Gc(policy))),
            Ok(AdminOutcome::Started)
        );
        for part in 0..PARTS {
            let at = (part * 7 + round as u64) % PARTS * PART;
            let id = world.write(at, data(at, PART, 1), false);
            world.wait(id).unwrap();
        }
        world.layer.check().unwrap();
    }
    all_reads(&mut world);
    world.stop();
}
