//! Direct writes of stages that contain a whole LSP (`hatl-auto`). Hiding such a stage gains
//! nothing, because the home receives a whole superpage in any case. The rules of order are those
//! of [`crate::vsp::homing`].

use hostftl_core::{Command, Gather, Piece};

use crate::planted::{Bug, planted};
use crate::vsp::Area;
use crate::vsp::ops::{Cx, OWN_OPS, Op::Own};
use crate::vsp::stage::Phase;

use super::hidden::HiddenMap;
use super::moves::Movers;
use super::ops::Op;
use super::route::Route;

/// Writes the oldest stage home that contains a whole LSP.
pub(super) fn pump<M: HiddenMap>(
    area: &mut Area<M>,
    movers: &Movers,
    route: &Route,
    cx: &mut Cx<Op>,
) -> bool {
    if cx.commands_left() <= OWN_OPS / 2 {
        return false;
    }
    let sp = u64::from(area.layout.superpage);
    let mut begins = None;
    for index in area.stages.settled() {
        let stage = area.stages.get(index);
        if stage.phase() != Phase::Closed {
            continue;
        }
        let Some(first) = stage.whole() else { continue };
        cx.touch(sp as usize);
        let lsp = area.table.lsp(first);
        let taken = movers.any(|other| other == lsp) || route.is_direct(first, first + sp, cx);
        // A direct write or a younger stage may have replaced a sector since.
        let slot = u64::from(stage.vsp()) * sp;
        let newest = (0..sp).all(|i| area.table.find(first + i) == Some(slot + i));
        let newest = newest || planted(Bug::HomeOverNewer);
        if newest && !taken && !area.stages.is_homing(first, first + sp) {
            begins = Some((index, first, lsp));
            break;
        }
    }
    let Some((stage, first, lsp)) = begins else { return false };
    let (data, tally) = area.stages.at(stage).begin_homing();
    if let Some(homes) = area.table.homes() {
        homes.unhide(sp);
        homes.fill(lsp..lsp + 1, sp);
    }
    let lba = area.layout.home(first).expect("every sector has a home slot");
    let gather = Gather::from_iter([Piece::Data(data)]);
    let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
    cx.submit(Own(Op::Whole { stage }), command);
    true
}
