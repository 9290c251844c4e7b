//! Reclaim: erases lines without valid blocks, so that they are free again.
//!
//! Invariants
//! - A line is reset when the rows that emptied it are durable, it has no readers, and replay
//!   starts after the last trim in it.
//! - A segment whose reset fails is out of use.

use hostftl_core::{Command, DeviceError};

use super::checkpoint::Checkpoint;
use super::durability::Durability;
use super::layout::Layout;
use super::lines::{Line, Lines};
use super::ops::{Cx, Op, fail};
use crate::planted::{Bug, planted};

/// Maximum number of lines being reset.
const RESETS: u32 = 2;

/// Resets an empty line. If none can be reset and space is short, requests the condition that is
/// missing.
pub(super) fn run(
    layout: &Layout,
    lines: &mut Lines,
    durability: &mut Durability,
    checkpoint: &mut Checkpoint,
    cx: &mut Cx,
) -> bool {
    if lines.empty_count() == 0 || lines.resetting() >= RESETS {
        return false;
    }
    if cx.outputs_left() < layout.width as usize + 4 && cx.outputs_left() < 24
        || cx.commands_left() < 256
    {
        return false;
    }
    let replay_from = checkpoint.root().replay_from;
    let trims = |it: &Line| {
        let last = it.last_trim();
        last > 0 && last >= replay_from && !planted(Bug::ZonesTrimForgotten)
    };
    let is_ready = |it: &Line| {
        let is_durable = durability.is_durable(it.emptied_by()) || planted(Bug::ZonesEarlyReset);
        let is_held = it.is_pinned() && !planted(Bug::ZonesVictimNotPinned);
        is_durable && !trims(it) && !is_held
    };
    let first = lines.empty().find(|(_, it)| is_ready(it)).map(|(line, _)| line);
    if let Some(line) = first {
        lines.begin_reset(line);
        reset_more(line, layout, lines, cx);
        return true;
    }
    // Without need, the lines wait: a flush or checkpoint for their sake would only cost writes.
    if !lines.is_short() {
        return false;
    }
    let last = lines.empty().map(|(_, it)| it.emptied_by()).max().unwrap_or(0);
    let trims = lines.empty().any(|(_, it)| trims(it));
    durability.want(last) || trims && checkpoint.hurry()
}

/// Sends the resets of a line for which this step has room.
fn reset_more(line: u32, layout: &Layout, lines: &mut Lines, cx: &mut Cx) {
    let room = cx.outputs_left().saturating_sub(8).min(cx.commands_left().saturating_sub(128));
    for _ in 0..room {
        let Some(segment) = lines.next_reset(line) else { break };
        let (lba, sectors) = (layout.lba(segment, 0), u64::from(layout.device.size));
        cx.submit(Op::Reset { segment }, Command::Reset { device: 0, lba, sectors });
    }
    if lines.end_reset(line) {
        cx.wake();
    }
}

/// Completes the reset of a segment.
pub(super) fn reset_done(
    segment: u32,
    result: Result<(), DeviceError>,
    layout: &Layout,
    lines: &mut Lines,
    cx: &mut Cx,
) {
    let line = layout.line(segment);
    lines.reset_over(line);
    match result {
        Ok(()) => lines.chunks_mut().reset(segment, false),
        Err(DeviceError::Media) => {
            lines.chunks_mut().reset(segment, true);
            lines.lose_segment(segment, cx);
        }
        Err(error) => return fail(error, cx),
    }
    // The step that began the reset may not have had room for all segments.
    reset_more(line, layout, lines, cx);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::cx::trial;
    use crate::zones::lines::tests::{fill, free_lines};

    #[test]
    fn a_line_is_reset_once_its_copies_are_durable_and_reads_ended() {
        let (layout, mut lines) = free_lines();
        let line = fill(&layout, &mut lines, 0);
        let (mut durability, mut checkpoint) = (Durability::new(1), Checkpoint::new(&layout));
        let mut run = |lines: &mut Lines, row: u64| {
            durability.resume(row);
            trial(|cx| run(&layout, lines, &mut durability, &mut checkpoint, cx))
        };
        assert!(!run(&mut lines, 99), "row 100 emptied it");
        lines.at_mut(line).pin();
        assert!(!run(&mut lines, 100));
        lines.at_mut(line).unpin();
        assert!(run(&mut lines, 100) && lines.resetting() == 1);
        for column in 0..layout.width {
            assert_eq!(lines.resetting(), 1);
            let segment = layout.segment(line, column);
            trial(|cx| reset_done(segment, Ok(()), &layout, &mut lines, cx));
        }
        assert_eq!((lines.resetting(), lines.empty_count()), (0, 0));
    }
}
