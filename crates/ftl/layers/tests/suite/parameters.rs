//! Parameters that have no effect in studies have one in volumes. `parameters.rs` of the crate
//! `hostftl-sim` covers the others.

use hostftl_core::{AdminCommand, AdminOutcome, DeviceInfo, DeviceSet, Event, Layer, Scrub};
use hostftl_layers::{Effect, LayerConfig, LayerKind, Mode, StudyUsage, Usage};

use crate::common::World;
use crate::common::churn::data;
use crate::log_scrub::{PART, PARTS, config, filled, harm};

/// A parameter, two values, and a figure of a volume with a value.
type Case = (LayerKind, &'static str, [&'static str; 2], fn(&LayerConfig) -> u64);

const CASES: &[Case] = &[
    (LayerKind::Log, "rebuild-share", ["1", "100"], scrub_time),
    (LayerKind::Log, "fault-after", ["2", "0"], faulted),
];

/// Time of a command or a write in ns.
const STEP_NS: u64 = 10_000;

/// Starts a scrub of a volume with data.
fn scrubbed(config: &LayerConfig, disk: Vec<u8>) -> World {
    let mut world = World::start_array(config, disk, 3, Mode::Open, 2);
    let started = world.operate(AdminCommand::Scrub(Scrub::Start(0)));
    assert_eq!(started, Ok(AdminOutcome::Started));
    world
}

/// Returns the number of host writes during a scrub.
fn scrub_time(config: &LayerConfig) -> u64 {
    let mut world = scrubbed(config, filled());
    // The rate is measured before the host writes.
    while world.layer.tasks().first().is_some_and(|task| task.place < 4) {
        world.elapsed += STEP_NS;
        world.complete_one();
    }
    let mut writes = 0;
    while !world.layer.tasks().is_empty() && writes < 5000 {
        world.elapsed += STEP_NS;
        let lba = writes % PARTS * PART;
        let id = world.write(lba, data(lba, PART, 1), false);
        world.wait(id).unwrap();
        writes += 1;
    }
    world.cut();
    writes
}

/// Returns the number of devices that are excluded because of their faults.
fn faulted(config: &LayerConfig) -> u64 {
    let mut disk = filled();
    harm(&mut disk, 1);
    let mut world = scrubbed(config, disk);
    world.settle();
    let is_fault = |event: &&Event| matches!(event, Event::Failing { is_lost: true, .. });
    let count = world.events.iter().filter(is_fault).count() as u64;
    world.cut();
    count
}

#[test]
fn parameters_without_effect_in_studies_have_one_in_volumes() {
    let devices = [DeviceInfo::block(1 << 21, 8), DeviceInfo::block(1 << 21, 8)];
    let study = StudyUsage { exported: None, is_incompressible: false };
    for kind in LayerKind::ALL {
        let mut config = LayerConfig::new(*kind);
        config.log.parity = 1;
        for parameter in kind.registration().parameters {
            let effect = |study| {
                let usage = Usage { devices: &devices, study };
                (kind.registration().effect)(&config, parameter.key, &usage)
            };
            let is_case = CASES.iter().any(|(it, key, ..)| it == kind && *key == parameter.key);
            let only_volumes = effect(None) == Effect::Full && effect(Some(study)) != Effect::Full;
            assert_eq!(is_case, only_volumes, "{kind}: {}", parameter.key);
        }
    }
    for (kind, key, values, figure) in CASES {
        let of = |value: &str| {
            let mut config = config(DeviceSet::EMPTY);
            assert_eq!(config.kind, *kind);
            config.set(key, value).unwrap();
            figure(&config)
        };
        let [one, other] = values.map(of);
        println!("{kind}: {key}: {one} and {other}");
        assert_ne!(one, other, "{kind}: {key}={}", values.join(" and "));
    }
}
