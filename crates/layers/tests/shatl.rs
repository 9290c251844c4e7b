//! `shatl` over a memory device: bytes come back, over moves home, stops and cuts, in all modes.

mod common;

use common::World;
use common::churn::{Random, churn, ready, verify};
use hostftl_core::{Event, Layer, SECTOR};
use hostftl_layers::{LayerConfig, Mode};

fn config(superpage: u32, mode: &str) -> LayerConfig {
    let text = format!("{mode}:superpage={}", superpage as usize * SECTOR);
    LayerConfig { uuid: [7; 16], ..LayerConfig::parse(&text).expect("a layer") }
}

const MODES: [&str; 3] = ["shatl", "shatl:mode=ressd:threshold=10k", "hatl-auto"];

#[test]
fn what_is_written_comes_back() {
    for (superpage, layer) in
        [(16, MODES[0]), (32, MODES[1]), (128, MODES[0]), (16, MODES[2]), (64, MODES[2])]
    {
        let disk = vec![0; 300 * superpage as usize * SECTOR];
        let mut world = World::start(&config(superpage, layer), disk, Mode::Format, 1);
        assert!(ready(&world));
        let mut versions = vec![0; world.layer.limits().exported as usize];
        churn(&mut world, &mut versions, &mut Random(superpage.into()), 6000, 37);
        world.layer.check().unwrap();
        assert!(world.layer.counters().gc_runs > 0, "the hidden area turned over");
        verify(&mut world, &versions);
        world.stop();
    }
}

#[test]
fn a_clean_stop_needs_no_replay() {
    for layer in MODES {
        let disk = vec![0; 300 * 32 * SECTOR];
        let mut world = World::start(&config(32, layer), disk, Mode::Format, 2);
        let mut versions = vec![0; world.layer.limits().exported as usize];
        churn(&mut world, &mut versions, &mut Random(5), 2000, 50);
        let disk = world.stop();
        let mut world = World::start(&config(32, layer), disk, Mode::Open, 3);
        assert_eq!(world.events.last(), Some(&Event::Ready { replayed: 0, dropped: 0 }));
        verify(&mut world, &versions);
        world.layer.check().unwrap();
        world.stop();
    }
}

#[test]
fn a_flush_survives_a_cut() {
    for layer in MODES {
        let mut disk = vec![0; 300 * 16 * SECTOR];
        let mut mode = Mode::Format;
        let mut versions = Vec::new();
        let mut random = Random(9);
        for life in 0..40 {
            let mut world = World::start(&config(16, layer), disk, mode, life);
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
}

/// What was moved home frees superpages only after a flush, though no host asks for one.
#[test]
fn a_host_that_never_flushes_is_always_answered() {
    let ressd = "shatl:mode=ressd:threshold=18k";
    for seed in 4..6 {
        let mut disk = vec![0; 286 * 64 * SECTOR];
        let mut mode = Mode::Format;
        let mut random = Random(seed);
        for life in 0..6 {
            let mut world = World::start(&config(64, ressd), disk, mode, life);
            assert!(ready(&world), "life {life}: {:?}", world.events);
            let space = world.layer.limits().exported - 8;
            for _ in 0..2000 {
                let id = world.write(random.below(space), vec![1; 8 * SECTOR], false);
                world.wait(id).unwrap();
            }
            disk = world.cut();
            mode = Mode::Open;
        }
    }
}

/// The hidden area holds a sector once; a write of a superpage replaces what it holds of it.
#[test]
fn a_long_write_goes_home_and_kills_the_hidden_copies() {
    let disk = vec![0; 300 * 32 * SECTOR];
    let mut world = World::start(&config(32, "shatl"), disk, Mode::Format, 4);
    let mut write = |lba: u64, sectors: usize, byte: u8| {
        let id = world.write(lba, vec![byte; sectors * SECTOR], false);
        world.wait(id).unwrap();
        world.layer.check().unwrap();
    };
    write(40, 8, 1);
    write(44, 8, 2);
    write(35, 32, 3);
    write(50, 1, 4);
    world.flush();
    let mut expected = vec![3; 32 * SECTOR];
    expected[15 * SECTOR..16 * SECTOR].fill(4);
    assert!(world.read(35, 32).unwrap() == expected);
    let disk = world.cut();
    let mut world = World::start(&config(32, "shatl"), disk, Mode::Open, 5);
    assert!(world.read(35, 32).unwrap() == expected);
    world.stop();
}
