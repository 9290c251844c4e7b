//! sHATL: every sector has a home, and small writes go to a hidden area first.
//!
//! Source: Choi and Shin, sHATL; its mode `ressd` is ReSSD (Lee and others), as they describe it.
//! The crash protocol is ours: the hidden area is a small log of virtual superpages as `hard` has
//! it ([`crate::vsp`]), and what is written home goes by the rules of [`crate::vsp::direct`].
//!
//! [`map`] says what the hidden area holds; [`route`] decides where a write goes and writes home;
//! [`collect`] moves whole logical superpages (LSPs) home to empty the hidden area.
//!
//! Invariants
//! - A sector that the hidden area holds is read from there, every other from its home.
//! - Of the writes, trims and moves under way, none that goes home overlaps another one: a read
//!   sees the versions of a sector in one order.
//! - A hidden copy dies when what replaced it at home is over; see [`crate::vsp::direct`].

mod collect;
mod map;
mod route;

use hostftl_core::{Command, DeviceInfo, Nanos, Out, Payload, SECTORS_PER_BLOCK};
use hostftl_format::hard::MAP_ENTRIES;

use crate::config::{LayerConfig, PlanError};
use crate::vsp::layout::{FLOOR, Layout};
use crate::vsp::ops::Op;
use crate::vsp::{Machine, Scheme};
use collect::Movers;
use map::{MOST_SECTORS, Map};
use route::Route;

/// The layer.
pub type Shatl = Machine<Hidden>;

/// The fewest superpages of a hidden area: stages, reserve and pinned log, and as many again.
const LEAST: u32 = 64;

/// sHATL's part of the machine.
#[derive(Debug)]
pub struct Hidden {
    route: Route,
    movers: Movers,
}

impl Scheme for Hidden {
    type Table = Map;

    /// Roots and map groups, the hidden area, the homes. The hidden area is as large as was asked
    /// for, but no more than a quarter of the device.
    fn layout(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Layout, PlanError> {
        let total = Layout::superpages(config, devices)?;
        let superpage = config.superpage;
        let asked = config.hidden / u64::from(superpage);
        let count = asked.min(u64::from(total / 4)) as u32;
        if count < LEAST {
            return Err(PlanError(
                "shatl needs a hidden area of 64 superpages, and a device of four times as many",
            ));
        }
        let pages = superpage / SECTORS_PER_BLOCK;
        let entries = u64::from(count) * u64::from(superpage);
        let groups = entries.div_ceil(u64::from(pages) * MAP_ENTRIES as u64) as u32;
        let root = Layout::root_superpages(groups, pages);
        let home = 4 * root + 2 * groups + count;
        let live = total.checked_sub(home).filter(|live| *live > 0);
        let live = live.ok_or(PlanError("the device is too small for shatl"))?;
        let exported = u64::from(live) * u64::from(superpage);
        if exported > MOST_SECTORS {
            return Err(PlanError("shatl maps at most 1 TiB"));
        }
        Ok(Layout {
            superpage,
            root,
            groups,
            count,
            exported,
            entries,
            spare: count / 2,
            reserve: FLOOR + 2,
            home: Some(home),
        })
    }

    fn map_bytes(_config: &LayerConfig, layout: &Layout) -> u64 {
        Map::memory(layout)
    }

    fn buffers() -> u32 {
        collect::MOVERS
    }

    fn table(_config: &LayerConfig, layout: &Layout) -> Map {
        Map::new(layout)
    }

    fn new(config: &LayerConfig, layout: &Layout, buffers: impl Iterator<Item = Payload>) -> Self {
        Hidden { route: Route::new(config), movers: Movers::new(config, layout, buffers) }
    }

    fn pump_collection(machine: &mut Machine<Self>, now: Nanos, out: &mut Out) -> bool {
        let killed = machine.pump_killing(out);
        machine.pump_movers(now, out) | killed
    }

    fn is_collecting(&self) -> bool {
        self.movers.is_busy()
    }

    fn pump_write(machine: &mut Machine<Self>, now: Nanos, req: u16, out: &mut Out) -> bool {
        machine.route(now, req, out)
    }

    fn done(machine: &mut Machine<Self>, op: Op, command: Command, ok: bool, out: &mut Out) {
        match op {
            Op::Direct { req } => machine.direct_done(req, command, ok, out),
            op => machine.mover_done(op, command, ok),
        }
    }

    fn give_up(machine: &mut Machine<Self>, out: &mut Out) -> bool {
        machine.end_killing(out)
    }

    fn void(&mut self) {
        self.movers.void();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LayerKind;

    #[test]
    fn the_paper_s_drive_needs_2_mib_and_the_reverse_map() {
        let config = LayerConfig::new(LayerKind::Shatl);
        let layout = Hidden::layout(&config, &[DeviceInfo::block(1 << 26, 128)]).unwrap();
        assert_eq!((layout.count, layout.entries * 8), (2048, 2 << 20));
        let reverse = 4 * layout.exported / 128;
        let rest = Map::memory(&layout) - (2 << 20) - reverse;
        assert!(reverse < 2 << 20 && rest < 512 << 10, "{reverse} and {rest} bytes");
    }

    #[test]
    fn a_small_device_gives_a_quarter_to_the_hidden_area() {
        let config = LayerConfig::new(LayerKind::Shatl);
        assert!(Hidden::layout(&config, &[DeviceInfo::block(255 * 128, 128)]).is_err());
        let layout = Hidden::layout(&config, &[DeviceInfo::block(256 * 128, 128)]).unwrap();
        assert_eq!(layout.count, 64);
    }
}
