//! `hard` over a memory device: data survives GC, stops and cuts.

use crate::common::World;
use crate::common::churn::{Random, churn, ready, verify};
use hostftl_core::{Event, Layer, SECTOR};
use hostftl_layers::{LayerConfig, LayerKind, Mode};

fn config(superpage: u32) -> LayerConfig {
    LayerConfig { superpage, uuid: [7; 16], ..LayerConfig::new(LayerKind::Hard) }
}

/// Checks that the layer reports exactly the written and untrimmed sectors as mapped.
fn verify_mapped(world: &World, versions: &[u64]) {
    let (mut rest, mut lba) = (versions, 0);
    while !rest.is_empty() {
        let (mapped, run) = world.layer.mapped(lba, rest.len() as u64);
        let (here, after) = rest.split_at(run as usize);
        assert!(here.iter().all(|version| (*version != 0) == mapped), "{lba}+{run}: {mapped}");
        assert!(run > 0);
        (rest, lba) = (after, lba + run);
    }
}

#[test]
fn written_data_reads_back() {
    for superpage in [16, 32, 128] {
        let disk = vec![0; 200 * superpage as usize * SECTOR];
        let mut world = World::start(&config(superpage), disk, Mode::Format, 1);
        assert!(ready(&world));
        let mut versions = vec![0; world.layer.limits().exported as usize];
        let mut random = Random(superpage.into());
        churn(&mut world, &mut versions, &mut random, 4000, 37);
        world.layer.check().unwrap();
        assert!(world.layer.counters().gc_runs > 0, "the volume turned over");
        verify(&mut world, &versions);
        verify_mapped(&world, &versions);
        world.stop();
    }
}

#[test]
fn a_clean_stop_needs_no_replay() {
    let disk = vec![0; 200 * 32 * SECTOR];
    let mut world = World::start(&config(32), disk, Mode::Format, 2);
    let mut versions = vec![0; world.layer.limits().exported as usize];
    churn(&mut world, &mut versions, &mut Random(5), 2000, 50);
    let disk = world.stop();
    let mut world = World::start(&config(32), disk, Mode::Open, 3);
    assert_eq!(world.events.last(), Some(&Event::Ready { replayed: 0, dropped: 0 }));
    verify(&mut world, &versions);
    world.layer.check().unwrap();
    world.stop();
}

/// The images of a group alternate between two adjacent places. When a durable root names the newer
/// one, the other is discarded.
#[test]
fn the_device_holds_one_of_two_map_images() {
    let superpage = 32;
    let disk = vec![0; 200 * superpage * SECTOR];
    let mut world = World::start_discarding(&config(superpage as u32), disk, Mode::Format, 4);
    let mut versions = vec![0; world.layer.limits().exported as usize];
    churn(&mut world, &mut versions, &mut Random(6), 4000, 37);
    let done = |event: &&Event| matches!(event, Event::CheckpointDone);
    assert!(world.events.iter().filter(done).count() > 4, "both places were written");
    let disk = world.stop();
    let superpages: Vec<&[u8]> = disk.chunks(superpage * SECTOR).collect();
    let image = |at: &&[u8]| at[4..8] == *b"HRDM";
    let kept = |pair: &[&[u8]]| pair.iter().filter(|at| image(at)).count();
    let counts: Vec<usize> = superpages.chunks(2).map(kept).collect();
    assert!(counts.contains(&1), "there are images");
    assert!(counts.iter().all(|count| *count < 2), "{counts:?}");
    let mut world = World::start_discarding(&config(superpage as u32), disk, Mode::Open, 5);
    verify(&mut world, &versions);
    world.stop();
}

#[test]
fn a_flush_survives_a_cut() {
    let mut disk = vec![0; 200 * 16 * SECTOR];
    let mut mode = Mode::Format;
    let mut versions = Vec::new();
    let mut random = Random(9);
    for life in 0..40 {
        let mut world = World::start(&config(16), disk, mode, life);
        assert!(ready(&world), "life {life}: {:?}", world.events);
        versions.resize(world.layer.limits().exported as usize, 0);
        verify(&mut world, &versions);
        churn(&mut world, &mut versions, &mut random, 300, 25);
        world.flush();
        for _ in 0..random.below(30) {
            let lba = random.below(versions.len() as u64 - 8);
            let _ = world.read(lba, 8).unwrap();
        }
        world.layer.check().unwrap();
        disk = world.cut();
        mode = Mode::Open;
    }
}
