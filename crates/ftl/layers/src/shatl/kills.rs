//! Kills of hidden copies that a write at home replaced, and the free room of the hidden area.

use crate::vsp::Area;
use crate::vsp::layout::STAGES;
use crate::vsp::ops::Cx;
use crate::vsp::pool::{Lost, State};

use super::hidden::HiddenMap;
use super::ops::Op;

/// Returns the number of superpages of the hidden area.
pub(super) fn superpages<M: HiddenMap>(area: &mut Area<M>) -> u32 {
    area.layout.count - area.table.loans().map_or(0, |loans| loans.withdrawn())
}

/// Returns the number of slots that valid hidden data may take, before margins.
pub(super) fn hidden_slots<M: HiddenMap>(area: &mut Area<M>) -> u64 {
    let most = area.table.homes().map_or(u32::MAX, |homes| homes.most());
    u64::from(superpages(area).min(most)) * u64::from(area.layout.superpage)
}

/// Returns the number of superpages of the hidden area that should be free, so that the drive can
/// use their space.
pub(super) fn left_free<M: HiddenMap>(area: &mut Area<M>) -> u32 {
    let valid = area.table.mapped().div_ceil(area.layout.superpage.into()) as u32;
    let spread = area.table.homes().map_or(u32::MAX, |homes| homes.spread(valid));
    // Open superpages, and those pinned by log until a checkpoint, cannot be emptied.
    let busy = STAGES + area.layout.max_pinned();
    superpages(area).saturating_sub(spread.saturating_add(busy))
}

/// Returns whether the map has room for one more run.
pub(super) fn admits<M: HiddenMap>(area: &Area<M>) -> bool {
    area.table.admits(area.stages.placing())
}

/// Returns the number of consecutive slots, from `slot` on, that hold sectors of an LSP.
pub(super) fn run_length<M: HiddenMap>(area: &mut Area<M>, slot: u64, lsp: u32) -> u32 {
    let sp = area.layout.superpage;
    let same =
        |i: &u32| area.table.valid(slot + u64::from(*i)).is_some_and(|l| area.table.lsp(l) == lsp);
    1 + (1..sp - (slot % u64::from(sp)) as u32).take_while(same).count() as u32
}

/// Returns whether all copies of an LSP may be killed now. If not, requests the log writes that
/// make room.
pub(super) fn room_for_kills<M: HiddenMap>(area: &mut Area<M>) -> bool {
    let room = area.direct.kills_left() >= area.layout.superpage as usize;
    if !room {
        // Open stages are closed too: their pads carry the log if no superpage is left.
        area.durability_requests.request_soon(area.mark_all());
    }
    room
}

/// Kills the hidden copies of the sectors `low..end` of an LSP, as one event.
pub(super) fn kill_copies<M: HiddenMap>(
    area: &mut Area<M>,
    lsp: u32,
    low: u64,
    end: u64,
    cx: &mut Cx<Op>,
) {
    loop {
        let held = |(_, lsn): &(u64, u64)| (low..end).contains(lsn);
        let found = area.table.hidden(lsp).find(held);
        let Some((slot, _)) = found else { break };
        kill_slot(area, slot, cx);
    }
    end_kills(area);
}

/// Kills the copy in a slot, as part of the event that [`end_kills`] ends.
pub(super) fn kill_slot<M: HiddenMap>(area: &mut Area<M>, slot: u64, cx: &mut Cx<Op>) {
    let lsn = area.table.holds(slot).expect("an invalidated slot holds a sector");
    let vsp = area.pool.superpage_at(slot);
    // The kill must be logged after the listing of the copy, or replay would restore the copy.
    let stamp = match area.pool.state(vsp) {
        State::Staged(index) => {
            area.stages.moved_home(index);
            area.stages.get(index).stamp().max(area.log.sealed())
        }
        _ => area.log.sealed(),
    };
    cx.touch(1);
    area.direct.kill(slot, stamp);
    area.checkpoint.changed(slot);
    if let Lost::Last(vsp) = area.table.kill(&mut area.pool, lsn) {
        area.pool.push_limbo(vsp);
    }
}

/// Ends an event of kills.
pub(super) fn end_kills<M: HiddenMap>(area: &mut Area<M>) {
    area.direct.end_event();
    let mark = area.mark_all();
    area.pool.mark_limbo(mark);
}
