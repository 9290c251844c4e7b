//! Interface of a layer to this engine: its garbage collection, and the destination of a write.

use core::fmt::Debug;

use hostftl_core::{ArrayVec, Command, DeviceInfo, Payload};

use crate::config::{LayerConfig, PlanError};

use super::area::Area;
use super::collect::Collection;
use super::layout::Layout;
use super::ops::Cx;
use super::table::Table;

/// A layer that gathers small writes into virtual superpages.
pub(crate) trait Scheme: Debug + Sized {
    /// Map of the layer.
    type Table: Table;
    /// Whether the weight of a superpage is not its number of valid slots.
    const WEIGHS: bool = false;

    /// Returns the layout of the device.
    fn layout(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Layout, PlanError>;
    /// Returns the size of the map, in bytes.
    fn map_bytes(config: &LayerConfig, layout: &Layout) -> u64;
    /// Returns the bytes that the scheme needs in addition to the map and [`Area::meta_bytes`].
    fn meta_bytes(_config: &LayerConfig, _layout: &Layout) -> u64 {
        0
    }
    /// Returns the number of payload buffers that the scheme needs in addition to the stages.
    fn buffers() -> u32 {
        0
    }
    /// Creates an empty map.
    fn table(config: &LayerConfig, layout: &Layout) -> Self::Table;
    /// Creates the state of the scheme, with its buffers.
    fn new(config: &LayerConfig, layout: &Layout, buffers: impl Iterator<Item = Payload>) -> Self;

    /// Returns the collection of whole superpages, if the scheme has one.
    fn collection(&mut self) -> Option<&mut Collection> {
        None
    }
    /// Collects superpages when few are free. Returns whether anything moved.
    fn pump_collection(&mut self, area: &mut Area<Self::Table>, cx: &mut CxOf<Self>) -> bool;
    /// Returns whether garbage collection has commands in flight.
    fn is_collecting(&self) -> bool;
    /// Advances the write or trim `req`. Returns whether anything moved.
    fn pump_write(&mut self, area: &mut Area<Self::Table>, req: u16, cx: &mut CxOf<Self>) -> bool;
    /// Writes stages home that need no space in the data area. Returns whether anything moved.
    fn pump_homing(&mut self, _area: &mut Area<Self::Table>, _cx: &mut CxOf<Self>) -> bool {
        false
    }
    /// Completes a command of the scheme.
    fn done(
        &mut self,
        area: &mut Area<Self::Table>,
        op: <Self::Table as Table>::Op,
        command: Command,
        ok: bool,
        cx: &mut CxOf<Self>,
    );
    /// Releases waiting state after a device failure. Returns whether anything moved.
    fn release_waiting(&mut self, _area: &mut Area<Self::Table>, _cx: &mut CxOf<Self>) -> bool {
        false
    }
    /// Implements `Layer::facts`.
    fn facts(&self, _area: &Area<Self::Table>) -> ArrayVec<(&'static str, u64), 8> {
        ArrayVec::new()
    }
    /// Discards all payloads at a power cut.
    fn void(&mut self) {}
}

/// Context of the parts of a scheme.
pub(crate) type CxOf<'a, S> = Cx<'a, <<S as Scheme>::Table as Table>::Op>;
