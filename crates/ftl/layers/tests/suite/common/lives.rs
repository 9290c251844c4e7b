//! Tests of every layer that gathers small writes: data survives GC, stops and cuts.

use hostftl_core::{Event, Layer, SECTOR};
use hostftl_layers::{LayerConfig, Mode};

use super::World;
use super::churn::{Random, churn, ready, verify};

/// Returns a blank disk of 300 superpages.
fn disk(config: &LayerConfig) -> Vec<u8> {
    vec![0; 300 * config.superpage as usize * SECTOR]
}

/// Checks that written data is read back while GC rewrites the volume.
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

/// Checks that nothing is replayed after a clean stop.
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

/// Checks that flushed data survives each of 40 cuts.
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
