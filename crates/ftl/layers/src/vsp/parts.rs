//! Parts of superpages. On a device whose protected buffer merges writes, a flush costs nothing, so
//! a flush of the host need not fill a superpage with zeros. The taken slots of the filling stage
//! are listed and programmed as a part, followed by the log write at the end of the same superpage,
//! and the stage is filled further.
//!
//! A part is listed as if it were a stage of its own: the rest of the stage gets a new stamp. Log
//! writes in one superpage are placed from its end towards its beginning, so replay looks for the
//! next one before the last.
//!
//! Invariants
//! - A part is of the oldest unlisted stage, and no slot of that stage is taken until it is listed.
//! - After a part at least a block is left for data, so that the stage can be filled further.

use hostftl_core::{Cause, Command, Gather, Piece, SECTORS_PER_BLOCK, Tally};

use super::area::Area;
use super::ops::{Cx, Op};
use super::stage::{Part, Phase};
use super::table::Table;

/// Returns whether the taken slots of the filling stage may become a part.
pub(super) fn can_part<T: Table>(area: &Area<T>, index: u8) -> bool {
    let stage = area.stages.get(index);
    // The listing may need one more page.
    area.is_protected()
        && area.stages.front() == Some(index)
        && stage.fill() > stage.from()
        && has_space(area, index, area.log.pages_used() + 1)
}

/// Returns whether log pages and a block of data fit into a stage.
fn has_space<T: Table>(area: &Area<T>, index: u8, pages: u32) -> bool {
    area.stages.get(index).space() >= (pages + 1) * SECTORS_PER_BLOCK
}

/// Makes the taken slots of the filling stage a part. Returns true.
pub(super) fn begin_part<T: Table>(area: &mut Area<T>, index: u8, cx: &mut Cx<T::Op>) -> bool {
    cx.counters().padded += u64::from(area.stages.at(index).begin_part());
    true
}

/// Returns the filling stage if it has space for a log write that no other stage carries.
pub(super) fn stage_for_log<T: Table>(area: &Area<T>) -> Option<u8> {
    let pages = area.log.pages_used();
    let fits = |index: &u8| area.is_protected() && has_space(area, *index, pages);
    area.stages.filling().filter(fits)
}

/// Checksums, lists and programs the part of the filling stage.
pub(super) fn pump_part<T: Table>(area: &mut Area<T>, index: u8, cx: &mut Cx<T::Op>) -> bool {
    let stage = area.stages.at(index);
    assert_eq!(stage.phase(), Phase::Filling, "a part is of the filling stage");
    match stage.part() {
        Part::Wanted => {
            let (from, seed) = (stage.begin_part_digest(), stage.vsp().into());
            cx.submit(Op::Digest { stage: index }, Command::Digest { from, seed });
            true
        }
        Part::Digested(crc) => list_part(area, index, crc, cx),
        _ => false,
    }
}

fn list_part<T: Table>(area: &mut Area<T>, index: u8, crc: u32, cx: &mut Cx<T::Op>) -> bool {
    if cx.commands_left() < 2 || !area.log.can_compose() {
        return false;
    }
    let stage = area.stages.get(index);
    if !area.log.fits(stage.fill() - stage.from()) {
        area.durability_requests.request_log_write();
        return false;
    }
    area.list(index, crc, cx);
    area.log.seal(area.stages.get(index).stamp());
    area.stages.part_listed();
    program_part(area, index, cx);
    if let Some(index) = stage_for_log(area) {
        write_log_into(area, index, cx);
    }
    true
}

fn program_part<T: Table>(area: &mut Area<T>, index: u8, cx: &mut Cx<T::Op>) {
    let stage = area.stages.at(index);
    let (from, view, tally) = stage.begin_part_program();
    let lba = area.layout.data_at(stage.vsp()) + u64::from(from);
    submit_part(area, index, (lba, Piece::Data(view), tally), None, cx);
}

/// Writes the log at the end of the filling stage.
pub(super) fn write_log_into<T: Table>(area: &mut Area<T>, index: u8, cx: &mut Cx<T::Op>) {
    let (buf, pages, point) = area.compose_into(index);
    let slots = pages * SECTORS_PER_BLOCK;
    let stage = area.stages.at(index);
    stage.take_top(slots);
    let at = area.layout.superpage - stage.top();
    let lba = area.layout.data_at(stage.vsp()) + u64::from(at);
    let tally = Tally::single(Cause::Map, slots);
    cx.counters().map_written += u64::from(slots);
    submit_part(area, index, (lba, Piece::Meta { buf, pages }, tally), Some(point), cx);
}

fn submit_part<T: Table>(
    area: &mut Area<T>,
    index: u8,
    (lba, piece, tally): (u64, Piece, Tally),
    point: Option<super::log::Point>,
    cx: &mut Cx<T::Op>,
) {
    let serial = area.log.sent(point);
    let gather = Gather::from_iter([piece]);
    let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
    cx.submit(Op::Part { stage: index, serial }, command);
}

/// Completes the program of a part, or of log pages at the end of a stage.
pub(crate) fn programmed<T: Table>(
    area: &mut Area<T>,
    index: u8,
    serial: u64,
    command: Command,
    ok: bool,
) {
    let Command::Program { gather, .. } = command else { unreachable!("a completed program") };
    for piece in gather {
        match piece {
            Piece::Data(view) => area.stages.at(index).part_programmed(view),
            Piece::Meta { buf, .. } => area.log.give_back(buf),
            Piece::Zeros(_) => {}
        }
    }
    if ok {
        area.log.programmed(serial);
    }
}
