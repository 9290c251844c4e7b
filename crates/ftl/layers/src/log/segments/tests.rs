//! Tests of segment states without a volume.

use hostftl_format::log::Place;

use crate::log::layout::Layout;
use crate::log::params::Params;
use crate::log::segments::{Safe, Segments};

const NOTHING_SAFE: Safe = Safe { stamp: 0, replay_from: 0 };

fn segments() -> (Layout, Segments) {
    let layout = Layout::example(3);
    let mut segments = Segments::new(&layout, &Params::default());
    segments.set_widths(|_| layout.width());
    (layout, segments)
}

/// Returns a record of one block in a segment.
fn record(layout: &Layout, segment: u32) -> Place {
    let at = crate::log::layout::At { segment, slot: 0, sector: 8 };
    Place::new(0, layout.lba(at) * 512, 4096, 1)
}

/// Returns a segment with one stripe of `records` valid records, which its stream has left.
fn full(layout: &Layout, segments: &mut Segments, records: u32) -> u32 {
    let segment = segments.open(0);
    segments.stripe_opened(segment);
    (0..records).for_each(|_| segments.add(segment, record(layout, segment)));
    segments.leave(segment);
    segments.stripe_written(segment, 1);
    segment
}

#[test]
fn segments_with_valid_data_are_victims() {
    let (layout, mut segments) = segments();
    let open = segments.open(0);
    segments.stripe_opened(open);
    assert!(!segments.can_be_victim(open), "its stripes are in flight");
    let full = full(&layout, &mut segments, 2);
    assert!(segments.can_be_victim(full) && segments.check());
    segments.kill(full, record(&layout, full));
    assert!(segments.can_be_victim(full));
    segments.kill(full, record(&layout, full));
    assert!(!segments.can_be_victim(full) && segments.check());
    assert_eq!((segments.valid(full), segments.empty()), (0, 1));
}

#[test]
fn an_empty_segment_is_free_after_a_durable_root() {
    let (layout, mut segments) = segments();
    let (free, empty) = (segments.free(), full(&layout, &mut segments, 0));
    assert_eq!(segments.reclaim(NOTHING_SAFE, |_| false), None, "no root was made since then");
    segments.reuse_mut().root_begun();
    assert_eq!(segments.reclaim(NOTHING_SAFE, |_| false), None, "that root is not durable");
    segments.reuse_mut().root_durable();
    segments.pin(empty);
    assert_eq!(segments.reclaim(NOTHING_SAFE, |_| false), None, "it is being read");
    segments.unpin(empty);
    assert_eq!(segments.reclaim(NOTHING_SAFE, |_| true), None, "zeros are on their way to it");
    assert_eq!(segments.reclaim(NOTHING_SAFE, |_| false), Some(empty));
    segments.release(empty);
    assert_eq!((segments.free(), segments.empty()), (free, 0));
}

#[test]
fn durable_stripes_free_a_segment_without_a_root() {
    let (layout, mut segments) = segments();
    segments.set_youngest(7);
    let empty = full(&layout, &mut segments, 0);
    let safe = |stamp| Safe { stamp, replay_from: 2 };
    assert_eq!(segments.reclaim(safe(6), |_| false), None, "stripe 7 may list valid data");
    assert_eq!(segments.awaited(safe(6), |_| false), Some(7));
    assert_eq!(segments.reclaim(safe(7), |_| false), Some(empty));
}

#[test]
#[should_panic(expected = " to Free")]
fn a_segment_being_read_is_not_free() {
    let (layout, mut segments) = segments();
    let empty = full(&layout, &mut segments, 0);
    segments.pin(empty);
    segments.release(empty);
}

#[test]
fn excess_image_segments_are_emptied_first() {
    let (layout, mut segments) = segments();
    let of_map: alloc::vec::Vec<u32> = [3, 1, 2]
        .into_iter()
        .map(|records| {
            let segment = segments.open(crate::log::stripe::streams::MAP);
            segments.stripe_opened(segment);
            (0..records).for_each(|_| segments.add(segment, record(&layout, segment)));
            segments.leave(segment);
            segments.stripe_written(segment, 1);
            segment
        })
        .collect();
    assert_eq!((segments.surplus_map(3), segments.surplus_map(2)), (None, Some(of_map[1])));
    assert_eq!(segments.more_surplus_map(of_map[1], 1), Some(of_map[2]));
    assert_eq!(segments.more_surplus_map(of_map[1], 2), None, "two are not too many");
    assert_eq!(segments.more_surplus_map(of_map[2], 0), Some(of_map[0]));
    assert_eq!(segments.more_surplus_map(of_map[0], 0), None);
}
