//! Tests of a stripe without a volume.

use hostftl_core::{DeviceInfo, DeviceSet};
use hostftl_format::log::{Kind, Place};

use crate::config::LayerConfig;
use crate::kind::LayerKind;
use crate::log::chunk_placement::ChunkPlacement;
use crate::log::layout::{At, Layout};
use crate::log::stripe::{Item, NO_HEIR, Phase, Stripe};

fn open(sector: u32) -> (Layout, Stripe) {
    let layout = Layout::example(3);
    let mut stripe = Stripe::new(&layout);
    let at = At { segment: 1, slot: 2, sector };
    stripe.open(&layout, (at, ChunkPlacement::new(DeviceSet::first_n(3), 1)), 0, 9);
    (layout, stripe)
}

fn item(chunk: u8, byte: u32) -> Item {
    let (place, kind) = (Place::NOWHERE, Kind::Data);
    Item { kind, block: 5, place, crc: 0, heir: NO_HEIR, newer: 0, replaced: 0, chunk, byte }
}

#[test]
fn records_are_contiguous_and_do_not_cross_chunks() {
    let (layout, mut stripe) = open(0);
    let mut last = (0, stripe.head_pages * 4096);
    while let Some((chunk, byte)) = stripe.take(3000) {
        let follows = chunk == last.0 && byte == last.1 || chunk == last.0 + 1 && byte == 0;
        assert!(follows && byte + 3000 <= layout.chunk * 512, "{chunk} {byte} after {last:?}");
        last = (chunk, byte + 3008);
        stripe.push(item(chunk, byte));
    }
    assert_eq!(u32::from(last.0) + 1, layout.width(), "all chunks of data are filled");
    assert!(!stripe.continues(3000) && stripe.sectors(&layout, 0) == layout.chunk);
    assert!(stripe.find(0, stripe.items[1].byte).is_some() && stripe.find(1, 8).is_none());
}

#[test]
fn a_short_stripe_leaves_space_for_one_chunk() {
    let (layout, mut stripe) = open(16);
    while stripe.take(4096).is_some_and(|(chunk, byte)| stripe.push(item(chunk, byte)) < u32::MAX) {
    }
    assert_eq!(stripe.fill.chunks(), 1);
    assert!(stripe.fill.used(0) <= (layout.chunk - 16) * 512);
}

#[test]
#[should_panic(expected = " to Sealing")]
fn a_stripe_is_sealed_when_all_records_are_in_it() {
    let (_, mut stripe) = open(0);
    stripe.placing = 1;
    stripe.go(Phase::Closed);
    stripe.go(Phase::Sealing);
}

#[test]
#[should_panic(expected = "items go into a filling stripe")]
fn a_closed_stripe_takes_no_data() {
    let (_, mut stripe) = open(0);
    stripe.go(Phase::Closed);
    stripe.push(item(0, 4096));
}

#[test]
fn short_stripes_are_padded_only_on_drives_without_merging() {
    for (merges, sectors) in [(false, 128), (true, 16)] {
        let config = LayerConfig { superpage: 256, ..LayerConfig::new(LayerKind::Log) };
        let device = DeviceInfo { merges, ..DeviceInfo::block(1 << 21, 128) };
        let layout = Layout::new(&config, &[device]).expect("a plan");
        let mut stripe = Stripe::new(&layout);
        let at = At { segment: 1, slot: 2, sector: 0 };
        stripe.open(&layout, (at, ChunkPlacement::new(DeviceSet::single(0), 0)), 0, 9);
        let (chunk, byte) = stripe.take(4096).expect("room");
        stripe.push(item(chunk, byte));
        assert_eq!(stripe.sectors(&layout, 0), sectors, "a head and a block");
    }
}

#[test]
fn the_stripe_after_a_short_one_fits_its_head() {
    for superpage in [32, 128, 512, 1024, 2048] {
        let config = LayerConfig { superpage, ..LayerConfig::new(LayerKind::Log) };
        let layout = Layout::new(&config, &[DeviceInfo::block(1 << 22, 1)]).expect("a plan");
        let mut stripe = Stripe::new(&layout);
        let begin = At { segment: 1, slot: 2, sector: 0 };
        for end in (16..=superpage).step_by(8) {
            let Some(at) = layout.after(begin, end).filter(|at| at.sector > 0) else { continue };
            stripe.open(&layout, (at, ChunkPlacement::new(DeviceSet::single(0), 0)), 0, 9);
            assert!(stripe.fill.used(0) <= stripe.fill.size(), "{superpage}: {at:?}");
            stripe.go(Phase::Closed);
            stripe.go(Phase::Sealing);
            stripe.go(Phase::Programming);
            stripe.go(Phase::Draining);
            stripe.go(Phase::Idle);
        }
    }
}
