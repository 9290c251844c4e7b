//! `hard` over a memory device: bytes come back, over collection, stops and cuts.

mod common;

use common::World;
use hostftl_core::{Event, HostOp, Layer, SECTOR};
use hostftl_layers::{LayerConfig, LayerKind, Mode};

fn config(superpage: u32) -> LayerConfig {
    LayerConfig { superpage, uuid: [7; 16], ..LayerConfig::new(LayerKind::Hard) }
}

/// Content that names its sector and version.
fn sector(lba: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR];
    bytes[..8].copy_from_slice(&lba.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    bytes[SECTOR - 8..].copy_from_slice(&(lba ^ version).to_le_bytes());
    bytes
}

fn data(lba: u64, sectors: u64, version: u64) -> Vec<u8> {
    (lba..lba + sectors).flat_map(|lba| sector(lba, version)).collect()
}

fn ready(world: &World) -> bool {
    world.events.iter().any(|event| matches!(event, Event::Ready { .. }))
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % below
    }
}

/// Overwrites at random `times` over, checks every sector, and returns the versions.
fn churn(world: &mut World, versions: &mut [u64], random: &mut Random, writes: u64, flush: u64) {
    let space = versions.len() as u64;
    let mut ids = Vec::new();
    for i in 0..writes {
        let sectors = 1 + random.below(24);
        let lba = random.below(space - sectors);
        let version = 1_000_000 + random.0 % 1_000_000_000;
        if random.below(20) == 0 {
            let id = world.send(lba, sectors, |_| HostOp::Trim { fua: false });
            world.wait(id).unwrap();
            versions[lba as usize..(lba + sectors) as usize].fill(0);
        } else {
            let id = world.write(lba, data(lba, sectors, version), random.below(50) == 0);
            versions[lba as usize..(lba + sectors) as usize].fill(version);
            world.wait(id).unwrap();
            ids.push(id);
        }
        if i % flush == 0 {
            world.flush();
        }
    }
}

fn verify(world: &mut World, versions: &[u64]) {
    for (chunk, list) in versions.chunks(16).enumerate() {
        let lba = chunk as u64 * 16;
        let found = world.read(lba, list.len() as u64).unwrap();
        for (i, version) in list.iter().enumerate() {
            let expected = match version {
                0 => vec![0; SECTOR],
                _ => sector(lba + i as u64, *version),
            };
            let found = &found[i * SECTOR..(i + 1) * SECTOR];
            assert!(found == expected, "sector {} is not version {version}", lba + i as u64);
        }
    }
}

/// What the layer says to be mapped is what was written and not trimmed since.
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
fn what_is_written_comes_back() {
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
