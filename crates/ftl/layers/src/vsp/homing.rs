//! Home writes of whole stages: a stage that holds one complete logical superpage is written
//! straight to its home and not to the data area. A copy in the data area would take space and
//! would have to be moved home later.
//!
//! The log records a home write like a trim: earlier copies of these sectors no longer count,
//! whether in the data area or in an image that was taken during the write. The record takes the
//! place of the stage in the order of listings, so that nothing younger is listed before it. Copies
//! that the stage replaced therefore count until then, and copies that replace the stage follow in
//! the log. If the stage replaced a hidden copy, it is listed only after the home write is durable:
//! a power cut must not lose both. The same applies while any kill waits to become durable, because
//! the kill may belong to these sectors.
//!
//! Invariants
//! - A stage that goes home is listed, as an empty one, after the home write completes.
//! - Until then nothing else is written to that home, and no older stage receives data.

use hostftl_core::{Command, Piece};
use hostftl_format::hard::Listing;

use crate::planted::{Bug, planted};

use super::area::Area;
use super::log::Mark;
use super::ops::Cx;
use super::pool::State;
use super::table::Table;

/// Closes the filling stage when a sequential write that has filled a superpage reaches the next
/// logical superpage. That one then gets a stage of its own, and can go home as a whole.
pub(crate) fn align_stream<T: Table>(area: &mut Area<T>, lsn: u64) {
    let superpage = area.layout.superpage;
    let Some(index) = area.stages.filling().filter(|_| homes_whole(area)) else { return };
    let begun = area.stages.get(index).fill() > 0;
    if begun && lsn.is_multiple_of(superpage.into()) && area.stages.streams(lsn, superpage) {
        area.stages.close_filling();
    }
}

/// Returns whether whole stages may go home in this layout.
pub(crate) fn homes_whole<T: Table>(area: &Area<T>) -> bool {
    area.layout.home.is_some() && area.layout.leaves > 0
}

/// Completes a home write. After a failure the stage is programmed into the data area.
pub(crate) fn homed<T: Table>(area: &mut Area<T>, index: u8, command: Command, ok: bool) {
    let Command::Program { gather, .. } = command else { unreachable!("a completed program") };
    for piece in gather {
        if let Piece::Data(view) = piece {
            area.stages.at(index).homed(view, ok);
        }
    }
    if ok {
        area.direct.end_event();
        area.stages.at(index).at_home(area.direct.done());
    }
}

/// Returns whether the listing of a stage at home, and the record before it, fit the log.
pub(crate) fn fits_homed<T: Table>(area: &Area<T>) -> bool {
    area.log.fits_trim_and(1, 0)
}

/// Lists the oldest stage, which is at home, as an empty one. Returns whether it was listed.
pub(crate) fn list_homed<T: Table>(area: &mut Area<T>, index: u8, cx: &mut Cx<T::Op>) -> bool {
    assert_eq!(area.stages.front(), Some(index), "stages are listed in the order of opening");
    let stage = area.stages.get(index);
    let (vsp, stamp, event) = (stage.vsp(), stage.stamp(), stage.event());
    let first = stage.whole().expect("a stage is complete until it is listed");
    // The record unmaps older copies: it must not become durable before the home write is.
    let unmaps = stage.replaces() || area.direct.waits();
    if unmaps && area.direct.flushed() < event && !planted(Bug::HomeListedEarly) {
        area.durability_requests.request_eventually(Mark { direct: event, ..Mark::default() });
        return false;
    }
    if !fits_homed(area) {
        area.durability_requests.request_log_write();
        return false;
    }
    let superpage = area.layout.superpage;
    // The record comes before the listing, in the same log write, so replay applies both or none.
    area.log.trim(first, superpage);
    let listing = Listing { superpage: vsp, crc: 0, fill: 0, lost: false };
    area.log.list(&listing, core::iter::empty());
    area.log.seal(stamp);
    area.stages.front_listed();
    area.stages.at(index).programmed();
    // The sectors are now read from their home.
    for slot in area.pool.slots(vsp) {
        if let Some(lsn) = area.table.valid(slot) {
            assert!(lsn - first < superpage.into(), "the stage holds one logical superpage");
            area.checkpoint.changed(slot);
            area.table.kill(&mut area.pool, lsn);
        }
    }
    cx.touch(superpage as usize);
    assert_eq!(area.pool.valid(vsp), 0, "the data is in its home slots or in a younger stage");
    assert!(!area.pool.pinned(vsp), "an unwritten superpage holds no log");
    area.pool.become_(vsp, State::Limbo, false);
    area.send_to_limbo(vsp);
    true
}
