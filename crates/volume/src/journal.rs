//! The journal's device of a volume: the last of the stack, if the layer has one.

use hostftl_io::Device;
use hostftl_layers::LayerConfig;

/// The length of a journal's file that `create` makes: more than a ring uses with 64 KiB chunks.
pub(crate) const FILE_BYTES: u64 = 64 << 20;

/// What to say of a volume whose journal is not there.
pub(crate) const AWAY: &str = "DEGRADED: the volume is without its journal; after a clean stop \
                               everything is served all the same, and flushes seal short rows; \
                               otherwise it opens only with the journal";

/// The journal's bit in a set of the volume's `count` devices; none where there is no journal.
pub(crate) fn bit(layer: &LayerConfig, count: usize) -> u16 {
    if layer.log.journal { 1 << (count - 1) } else { 0 }
}

/// The devices that hold what the volume holds.
pub(crate) fn others<'a>(layer: &LayerConfig, devices: &'a [Device]) -> &'a [Device] {
    &devices[..devices.len() - usize::from(layer.log.journal)]
}
