//! sHATL: every sector has a home, and small writes go to a hidden area first.
//!
//! Source: Choi and Shin, sHATL; its mode `ressd` is ReSSD (Lee and others), as they describe it.
//! The crash protocol is ours: the hidden area is a small log of virtual superpages as `hard` has
//! it ([`crate::vsp`]), and what is written home goes by the rules of [`crate::vsp::direct`].
//!
//! [`map`] says what the hidden area holds; [`route`] decides where a write goes and writes home;
//! [`collect`] moves whole logical superpages (LSPs) home to empty the hidden area; [`forward`]
//! reads the victim, and decides what of it stays hidden where that is wanted (`hatl-auto`).
//!
//! Invariants
//! - A sector that the hidden area holds is read from there, every other from its home.
//! - Of the writes, trims and moves under way, none that goes home overlaps another one: a read
//!   sees the versions of a sector in one order.
//! - A hidden copy dies when what replaced it at home is over; see [`crate::vsp::direct`].

mod collect;
mod forward;
mod map;
mod route;

use hostftl_core::{Command, DeviceInfo, Nanos, Out, Payload, SECTORS_PER_BLOCK};
use hostftl_format::hard::MAP_ENTRIES;

use crate::config::{LayerConfig, LayerKind, PlanError};
use crate::vsp::direct::Direct;
use crate::vsp::layout::{FLOOR, Layout};
use crate::vsp::ops::Op;
use crate::vsp::pool::Pool;
use crate::vsp::{Machine, Scheme};
use collect::Movers;
use forward::Forward;
use map::{COARSE, MOST_SECTORS, Map};
use route::Route;

/// The layer.
pub type Shatl = Machine<Hidden>;

/// The fewest superpages of a hidden area: stages, reserve and pinned log, and as many again.
const LEAST: u32 = 64;

/// Sectors of device for a byte of budget, unless one is asked for: 4 MiB for 32 GiB.
const BUDGET: u64 = 16;

/// Roots and map groups, the hidden area, the homes. The hidden area has `count` superpages.
fn hidden(superpage: u32, total: u32, count: u32, grain: u32) -> Result<Layout, PlanError> {
    if count < LEAST {
        return Err(PlanError(
            "the layer needs a hidden area of 64 superpages, and a device of four times as many",
        ));
    }
    let pages = superpage / SECTORS_PER_BLOCK;
    let entries = u64::from(count) * u64::from(superpage);
    let groups = entries.div_ceil(u64::from(pages) * MAP_ENTRIES as u64) as u32;
    let root = Layout::root_superpages(groups, pages);
    let home = 4 * root + 2 * groups + count;
    let live = total.checked_sub(home).filter(|live| *live > 0);
    let live = live.ok_or(PlanError("the device is too small for a hidden area"))?;
    let exported = u64::from(live) * u64::from(superpage);
    if exported > MOST_SECTORS {
        return Err(PlanError("a layer with a hidden area maps at most 1 TiB"));
    }
    let kills = if grain == 1 { 8192 } else { 1024.max(2 * superpage) };
    let reserve = if grain == 1 { FLOOR + 2 } else { FLOOR + 8 };
    Ok(Layout {
        superpage,
        root,
        groups,
        count,
        exported,
        entries,
        spare: count / 2,
        reserve,
        grain,
        kills,
        home: Some(home),
    })
}

/// Bytes of everything that grows with the hidden area or the volume.
fn memory(layout: &Layout) -> u64 {
    let pool = Pool::memory(layout.count, layout.superpage);
    let movers = Movers::memory(layout.superpage);
    Map::memory(layout) + pool + Direct::memory(layout.kills) + movers
}

/// sHATL's part of the machine.
#[derive(Debug)]
pub struct Hidden {
    route: Route,
    movers: Movers,
    forward: Forward,
}

impl Scheme for Hidden {
    type Table = Map;

    fn layout(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Layout, PlanError> {
        let total = Layout::superpages(config, devices)?;
        let sp = config.superpage;
        if config.kind == LayerKind::Shatl {
            let asked = config.hidden / u64::from(sp);
            return hidden(sp, total, asked.min(u64::from(total / 4)) as u32, 1);
        }
        let budget = config.budget.unwrap_or(u64::from(total) * u64::from(sp) / BUDGET);
        let fits = |count: u32| {
            hidden(sp, total, count, COARSE).is_ok_and(|layout| memory(&layout) <= budget)
        };
        let (mut least, mut beyond) = (LEAST, total / 4 + 1);
        if config.budget.is_some() && !fits(least) {
            return Err(PlanError("hatl-auto needs a larger budget for a hidden area at all"));
        }
        while least + 1 < beyond {
            let middle = least.midpoint(beyond);
            if fits(middle) { least = middle } else { beyond = middle }
        }
        hidden(sp, total, least.min(total / 4), COARSE)
    }

    fn map_bytes(_config: &LayerConfig, layout: &Layout) -> u64 {
        memory(layout)
    }

    fn buffers() -> u32 {
        collect::MOVERS + 1
    }

    fn table(_config: &LayerConfig, layout: &Layout) -> Map {
        Map::new(layout)
    }

    fn new(config: &LayerConfig, layout: &Layout, buffers: impl Iterator<Item = Payload>) -> Self {
        let mut list = buffers;
        let forward = Forward::new(layout, list.next().expect("the layer gets its buffers"));
        let movers = Movers::new(config, layout, list);
        Hidden { route: Route::new(config), movers, forward }
    }

    fn pump_collection(machine: &mut Machine<Self>, now: Nanos, out: &mut Out) -> bool {
        let killed = machine.pump_killing(out);
        machine.pump_movers(now, out) | killed
    }

    fn is_collecting(&self) -> bool {
        self.movers.is_busy() || self.forward.is_busy()
    }

    fn pump_write(machine: &mut Machine<Self>, now: Nanos, req: u16, out: &mut Out) -> bool {
        machine.route(now, req, out)
    }

    fn done(machine: &mut Machine<Self>, op: Op, command: Command, ok: bool, out: &mut Out) {
        match op {
            Op::Direct { req } => machine.direct_done(req, command, ok, out),
            Op::Bounce { .. } | Op::OverlayBounce { .. } | Op::Forward { .. } => {
                machine.forward_done(op, command, ok);
            }
            op => machine.mover_done(op, command, ok),
        }
    }

    fn give_up(machine: &mut Machine<Self>, out: &mut Out) -> bool {
        machine.end_killing(out)
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
        let layout = Hidden::layout(&config, &[DeviceInfo::block(1 << 26, 128)]).unwrap();
        assert_eq!((layout.count, layout.entries * 8), (2048, 2 << 20));
        let reverse = 4 * layout.exported / 128;
        let rest = memory(&layout) - (2 << 20) - reverse;
        assert!(reverse < 2 << 20 && rest < 512 << 10, "{reverse} and {rest} bytes");
    }

    #[test]
    fn the_budget_of_hatl_auto_is_4_mib_for_32_gib_with_everything_in_it() {
        let config = LayerConfig::new(LayerKind::HatlAuto);
        let layout = Hidden::layout(&config, &[DeviceInfo::block(1 << 26, 128)]).unwrap();
        let bytes = memory(&layout);
        assert!(bytes <= 4 << 20 && bytes > (4 << 20) - 4096, "{bytes} bytes");
        assert!(layout.count > 8 * 2048, "{} superpages are hidden", layout.count);
        let config = LayerConfig { budget: Some(1 << 20), ..config };
        let less = Hidden::layout(&config, &[DeviceInfo::block(1 << 26, 128)]).unwrap();
        assert!(memory(&less) <= 1 << 20 && less.count < layout.count / 3);
        let config = LayerConfig { budget: Some(1 << 12), ..config };
        assert!(Hidden::layout(&config, &[DeviceInfo::block(1 << 26, 128)]).is_err());
    }

    #[test]
    fn a_small_device_gives_a_quarter_to_the_hidden_area() {
        let config = LayerConfig::new(LayerKind::Shatl);
        assert!(Hidden::layout(&config, &[DeviceInfo::block(255 * 128, 128)]).is_err());
        let layout = Hidden::layout(&config, &[DeviceInfo::block(256 * 128, 128)]).unwrap();
        assert_eq!(layout.count, 64);
    }
}
