//! Recoveries of `log` that are cut off, over devices on which something is wrong.

use hostftl_core::{BLOCK, Codec, Command, SECTOR};
use hostftl_layers::{LayerConfig, LayerKind, Mode};

use crate::common::World;
use crate::common::churn::ready;

const CHUNK: usize = 64;
/// Sectors of a device, of which there are three.
const DEVICE: usize = 600 * CHUNK;

/// A row that is durable, of which no root tells; its head rots. What the first recovery gives the
/// row back must not be made of the wrong head: the second one could not find the row any more.
#[test]
fn a_head_that_rotted_is_made_again_after_a_recovery_that_was_cut_off() {
    let mut config = LayerConfig { superpage: CHUNK as u32, ..LayerConfig::new(LayerKind::Log) };
    (config.log.parity, config.log.compress) = (1, Codec::Raw);
    let disk = vec![0; 3 * DEVICE * SECTOR];
    let mut world = World::start_array(&config, disk, 3, Mode::Format, 1);
    let before = world.disk.clone();
    // No zeros, so that parity does not look like a head.
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
    assert!(world.complete_newest(|_, command| mends(command)), "the row gets what it lacks");
    assert!(!ready(&world));
    let mut world = World::start_array(&config, world.cut(), 3, Mode::Open, 3);
    assert!(ready(&world), "{:?}", world.events);
    assert!(world.read(0, 80) == Ok(written), "what was flushed is there");
    world.stop();
}
