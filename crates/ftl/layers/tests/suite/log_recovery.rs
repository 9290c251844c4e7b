//! Interrupted recoveries of `log` over damaged devices.

use hostftl_core::{BLOCK, Codec, Command, SECTOR};
use hostftl_layers::{LayerConfig, LayerKind, Mode};

use crate::common::World;
use crate::common::churn::ready;

const CHUNK: usize = 64;
/// Sectors of each of the three devices.
const DEVICE: usize = 600 * CHUNK;

/// A durable stripe that no root names has a damaged head. The first recovery must not rebuild the
/// stripe from the damaged head, or the second one could not find it any more.
#[test]
fn a_corrupt_head_is_repaired_after_an_interrupted_recovery() {
    let mut config = LayerConfig { superpage: CHUNK as u32, ..LayerConfig::new(LayerKind::Log) };
    (config.log.parity, config.log.compress) = (1, Codec::Raw);
    let disk = vec![0; 3 * DEVICE * SECTOR];
    let mut world = World::start_array(&config, disk, 3, Mode::Format, 1);
    let before = world.disk.clone();
    // The data is not zero, so that parity does not resemble a head.
    let written = vec![0x5a; 80 * SECTOR];
    let id = world.write(0, written.clone(), false);
    world.wait(id).unwrap();
    let mut disk = world.cut_flushed();
    let heads = (0..disk.len()).step_by(BLOCK).filter(|at| disk[at + 4..at + 8] == *b"LROW");
    let new: Vec<usize> =
        heads.filter(|at| disk[*at..at + BLOCK] != before[*at..at + BLOCK]).collect();
    let [head] = new[..] else { panic!("one row was written: heads at {new:?}") };
    disk[head + 100] ^= 1;
    let row = (head / SECTOR % DEVICE) as u64;
    let mends = |command: &Command| matches!(command, Command::Program { lba, .. } if *lba == row);
    let mut world = World::wake_array(&config, disk, 3, 2);
    world.settle_but(|_, command| mends(command));
    assert!(
        world.complete_newest(|_, command| mends(command)),
        "the stripe gets its missing chunk"
    );
    assert!(!ready(&world));
    let mut world = World::start_array(&config, world.cut(), 3, Mode::Open, 3);
    assert!(ready(&world), "{:?}", world.events);
    assert!(world.read(0, 80) == Ok(written), "flushed data is present");
    world.stop();
}
