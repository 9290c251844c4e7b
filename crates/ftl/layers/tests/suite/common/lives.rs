//! What every layer that gathers small writes must hold: bytes come back, over collection, stops
//! and cuts.

use hostftl_core::{Event, Layer, SECTOR};
use hostftl_layers::{LayerConfig, Mode};

use super::World;
use super::churn::{Random, churn, ready, verify};

/// A disk of 300 superpages.
fn disk(config: &LayerConfig) -> Vec<u8> {
    vec![0; 300 * config.superpage as usize * SECTOR]
}

/// What is written comes back while the volume turns over.
pub(crate) fn comes_back(config: &LayerConfig) {
    let mut world = World::start(config, disk(config), Mode::Format, 1);
    assert!(ready(&world));
    let mut versions = vec![0; world.layer.limits().exported as usize];
    churn(&mut world, &mut versions, &mut Random(config.superpage.into()), 6000, 37);
    world.layer.check().unwrap();
    assert!(world.layer.counters().gc_runs > 0, "it was collected");
    verify(&mut world, &versions);
    world.stop();
}

/// After a clean stop nothing is replayed.
pub(crate) fn stops_cleanly(config: &LayerConfig) {
    let mut world = World::start(config, disk(config), Mode::Format, 2);
    let mut versions = vec![0; world.layer.limits().exported as usize];
    churn(&mut world, &mut versions, &mut Random(5), 2000, 50);
    let disk = world.stop();
    let mut world = World::start(config, disk, Mode::Open, 3);
    assert!(world.events.contains(&Event::Ready { replayed: 0, dropped: 0 }));
    verify(&mut world, &versions);
    world.layer.check().unwrap();
    world.stop();
}

/// What was flushed is there after each of 40 cuts.
pub(crate) fn survives_cuts(config: &LayerConfig) {
    let mut disk = disk(config);
    let mut mode = Mode::Format;
    let mut versions = Vec::new();
    let mut random = Random(9);
    for life in 0..40 {
        let mut world = World::start(config, disk, mode, life);
        assert!(ready(&world), "life {life}: {:?}", world.events);
        versions.resize(world.layer.limits().exported as usize, 0);
        verify(&mut world, &versions);
        churn(&mut world, &mut versions, &mut random, 300, 25);
        world.flush();
        world.layer.check().unwrap();
        disk = world.cut();
        mode = Mode::Open;
    }
}
