//! Thin provisioning of `log`.

use crate::common::World;
use crate::common::churn::{data, ready};
use hostftl_core::{Codec, HostError, HostOp, Layer, SECTOR};
use hostftl_layers::{LayerConfig, LayerKind, Mode};

const CHUNK: usize = 64;
const DEVICE: usize = 1000 * CHUNK;
/// Sectors of a write.
const PART: u64 = 64;
/// Exported sectors: four times the size of the device.
const EXPORTED: u64 = 4 * DEVICE as u64;

fn config() -> LayerConfig {
    let new = LayerConfig::new(LayerKind::Log);
    let mut config = LayerConfig { superpage: CHUNK as u32, ..new };
    config.log.compress = Codec::Raw;
    config.log.logical_size = Some(EXPORTED * SECTOR as u64);
    config
}

/// Writes incompressible data from a part on until there is no space. Returns the number of parts
/// written.
fn fill(world: &mut World, from: u64, version: u64) -> u64 {
    (0..)
        .find(|part| {
            let at = (from + part) * PART;
            let id = world.write(at, data(at, PART, version), false);
            match world.wait(id) {
                Ok(()) => false,
                Err(error) => {
                    assert_eq!(error, HostError::NoSpace);
                    true
                }
            }
        })
        .expect("it is full some time")
}

fn trim(world: &mut World, from: u64, parts: u64) {
    let id = world.send(from * PART, parts * PART, |_| HostOp::Trim { fua: true });
    world.wait(id).expect("a trim always has room");
}

#[test]
fn writes_are_refused_before_the_reserve_and_a_full_volume_reads_trims_and_opens() {
    let disk = vec![0; DEVICE * SECTOR];
    let mut world = World::start(&config(), disk, Mode::Format, 1);
    assert_eq!(world.layer.limits().exported, EXPORTED);
    let parts = fill(&mut world, 0, 1);
    let share = parts * PART * 100 / DEVICE as u64;
    assert!((20..95).contains(&share), "{share} % of the device was filled");
    for round in 2..6 {
        // A full volume stays full: its data remains readable, and trims free space.
        assert_eq!(fill(&mut world, parts + 1, round), 0, "it was full");
        let gauges = world.layer.gauges().unwrap();
        assert!(gauges.valid <= gauges.valid_limit, "{gauges:?}");
        let mut again = World::start(&config(), world.cut_flushed(), Mode::Open, round);
        assert!(ready(&again), "{:?}", again.events);
        assert!(again.read(0, PART).unwrap() == data(0, PART, round - 1), "round {round}");
        trim(&mut again, 0, parts);
        assert!(fill(&mut again, 0, round) + 2 >= parts, "a trim gives all of it back");
        world = again;
    }
    world.stop();
}
