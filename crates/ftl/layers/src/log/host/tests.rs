//! Tests of block operations without a volume.

use hostftl_core::{Codec, SECTORS_PER_BLOCK};
use hostftl_format::log::Place;

use crate::log::host::{BlockOp, Blocks, Holder, Origin, Step};

fn write(block: u64) -> BlockOp {
    BlockOp {
        req: 0,
        block,
        from: 0,
        sectors: SECTORS_PER_BLOCK,
        at: 0,
        writes: true,
        data: true,
        pinned: false,
        generation: 0,
        place: Place::NOWHERE,
        crc: 0,
        holder: Holder::Scratch,
        holds: false,
        origin: Origin::Device,
        flawed: false,
        step: Step::Packing,
    }
}

#[test]
fn a_block_has_one_writing_operation() {
    let mut blocks = Blocks::new(Codec::Raw);
    assert!(blocks.is_idle() && !blocks.any_waits());
    let index = blocks.free.pop().expect("all are free");
    blocks.put(index, write(5));
    blocks.writing.push(5);
    assert!(blocks.writing.any_in(5, 6) && !blocks.writing.any_in(6, 9) && !blocks.is_idle());
    blocks.wait_for_stripe(index, Step::Waiting { len: 4096, crc: 0 });
    assert!(blocks.any_waits_for_stripe() && blocks.any_waits());
    blocks.written(5);
    assert!(!blocks.writing.any_in(0, 9));
}

#[test]
#[should_panic(expected = "a unique number")]
fn two_operations_do_not_share_scratch() {
    let mut blocks = Blocks::new(Codec::Raw);
    blocks.put(3, write(5));
    blocks.put(3, write(6));
}
