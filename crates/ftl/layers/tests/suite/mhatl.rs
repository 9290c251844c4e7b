//! `mhatl` over a memory device: data survives gathering, stops and cuts, in both modes.

use crate::common::World;
use crate::common::churn::Random;
use crate::common::lives::{comes_back, stops_cleanly, survives_cuts};
use hostftl_core::{Layer, SECTOR};
use hostftl_layers::{Gather, LayerConfig, LayerKind, Mode};

fn config(superpage: u32, gather: Gather) -> LayerConfig {
    let mut config = LayerConfig { superpage, uuid: [7; 16], ..LayerConfig::new(LayerKind::Mhatl) };
    (config.mhatl.gather, config.mhatl.leaves) = (gather, 200);
    config
}

const MODES: [Gather; 2] = [Gather::Lsp, Gather::Vsp];

fn gauge(world: &World, name: &str) -> u64 {
    let gauges = world.layer.facts();
    gauges.into_iter().find(|(key, _)| *key == name).expect("a gauge").1
}

#[test]
fn written_data_reads_back() {
    for (superpage, gather) in [(16, MODES[0]), (32, MODES[1]), (128, MODES[0])] {
        comes_back(&config(superpage, gather));
    }
}

#[test]
fn a_clean_stop_needs_no_replay() {
    for gather in MODES {
        stops_cleanly(&config(32, gather));
    }
}

#[test]
fn a_flush_survives_a_cut() {
    for gather in MODES {
        survives_cuts(&config(16, gather));
    }
}

/// Figures of the specification: 1 leaf, 5 after a small write, 128 in the worst case.
#[test]
fn a_small_write_splits_a_superpage_into_five_leaves() {
    let mut config = config(128, Gather::Lsp);
    config.mhatl.leaves = 10_000;
    let disk = vec![0; 300 * 128 * SECTOR];
    let mut world = World::start(&config, disk, Mode::Format, 4);
    let write = |world: &mut World, lba: u64, sectors: usize| {
        let id = world.write(lba, vec![5; sectors * SECTOR], false);
        world.wait(id).unwrap();
        world.layer.check().unwrap();
    };
    write(&mut world, 256, 128);
    assert_eq!(gauge(&world, "leaves"), 1);
    write(&mut world, 256 + 40, 8);
    assert_eq!(gauge(&world, "leaves"), 1 + 4);
    for i in 0..128 {
        write(&mut world, 256 + i * 37 % 128, 1);
    }
    assert_eq!(gauge(&world, "leaves"), 128);
    write(&mut world, 256, 128);
    assert_eq!((gauge(&world, "leaves"), gauge(&world, "touched_superpages")), (1, 1));
    world.stop();
}

/// Scattered small writes need more leaves than the cap. They are gathered to one leaf for each
/// superpage, and the volume continues even if these exceed the cap.
#[test]
fn the_cap_is_a_target_and_never_an_error() {
    for (leaves, exceeded) in [(500, false), (100, true)] {
        let mut config = config(32, Gather::Lsp);
        config.mhatl.leaves = leaves;
        let disk = vec![0; 400 * 32 * SECTOR];
        let mut world = World::start(&config, disk, Mode::Format, 6);
        let mut random = Random(11);
        for _ in 0..6000 {
            let id = world.write(random.below(200) * 32 + random.below(32), vec![1; SECTOR], false);
            world.wait(id).unwrap();
        }
        world.layer.check().unwrap();
        assert_eq!(gauge(&world, "touched_superpages"), 200);
        let count = gauge(&world, "leaves");
        assert!(count <= u64::from(leaves.max(200)) * 106 / 100, "{count} of {leaves}");
        assert_eq!(gauge(&world, "cap_is_tight"), u64::from(exceeded));
        assert!(gauge(&world, "cap_exceeded") == 1 || !exceeded);
        world.stop();
    }
}

/// Gathering uses superpages down to its limit and then waits for GC. If it requested those in
/// limbo, the stage of GC would be closed after each victim, and GC would free no more superpages
/// than it uses.
#[test]
fn collection_gains_while_gathering_waits() {
    let mut config = config(16, Gather::Vsp);
    config.mhatl.leaves = 1024;
    let mut world = World::start(&config, vec![0; 8192 * SECTOR], Mode::Format, 4);
    let space = world.layer.limits().exported;
    let mut write = |lba: u64, sectors: u64| {
        let id = world.write(lba, vec![1; sectors as usize * SECTOR], false);
        let begun = world.steps;
        loop {
            world.settle_but(|_, _| true);
            if world.answer(id).is_some() {
                return;
            }
            assert!(world.steps - begun < 100_000, "much moves, but no write is answered");
            world.complete_newest(|_, _| true);
        }
    };
    (0..space / 16).for_each(|lsp| write(lsp * 16, 16));
    let mut random = Random(1);
    for _ in 0..4000 {
        let sectors = 1 + random.below(8);
        write(random.below(space - sectors), sectors);
    }
    world.layer.check().unwrap();
    world.stop();
}
