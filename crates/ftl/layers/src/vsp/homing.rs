//! Stages that hold all of one logical superpage go home in one write, and not to the data area: a
//! copy there would take room, and would have to be moved home later.
//!
//! That they are home is logged as a trim is: no copy of these sectors counts that came before, in
//! the data area or in an image that was taken while the stage was on its way. That is logged in
//! the place of the stage in the order of listings: nothing younger is listed before. So what the
//! stage replaced counts until then, and what replaces it comes later. Where it took the place of a
//! hidden copy that is not before the write at home is durable: a cut must not take both. Nor is it
//! while any kill waits to be durable, which may be of these sectors.
//!
//! Invariants
//! - A stage that goes home is listed, as one that holds nothing, when the write at home is over.
//! - Until then nothing else writes there, and no older stage gets anything.

use hostftl_core::{Command, Piece};
use hostftl_format::hard::Listing;

use crate::planted::{Bug, planted};

use super::area::Area;
use super::log::Mark;
use super::ops::Cx;
use super::pool::State;
use super::table::Table;

/// A write in order that filled a superpage begins the next logical one in a stage of its own.
pub(crate) fn align_stream<T: Table>(area: &mut Area<T>, lsn: u64) {
    let superpage = area.layout.superpage;
    let Some(index) = area.stages.filling().filter(|_| homes_whole(area)) else { return };
    let begun = area.stages.get(index).fill() > 0;
    if begun && lsn.is_multiple_of(superpage.into()) && area.stages.streams(lsn, superpage) {
        area.stages.close_filling();
    }
}

/// Whether stages may go home at all.
pub(crate) fn homes_whole<T: Table>(area: &Area<T>) -> bool {
    area.layout.home.is_some() && area.layout.leaves > 0
}

/// A stage is at home, unless that failed.
pub(crate) fn homed<T: Table>(area: &mut Area<T>, index: u8, command: Command, ok: bool) {
    let Command::Program { gather, .. } = command else { unreachable!("a program comes back") };
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

/// Whether the listing of a stage that is at home surely fits, and the record before it.
pub(crate) fn fits_homed<T: Table>(area: &Area<T>) -> bool {
    area.log.fits_trim_and(1, 0)
}

/// Lists the oldest stage, which is at home, as one that holds nothing.
pub(crate) fn list_homed<T: Table>(area: &mut Area<T>, index: u8, cx: &mut Cx<T::Op>) -> bool {
    assert_eq!(area.stages.front(), Some(index), "stages are listed in the order of opening");
    let stage = area.stages.get(index);
    let (vsp, stamp, event) = (stage.vsp(), stage.stamp(), stage.event());
    let first = stage.whole().expect("what goes home is whole until it is listed");
    let unmaps = stage.replaces() || area.direct.waits();
    if unmaps && area.direct.flushed() < event && !planted(Bug::HomeListedEarly) {
        area.wishes.want(Mark { direct: event, ..Mark::default() });
        return false;
    }
    if !fits_homed(area) {
        area.wishes.starve();
        return false;
    }
    let superpage = area.layout.superpage;
    area.log.trim(first, superpage);
    let listing = Listing { superpage: vsp, crc: 0, fill: 0, lost: false };
    area.log.list(&listing, core::iter::empty());
    area.log.seal(stamp);
    area.stages.front_listed();
    area.stages.at(index).programmed();
    for slot in vsp * superpage..(vsp + 1) * superpage {
        if let Some(lsn) = area.table.live(slot) {
            assert!(lsn - first < superpage.into(), "it holds one logical superpage");
            area.checkpoint.changed(slot.into());
            area.table.kill(&mut area.pool, lsn);
        }
    }
    cx.touch(superpage as usize);
    assert_eq!(area.pool.valid(vsp), 0, "all that it held is at home, or in a younger stage");
    assert!(!area.pool.pinned(vsp), "no log is in what was never written");
    area.pool.become_(vsp, State::Limbo, false);
    area.send_to_limbo(vsp);
    true
}
