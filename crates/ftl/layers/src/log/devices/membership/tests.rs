//! Tests of the members of segments.

use super::*;
use crate::log::chunk_placement::set;

#[test]
fn a_device_is_unused_once_no_segment_contains_it() {
    let mut it = Membership::new(&Layout::example(4));
    let wide = it.assign(7, set(0));
    assert_eq!((wide.width(), it.is_out(3), it.is_whole(set(0b1000))), (3, false, false));
    assert!(it.choose(set(0b0111)) && !it.choose(set(0b0111)));
    assert_eq!(it.assign(8, set(0b1000)).width(), 2);
    assert_eq!(it.next_missing(set(0b1000), |_, _| true), Some(7));
    assert_eq!(it.next_missing(set(0b1000), |_, segment| segment != 7), None);
    it.release(7);
    assert!(it.is_out(3) && it.is_whole(set(0b1000)));
    assert_eq!(it.sets(), [0b0111, 0b1111, 0, 0].map(set));
}

#[test]
fn segments_without_redundancy_move_first() {
    let layout = Layout { parity: 2, ..Layout::example(4) };
    let mut it = Membership::new(&layout);
    it.choose(set(0b0111));
    it.assign(3, set(0));
    it.choose(set(0b1111));
    (4..7).for_each(|segment| assert_eq!(it.assign(segment, set(0)).width(), 2));
    let lost = set(0b1001);
    assert_eq!(it.next_missing(lost, |_, segment| segment < 5), Some(4), "it misses two chunks");
    assert_eq!(it.next_missing(lost, |_, segment| segment == 3), Some(3), "it misses one");
    assert_eq!(it.next_missing(set(0b0001), |_, _| true), Some(3), "one is lost");
}

#[test]
fn an_erased_device_misses_its_existing_chunks() {
    let mut it = Membership::new(&Layout::example(4));
    it.assign(2, set(0));
    it.begin_anew(1);
    it.assign(3, set(0));
    it.assign(4, set(0b0010));
    assert_eq!((it.missing(2, set(0)), it.missing(3, set(0))), (set(0b0010), set(0)));
    assert_eq!(it.missing(4, set(0)), set(0b0010), "it was not written while it was open");
    it.release(4);
    assert!(
        it.claim_stripes(2, set(0b1111)) && it.missing(2, set(0)) == set(0b0010),
        "it is the same segment"
    );
    assert!(it.claim_stripes(2, set(0b1101)) && it.is_whole(set(0)), "it was opened again");
    it.claim_lack(2, set(0b0100));
    assert_eq!(it.missing(2, set(0)), set(0b0100), "its stripes record it");
    assert!(
        !it.claim(3, set(0b1_0000), set(0))
            && !it.claim(3, set(0b0001), set(0))
            && !it.claim(3, set(0b11), set(0b100))
    );
}

#[test]
fn a_returning_device_misses_newer_chunks() {
    let mut it = Membership::new(&Layout::example(4));
    for (segment, seq) in [(2, 10), (3, 20), (4, 15)] {
        it.assign(segment, set(0));
        it.note_stripe(segment, seq);
        it.note_stripe(segment, seq - 5);
    }
    it.begin_again(1, 15, |segment| segment == 4);
    let missing = |segment| it.missing(segment, set(0));
    assert_eq!((missing(2), missing(3), missing(4)), (set(0), set(0b0010), set(0b0010)));
    assert_eq!((it.newest(2), it.newest(9), it.anew()), (10, 0, 1));
    it.filled(3, 1);
    assert_eq!((it.missing(3, set(0)), it.exposed(set(0))), (set(0), 1));
    assert_eq!(it.next_lacking(|_, _| true), Some(4));
    it.filled(4, 1);
    assert!(it.is_whole(set(0)) && it.next_lacking(|_, _| true).is_none());
}

#[test]
#[should_panic(expected = "being resilvered")]
fn a_complete_device_receives_no_chunks() {
    let mut it = Membership::new(&Layout::example(4));
    it.assign(2, set(0));
    it.filled(2, 1);
}

#[test]
fn unknown_members_of_a_segment_are_inferred() {
    let mut it = Membership::new(&Layout::example(4));
    it.choose(set(0b1110));
    let guesses = |it: &Membership, segment| {
        (0..).map_while(|at| it.guess(segment, at)).map(|it| it.members()).collect::<Vec<_>>()
    };
    assert_eq!(guesses(&it, 5), [set(0b1110), set(0b1111)]);
    it.assign(5, set(0));
    assert_eq!(guesses(&it, 5), [set(0b1110)]);
}

#[test]
fn chunks_can_be_missing_without_a_lost_device() {
    let mut it = Membership::new(&Layout::example(3));
    it.assign(1, set(0));
    it.assign(2, set(0b100));
    assert_eq!((it.exposed(set(0)), it.exposed(set(0b001)), it.exposed(set(0b100))), (1, 3, 2));
    it.release(2);
    assert_eq!((it.exposed(set(0)), it.exposed(set(0b001))), (0, 1));
}

#[test]
#[should_panic(expected = "was free")]
fn a_segment_in_use_is_not_opened() {
    let mut it = Membership::new(&Layout::example(2));
    it.assign(0, set(0));
    it.assign(0, set(0));
}
