//! Stripes of `log` whose commands complete at unusual moments.

use crate::common::World;
use crate::common::churn::data;
use hostftl_core::{BLOCK, Codec, Command, HostError, HostOp, Layer, Page, SECTOR, Token};
use hostftl_format::log::{self, Kind};
use hostftl_layers::{LayerConfig, LayerKind, Mode};

/// Sectors of a chunk, and of the blocks behind the head of a stripe.
const CHUNK: usize = 128;
const ROW: u64 = 15 * 8;

fn is_program(_: Token, command: &Command) -> bool {
    matches!(command, Command::Program { .. })
}

/// Writes the data of one stripe, as far as possible without completing a program.
fn fill(world: &mut World, row: u64, held: Option<Token>) {
    world.write(row * ROW, data(row * ROW, ROW, 1), false);
    world.settle_but(|token, command| is_program(token, command) || Some(token) == held);
}

/// Stripes wait for the first one and are then sent one per round. A read that starts meanwhile
/// ends the step after a round that sent a stripe, and the program of that stripe completes before
/// the next round.
#[test]
fn a_program_completed_within_the_round_is_noticed() {
    let config = LayerConfig { superpage: CHUNK as u32, ..LayerConfig::new(LayerKind::Log) };
    let mut world = World::start(&config, vec![0; 400 * CHUNK * SECTOR], Mode::Format, 1);
    let credits = world.layer.credits().requests;
    let mut row = 0;
    while world.layer.credits().requests == credits {
        fill(&mut world, row, None);
        row += 1;
    }
    // All stripes of the host are in flight. Each completed one is reused, starting with the last,
    // so that they are sealed in an order that differs from the order of examination.
    assert!(world.complete_newest(is_program));
    let held = world.newest();
    let mut opened = 1;
    while world.complete_newest(is_program) {
        fill(&mut world, row, Some(held));
        (row, opened) = (row + 1, opened + 1);
    }
    assert!(opened > 24, "only {opened} rows wait for the first");
    let read = world.send(0, 2048, |world| HostOp::Read(world.payload(vec![0; 2048 * SECTOR])));
    assert!(world.complete_newest(|token, _| token == held));
    assert_eq!(world.layer.next_timer(), Some(0), "the step ended before everything was done");
    assert!(world.complete_newest(is_program));
    world.flush();
    world.wait(read).unwrap();
    world.stop();
}

/// An image of the map is temporarily unreadable.
#[test]
fn an_image_of_the_map_is_read_again_for_the_next_request() {
    let config = LayerConfig { superpage: CHUNK as u32, ..LayerConfig::new(LayerKind::Log) };
    let mut world = World::start(&config, vec![0; 400 * CHUNK * SECTOR], Mode::Format, 1);
    world.write(0, data(0, 8, 1), false);
    let sound = world.stop();
    let mut disk = sound.clone();
    let pages = disk.as_chunks_mut::<BLOCK>().0.iter_mut();
    let images = pages.filter(|page| log::is_page(&Page(**page), Kind::Map, 0));
    assert_eq!(images.map(|page| page[0] ^= 1).count(), 1, "the image of the only page in use");
    let mut world = World::start(&config, disk, Mode::Open, 2);
    assert_eq!(world.read(0, 8), Err(HostError::Io));
    let id = world.write(0, data(0, 4, 2), false);
    assert_eq!(world.wait(id), Err(HostError::Io), "the rest of the block is not known");
    world.disk = sound;
    assert!(world.read(0, 8) == Ok(data(0, 8, 1)), "it is readable");
    world.stop();
}

/// A stripe is sealed so late that the remainder of its slot has only room for a head.
#[test]
fn a_stripe_that_fits_only_its_head_is_skipped() {
    const LONG: usize = 512;
    let mut config = LayerConfig { superpage: LONG as u32, ..LayerConfig::new(LayerKind::Log) };
    config.log.compress = Codec::Raw;
    let mut world = World::start_over(&config, 8, vec![0; 400 * LONG * SECTOR], Mode::Format, 1);
    // A slot has 64 blocks, and a head takes two of them.
    for blocks in 56..64 {
        for (at, blocks) in [(0, blocks), (blocks * 8, 1), (1024, 1)] {
            let id = world.write(at, data(at, blocks * 8, blocks), false);
            world.wait(id).unwrap();
            world.flush();
            let read = world.read(at, blocks * 8);
            assert!(read == Ok(data(at, blocks * 8, blocks)), "{blocks} blocks at {at}");
        }
    }
    world.stop();
}
