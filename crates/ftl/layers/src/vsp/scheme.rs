//! What a layer of the family brings beside its table: when superpages are emptied, and where a
//! write goes.

use core::fmt::Debug;

use hostftl_core::{ArrayVec, Command, DeviceInfo, Payload};

use crate::config::{LayerConfig, PlanError};

use super::area::Area;
use super::collect::Collection;
use super::layout::Layout;
use super::ops::Cx;
use super::table::Table;

/// One of the layers that gather small writes into virtual superpages.
pub(crate) trait Scheme: Debug + Sized {
    /// Its map.
    type Table: Table;
    /// Whether a superpage weighs another thing than its live slots.
    const WEIGHS: bool = false;

    /// Where everything lies.
    fn layout(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Layout, PlanError>;
    /// Bytes of the map.
    fn map_bytes(config: &LayerConfig, layout: &Layout) -> u64;
    /// Bytes of what it keeps beside the map and [`Layout::meta_bytes`].
    fn meta_bytes(_config: &LayerConfig, _layout: &Layout) -> u64 {
        0
    }
    /// Payload buffers that it needs beside the stages.
    fn buffers() -> u32 {
        0
    }
    /// An empty map.
    fn table(config: &LayerConfig, layout: &Layout) -> Self::Table;
    /// The rest, with its buffers.
    fn new(config: &LayerConfig, layout: &Layout, buffers: impl Iterator<Item = Payload>) -> Self;

    /// The collection of whole superpages, where the scheme empties them so.
    fn collection(&mut self) -> Option<&mut Collection> {
        None
    }
    /// Empties superpages when few are free. Whether anything moved.
    fn pump_collection(&mut self, area: &mut Area<Self::Table>, cx: &mut CxOf<Self>) -> bool;
    /// Whether collection has commands under way.
    fn is_collecting(&self) -> bool;
    /// Moves the first write or trim on. Whether anything moved.
    fn pump_write(&mut self, area: &mut Area<Self::Table>, req: u16, cx: &mut CxOf<Self>) -> bool;
    /// Sends stages home that need no place in the data area. Whether anything moved.
    fn pump_homing(&mut self, _area: &mut Area<Self::Table>, _cx: &mut CxOf<Self>) -> bool {
        false
    }
    /// A command of the scheme's own is over.
    fn done(
        &mut self,
        area: &mut Area<Self::Table>,
        op: <Self::Table as Table>::Op,
        command: Command,
        ok: bool,
        cx: &mut CxOf<Self>,
    );
    /// The device failed: lets go of what waits for more than the answer to a command.
    fn give_up(&mut self, _area: &mut Area<Self::Table>, _cx: &mut CxOf<Self>) -> bool {
        false
    }
    /// See `Layer::facts`.
    fn facts(&self, _area: &Area<Self::Table>) -> ArrayVec<(&'static str, u64), 8> {
        ArrayVec::new()
    }
    /// The power is off.
    fn void(&mut self) {}
}

/// What the parts of a scheme take.
pub(crate) type CxOf<'a, S> = Cx<'a, <<S as Scheme>::Table as Table>::Op>;
