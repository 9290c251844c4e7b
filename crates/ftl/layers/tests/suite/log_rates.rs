//! `log` with `separation=rate`: a workload with hot blocks, over starts and cuts.

use hostftl_core::{DeviceInfo, Layer, SECTOR};
use hostftl_layers::policy::{GcPolicy, Separation};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};

use crate::common::World;
use crate::common::churn::{Random, churn, data, verify};

/// Returns a configuration with enough over-provisioning for an open segment of each class.
fn config(separation: Separation) -> LayerConfig {
    let log = LayerConfig::new(LayerKind::Log);
    let mut config = LayerConfig { superpage: 32, spare_permille: 600, ..log };
    (config.log.separation, config.log.gc) = (separation, GcPolicy::DecliningCost);
    config
}

fn blank() -> Vec<u8> {
    vec![0; 600 * 32 * SECTOR]
}

/// Writes random blocks, most of them in the first tenth of the volume, and records their versions.
fn skewed(world: &mut World, versions: &mut [u64], random: &mut Random, writes: u64) {
    let blocks = versions.len() as u64 / 8;
    for version in 1..=writes {
        let span = if random.below(10) < 9 { blocks / 10 } else { blocks };
        let lba = random.below(span) * 8;
        let id = world.write(lba, data(lba, 8, version), false);
        world.wait(id).unwrap();
        versions[lba as usize..lba as usize + 8].fill(version);
    }
}

#[test]
fn steps_do_not_allocate_and_hot_data_is_separated() {
    let copied = [Separation::Two, Separation::Rate].map(|separation| {
        let mut world = World::start(&config(separation), blank(), Mode::Format, 1);
        let space = world.layer.limits().exported / 8 * 8;
        let (mut versions, mut random) = (vec![0; space as usize], Random(5));
        skewed(&mut world, &mut versions, &mut random, 6 * space / 8);
        verify(&mut world, &versions);
        world.layer.check().unwrap();
        assert_eq!(world.allocations, 0, "{separation} allocated in a step");
        let copied = world.layer.counters().gc_copied;
        world.stop();
        copied
    });
    assert!(copied[1] < copied[0], "separated data is copied less: {copied:?}");
}

#[test]
fn no_data_is_lost_over_starts_and_power_cuts() {
    let config = config(Separation::Rate);
    let mut world = World::start(&config, blank(), Mode::Format, 1);
    let space = world.layer.limits().exported as usize * 3 / 4 / 8 * 8;
    let (mut versions, mut random) = (vec![0; space], Random(3));
    for life in 0..4 {
        churn(&mut world, &mut versions, &mut random, 1500, 37);
        skewed(&mut world, &mut versions, &mut random, 3000);
        assert!(world.layer.counters().gc_runs > 0, "the volume turned over");
        let disk = if life % 2 == 0 { world.cut_flushed() } else { world.stop() };
        world = World::start(&config, disk, Mode::Open, life + 2);
        verify(&mut world, &versions);
        world.layer.check().unwrap();
    }
    world.stop();
}

#[test]
fn the_plan_includes_a_byte_per_block_with_classes() {
    let plan = |separation, spare_permille| {
        let config = LayerConfig { spare_permille, ..config(separation) };
        AnyLayer::plan(&config, &[DeviceInfo::block(1 << 21, 32)]).expect("a plan")
    };
    let more = |spare| {
        let rate = plan(Separation::Rate, spare);
        (rate.map_bytes - plan(Separation::Lifetime, spare).map_bytes, rate.limits.exported / 8)
    };
    let (bytes, blocks) = more(600);
    assert_eq!(bytes, blocks);
    assert_eq!(more(10).0, 0, "with little spare it works as two");
}
