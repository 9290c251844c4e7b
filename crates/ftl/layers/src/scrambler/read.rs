//! Reads, one run at a time. A run is in one page of the device, or unmapped.

use hostftl_core::{Cause, Command, Piece, Target};

use super::layout::Layout;
use super::ops::{Cx, OWN_OPS, Op};
use super::request::complete_if_over;
use super::space::Space;
use crate::kit::Health;

/// Advances the first read by one run.
pub(super) fn pump(space: &mut Space, layout: &Layout, cx: &mut Cx) -> bool {
    let Some(req) = cx.requests().first_read() else { return false };
    if cx.commands_left() <= OWN_OPS {
        return false;
    }
    let has_failed = cx.health() == Health::Failed;
    let active = cx.request(req);
    if !active.is_begun() && !has_failed && active.error.is_none() {
        send_run(space, layout, req, cx);
    }
    let active = cx.request(req);
    if active.is_begun() || has_failed || active.error.is_some() {
        cx.requests().end_read();
        complete_if_over(space, req, cx);
    }
    true
}

/// Submits the command for the next run of a read.
fn send_run(space: &mut Space, layout: &Layout, req: u16, cx: &mut Cx) {
    let slot = u64::from(layout.slot);
    let active = cx.request(req);
    let (first, left) = (active.lba + active.cursor, active.sectors - active.cursor);
    let (logical, within) = ((first / slot) as u32, first % slot);
    let most = (within + left).div_ceil(slot) as u32;
    let start = space.map().lookup(logical);
    let run = space.run_length(logical, most, start);
    let len = (u64::from(run) * slot - within).min(left) as u32;
    let active = cx.request(req);
    let at = active.cursor as u32;
    active.cursor += u64::from(len);
    active.outstanding += 1;
    cx.touch(run as usize);
    let into = cx.requests().data(req).view_mut_sectors(at, len);
    let Some(start) = start else {
        let command = Command::Place { from: Piece::zero_sectors(len), into };
        return cx.submit(Op::Zero { req }, command);
    };
    let page = space.begin_read(start);
    let lba = layout.slot_at(start) + within;
    let command = Command::Read { device: 0, lba, into: Target::Data(into), cause: Cause::Host };
    cx.submit(Op::Read { req, page }, command);
}

/// Handles the completion of a run.
pub(super) fn done(space: &mut Space, op: Op, command: Command, ok: bool, cx: &mut Cx) {
    let (req, into) = match (op, command) {
        (Op::Read { req, page }, Command::Read { into: Target::Data(into), .. }) => {
            space.end_read(page);
            (req, into)
        }
        (Op::Zero { req }, Command::Place { into, .. }) => (req, into),
        (op, command) => unreachable!("{op:?} completed with {command:?}"),
    };
    cx.requests().data(req).repay_mut(into);
    cx.requests().part_over(req, ok);
    complete_if_over(space, req, cx);
}
