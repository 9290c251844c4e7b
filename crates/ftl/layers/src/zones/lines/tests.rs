//! Tests of lines without a volume.

use hostftl_format::report::{SegmentReport, SegmentState};

use super::*;
use crate::kind::LayerKind;
use crate::kit::cx::trial;

/// Creates forty free lines of two segments with 16 strips each.
pub(crate) fn free_lines() -> (Layout, Lines) {
    lines_told_as(|_| 0)
}

/// Creates lines as [`free_lines`] does, with the wear that the device reports for each segment.
fn lines_told_as(wear: impl Fn(u32) -> u8) -> (Layout, Lines) {
    let layout = Layout::trial(LayerKind::Pblk, 16, 80, 2);
    let mut lines = Lines::new(&layout, Params::default());
    let (state, size) = (SegmentState::Closed, u64::from(layout.device.size));
    for segment in 0..layout.device.count {
        let (start, wear) = (u64::from(segment) * size, wear(segment));
        let report = SegmentReport { state, wear, start, length: size, pointer: size };
        lines.chunks_mut().found(segment, &report, &layout);
    }
    for line in 0..layout.lines {
        lines.found_nothing(line);
        reset(&mut lines, line);
    }
    (layout, lines)
}

fn reset(lines: &mut Lines, line: u32) {
    lines.begin_reset(line);
    while let Some(segment) = lines.next_reset(line) {
        assert!(!lines.end_reset(line), "a segment is being reset");
        lines.chunks_mut().reset(segment, false);
        lines.reset_over(line);
    }
    assert!(lines.end_reset(line));
}

/// Fills a line, with `valid` valid blocks in each strip.
pub(crate) fn fill(layout: &Layout, lines: &mut Lines, valid: u32) -> u32 {
    let mut filled = 0;
    for seq in 0..u64::from(layout.row_strips()) {
        let (segment, strip) = lines.place(0, seq, Who::Host).expect("there is room");
        filled = layout.line(segment);
        lines.chunks_mut().sent(segment, strip, false);
        (0..valid).for_each(|_| lines.add_valid(filled));
        lines.row_over(filled, seq);
    }
    assert_eq!(lines.at(filled).state(), State::Open);
    assert!(lines.leave_full(100));
    filled
}

#[test]
fn a_line_is_filled_collected_and_erased() {
    let (layout, mut lines) = free_lines();
    assert_eq!(lines.spare(), layout.lines - layout.keep);
    let line = fill(&layout, &mut lines, 3);
    assert_eq!((lines.at(line).state(), lines.at(line).valid()), (State::Full, 96));
    assert_eq!((lines.pick(7), lines.pick(8)), (None, Some(line)), "seven strips and a short one");
    assert!(lines.victim() == Some(line) && lines.lists_agree());
    (0..96).for_each(|_| lines.invalidate(line, 200));
    assert_eq!(lines.at(line).state(), State::Victim, "it is gone through first");
    lines.collected(201);
    assert_eq!((lines.at(line).state(), lines.at(line).emptied_by()), (State::Empty, 201));
    assert_eq!((lines.empty_count(), lines.victim()), (1, None));
    reset(&mut lines, line);
    assert_eq!(lines.spare(), layout.lines - layout.keep);
    assert!(lines.lists_agree());
}

#[test]
fn a_full_line_is_empty_with_its_last_block() {
    let (layout, mut lines) = free_lines();
    let line = fill(&layout, &mut lines, 1);
    (0..32).for_each(|_| lines.invalidate(line, 300));
    assert_eq!((lines.at(line).state(), lines.at(line).emptied_by()), (State::Empty, 300));
    assert_eq!(lines.pick(1000), None);
}

#[test]
fn the_least_erased_line_is_filled_next() {
    // Both segments of line 1, and the second of line 0, were worn already.
    let (layout, mut lines) = lines_told_as(|segment| match segment {
        1 | 41 => 5,
        40 => 3,
        _ => 0,
    });
    let filled: Vec<u32> = (0..3).map(|_| fill(&layout, &mut lines, 1)).collect();
    assert_eq!(filled, [2, 3, 4]);
    (0..32).for_each(|_| lines.invalidate(3, 300));
    reset(&mut lines, 3);
    let wear = |line: u32| lines.wear(line);
    assert_eq!([0, 1, 2, 3].map(wear), [4, 6, 1, 2], "each was erased at the start");
}

#[test]
fn failed_lines_are_collected_first() {
    let (layout, mut lines) = free_lines();
    let [most, failed] = [1, 9].map(|valid| fill(&layout, &mut lines, valid));
    trial(|cx| lines.lose_segment(layout.segment(failed, 1), cx));
    assert!(lines.wants_collection());
    assert_eq!(lines.pick(1000), Some(failed));
    lines.collected(0);
    assert!(!lines.wants_collection(), "once");
    assert_eq!(lines.pick(1000), Some(most));
}

#[test]
#[should_panic(expected = "an invalidated block was valid")]
fn only_valid_blocks_are_invalidated() {
    let (_, mut lines) = free_lines();
    lines.invalidate(0, 1);
}
