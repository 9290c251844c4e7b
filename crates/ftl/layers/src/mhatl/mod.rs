//! mHATL: the longest possible runs of sectors are mapped, and few of them are kept in memory.
//!
//! Source: Choi and Shin, mHATL. The crash protocol is that of [`crate::vsp`], with the map on
//! media of `hard`.
//!
//! The runs are [`crate::vsp::leaves`], a buddy tree for each logical superpage (LSP). [`map`]
//! finds them by logical and by virtual sector, [`gather`] merges them, and [`round`] schedules the
//! merging.

mod gather;
mod map;
mod ops;
pub(crate) mod params;
pub(crate) mod register;
mod round;

use hostftl_core::{ArrayVec, Command, DeviceInfo, Payload};

use crate::config::{LayerConfig, PlanError};
use crate::kit::Shell;
use crate::kit::requests::Kind;
use crate::vsp::collect::Collection;
use crate::vsp::layout::Layout;
use crate::vsp::{Area, CxOf, Machine, Scheme};
use gather::Jobs;
use map::Map;
use ops::Op;
use round::Round;

/// The layer `mhatl`.
pub(crate) type Mhatl = Shell<Machine<Buddies>>;

/// The scheme of `mhatl`.
#[derive(Debug)]
pub(crate) struct Buddies {
    collection: Collection,
    jobs: Jobs,
    round: Round,
}

impl Scheme for Buddies {
    type Table = Map;

    fn layout(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Layout, PlanError> {
        if !config.superpage.is_power_of_two() {
            return Err(PlanError("mhatl needs a superpage that is a power of two"));
        }
        let layout = Layout::logged(config, devices)?;
        if !map::fits(&layout, config.mhatl.leaves) {
            return Err(PlanError(
                "mhatl maps less than 2^31 leaves, about 119 TiB with superpages of 64 KiB; use a \
                 larger superpage",
            ));
        }
        Ok(layout)
    }

    /// Returns four bytes for each leaf that the cap allows, as the paper counts them.
    fn map_bytes(config: &LayerConfig, _layout: &Layout) -> u64 {
        4 * u64::from(config.mhatl.leaves)
    }

    fn meta_bytes(config: &LayerConfig, layout: &Layout) -> u64 {
        let all = Map::memory(layout, config.mhatl.leaves) + Jobs::memory(layout.superpage);
        all - Self::map_bytes(config, layout)
    }

    fn table(config: &LayerConfig, layout: &Layout) -> Map {
        Map::new(layout, config.mhatl.leaves)
    }

    fn new(config: &LayerConfig, layout: &Layout, _: impl Iterator<Item = Payload>) -> Self {
        let collection = Collection::default();
        Buddies { collection, jobs: Jobs::new(layout), round: Round::new(config) }
    }

    fn collection(&mut self) -> Option<&mut Collection> {
        Some(&mut self.collection)
    }

    fn pump_collection(&mut self, area: &mut Area<Map>, cx: &mut CxOf<Self>) -> bool {
        let collected = self.collection.pump_vgc(area, cx);
        self.pump_jobs(area, cx) | self.pump_round(area, cx) | collected
    }

    fn is_collecting(&self) -> bool {
        self.collection.is_reading() || self.jobs.is_busy()
    }

    fn pump_write(&mut self, area: &mut Area<Map>, req: u16, cx: &mut CxOf<Self>) -> bool {
        match cx.request(req).kind {
            Kind::Trim => self.leaves_fit(area) && area.gather(req, u64::MAX, cx),
            _ => self.write_leaves(area, req, cx),
        }
    }

    fn facts(&self, area: &Area<Map>) -> ArrayVec<(&'static str, u64), 8> {
        let (leaves, cap) = (&area.table.leaves, self.round.cap);
        let (count, touched) = (leaves.count(), leaves.touched());
        ArrayVec::from_iter([
            ("leaves", count.into()),
            ("leaf_cap", cap.into()),
            ("leaf_bytes", 4 * u64::from(count)),
            ("touched_superpages", touched.into()),
            ("cap_exceeded", u64::from(count > cap)),
            ("cap_is_tight", u64::from(2 * u64::from(touched) > u64::from(cap))),
        ])
    }

    fn done(
        &mut self,
        area: &mut Area<Map>,
        op: Op,
        command: Command,
        ok: bool,
        _: &mut CxOf<Self>,
    ) {
        self.gathered(area, op, command, ok);
    }
}
