//! sHATL: every sector has a home, and small writes are stored in a hidden area first.
//!
//! Source: Choi and Shin, sHATL; the mode `ressd` is ReSSD (Lee and others) as described there. The
//! crash protocol is this project's. The hidden area is a small log of virtual superpages as in
//! `hard` ([`crate::vsp`]). Writes to homes follow the rules of [`crate::vsp::direct`].
//!
//! [`map`] maps the slots of the hidden area. [`route`] chooses between home and hidden area for
//! each write, and writes home. [`collect`] empties superpages of the hidden area. For that,
//! [`moves`] writes whole logical superpages (LSPs) home, and [`forward`] reads the victim and
//! copies data that stays hidden.
//!
//! `hatl-auto`, this project's extension, has a compact map ([`overlay`]), a hidden area that is
//! large while the volume is not full ([`lend`]), and selects the LSPs that are most useful to send
//! home ([`spill`]). [`auto`] divides its memory budget.
//!
//! Invariants
//! - A sector that the hidden area holds is read from there, every other sector from its home.
//! - Of the writes, trims and moves to homes in progress, no two overlap, so reads see the versions
//!   of a sector in one order.
//! - A hidden copy becomes invalid when the write that replaced it at home is complete; see
//!   [`crate::vsp::direct`].

mod auto;
mod collect;
mod forward;
mod hidden;
mod homes;
mod kills;
mod lend;
mod map;
mod moves;
mod ops;
mod overlay;
pub(crate) mod params;
mod price;
pub(crate) mod register;
mod route;
mod spill;
mod whole;

use core::fmt::Debug;

use hostftl_core::{ArrayVec, Command, DeviceInfo, Payload, SECTORS_PER_BLOCK};
use hostftl_format::hard::Width;

use crate::config::{LayerConfig, PlanError};
use crate::kind::LayerKind;
use crate::kit::Shell;
use crate::vsp::direct::Direct;
use crate::vsp::homing;
use crate::vsp::layout::{FLOOR, Layout};
use crate::vsp::ops::Cx;
use crate::vsp::pool::Pool;
use crate::vsp::{Area, Machine, Scheme};
pub(crate) use auto::slice;
use collect::{Parts, Victims};
use forward::Forward;
use hidden::HiddenMap;
use map::{Map, lost_bit};
use moves::Movers;
use ops::Op;
use overlay::Overlay;
use route::Route;
use spill::Spill;

/// sHATL.
pub(crate) type Shatl = Shell<Machine<Hidden<Map>>>;
/// `hatl-auto`.
pub(crate) type HatlAuto = Shell<Machine<Hidden<Overlay>>>;

/// Minimum superpages of a hidden area: stages, reserve and pinned log, and as many again.
const LEAST: u32 = 64;
/// Maximum slots of a hidden area: a mover has 31 bits for a slot.
const MOST_SLOTS: u64 = (1 << 31) - 1;

/// Returns the width of map entries of a volume with `exported` sectors, which have one bit more
/// for lost sectors.
fn width(exported: u64) -> Width {
    if exported < lost_bit(Width::Narrow) { Width::Narrow } else { Width::Wide }
}

/// Lays out roots and map groups, then the hidden area, then the homes. If the first `lent` of the
/// `count` superpages of hidden area are lent, the homes come before the area.
fn hidden(
    superpage: u32,
    total: u32,
    (count, lent): (u32, u32),
    width: Width,
) -> Result<Layout, PlanError> {
    let own = count - lent;
    if own < LEAST {
        return Err(PlanError(
            "the layer needs a hidden area of at least 64 superpages and a device of at least \
             four times that",
        ));
    }
    let pages = superpage / SECTORS_PER_BLOCK;
    let entries = u64::from(count) * u64::from(superpage);
    if entries > MOST_SLOTS {
        return Err(PlanError("the hidden area is less than 1 TiB; use a smaller one"));
    }
    let groups = entries.div_ceil(u64::from(pages) * width.entries() as u64) as u32;
    let root = Layout::root_superpages(groups, pages);
    let fixed = 4 * root + 2 * groups;
    let visible = total.checked_sub(fixed + own).filter(|visible| *visible > lent);
    let visible =
        visible.ok_or(PlanError("the device is too small for a hidden area; use a larger one"))?;
    let exported = u64::from(visible) * u64::from(superpage);
    let (home, data) = match lent {
        0 => (fixed + count, fixed),
        _ => (fixed, fixed + visible - lent),
    };
    Ok(Layout {
        superpage,
        root,
        groups,
        count,
        exported,
        width,
        spare: own / 2,
        reserve: FLOOR + 2,
        leaves: 0,
        kills: 8192,
        data,
        home: Some(home),
        lent,
        unit: 0,
    })
}

/// Returns the bytes of memory that grow with the hidden area or the volume.
fn memory<M: HiddenMap>(layout: &Layout) -> u64 {
    let superpages = Pool::memory(layout.count, layout.superpage) + 6 * u64::from(layout.groups);
    let way = Direct::memory(layout.kills) + Movers::memory(layout.superpage);
    M::memory(layout) + M::reverse_memory(layout) + superpages + way
}

/// The scheme of the layers with a hidden area.
#[derive(Debug)]
pub(crate) struct Hidden<M> {
    route: Route,
    victims: Victims,
    movers: Movers,
    forward: Forward,
    spill: Spill,
    map: core::marker::PhantomData<M>,
}

impl<M: HiddenMap> Scheme for Hidden<M> {
    type Table = M;
    const WEIGHS: bool = M::WEIGHS;

    fn layout(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Layout, PlanError> {
        let total = Layout::superpages(config, devices)?;
        match config.kind {
            LayerKind::HatlAuto => auto::layout(config, total, devices[0].iu_sectors),
            _ => {
                let asked = config.shatl.hidden / u64::from(config.superpage);
                let count = asked.min(u64::from(total / 4)) as u32;
                let with = |width| hidden(config.superpage, total, (count, 0), width);
                let narrow = with(Width::Narrow)?;
                match width(narrow.exported) {
                    Width::Narrow if !config.shatl.far => Ok(narrow),
                    _ => with(Width::Wide),
                }
            }
        }
    }

    fn map_bytes(_config: &LayerConfig, layout: &Layout) -> u64 {
        M::memory(layout)
    }

    fn meta_bytes(_config: &LayerConfig, layout: &Layout) -> u64 {
        M::reverse_memory(layout) + Movers::memory(layout.superpage)
    }

    fn buffers() -> u32 {
        moves::MOVERS + 1
    }

    fn table(_config: &LayerConfig, layout: &Layout) -> M {
        M::new(layout)
    }

    fn new(config: &LayerConfig, layout: &Layout, buffers: impl Iterator<Item = Payload>) -> Self {
        let mut list = buffers;
        let forward = Forward::new(list.next().expect("the layer has its buffers"));
        Hidden {
            route: Route::new(config, layout),
            victims: Victims::new(config),
            movers: Movers::new(layout, list),
            forward,
            spill: Spill::new(),
            map: core::marker::PhantomData,
        }
    }

    fn pump_collection(&mut self, area: &mut Area<M>, cx: &mut Cx<Op>) -> bool {
        let Hidden { route, victims, movers, forward, spill, .. } = self;
        let killed = route.pump_killing(area, cx) | lend::pump_loans(area, cx);
        let moved = movers.pump_movers(area, (forward, victims.victim()), cx);
        let with = &mut Parts::new(movers, forward, spill, route);
        victims.pump_victims(area, with, cx) | moved | killed
    }

    fn is_collecting(&self) -> bool {
        self.movers.is_busy() || self.forward.is_busy()
    }

    fn pump_write(&mut self, area: &mut Area<M>, req: u16, cx: &mut Cx<Op>) -> bool {
        let collects = self.victims.victim().is_some() || self.movers.is_busy();
        self.route.route(area, (&self.movers, collects), req, cx)
    }

    fn pump_homing(&mut self, area: &mut Area<M>, cx: &mut Cx<Op>) -> bool {
        homing::homes_whole(area) && whole::pump(area, &self.movers, &self.route, cx)
    }

    fn done(&mut self, area: &mut Area<M>, op: Op, command: Command, ok: bool, cx: &mut Cx<Op>) {
        match op {
            Op::Direct { req, lsn, sectors } => {
                self.route.direct_done(area, (req, lsn, lsn + sectors), command, ok, cx);
            }
            Op::OverlayBounce { mover } => {
                let into = self.forward.laid(command);
                self.movers.repay(mover, into);
            }
            Op::Bounce { .. } | Op::Forward { .. } => {
                self.forward.forward_done(area, op, command, ok, cx);
            }
            Op::Whole { stage } => homing::homed(area, stage, command, ok),
            Op::Loan => lend::loan_forgotten(area, ok),
            op => self.movers.mover_done(area, &mut self.victims, (op, command), ok),
        }
    }

    fn facts(&self, area: &Area<M>) -> ArrayVec<(&'static str, u64), 8> {
        area.table.facts()
    }

    fn release_waiting(&mut self, area: &mut Area<M>, cx: &mut Cx<Op>) -> bool {
        self.route.end_killing(area, cx)
    }

    fn void(&mut self) {
        self.movers.void();
        self.forward.void();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn the_paper_s_drive_needs_2_mib_and_the_reverse_map() {
        let config = LayerConfig::new(LayerKind::Shatl);
        let layout = Hidden::<Map>::layout(&config, &[DeviceInfo::block(1 << 26, 128)]).unwrap();
        assert_eq!((layout.count, layout.entries() * 8), (2048, 2 << 20));
        let reverse = 4 * layout.entries();
        let rest = memory::<Map>(&layout) - (2 << 20) - reverse;
        assert!(rest < 512 << 10, "{rest} bytes");
    }

    #[test]
    fn a_small_device_gives_a_quarter_to_the_hidden_area() {
        let config = LayerConfig::new(LayerKind::Shatl);
        assert!(Hidden::<Map>::layout(&config, &[DeviceInfo::block(255 * 128, 128)]).is_err());
        let layout = Hidden::<Map>::layout(&config, &[DeviceInfo::block(256 * 128, 128)]).unwrap();
        assert_eq!(layout.count, 64);
    }
}
