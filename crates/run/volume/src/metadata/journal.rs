//! The journal's device of a volume: the last of those with which it was made, if the layer has
//! one. Devices that came later are behind it.

use hostftl_format::superblock::Superblock;
use hostftl_io::Device;
use hostftl_layers::LayerConfig;

/// The length of a journal's file that `create` makes: more than a ring uses with 64 KiB chunks.
pub(crate) const FILE_BYTES: u64 = 64 << 20;

/// What to say of a volume whose journal is not there.
pub(crate) const AWAY: &str = "DEGRADED: the volume is without its journal; after a clean stop \
                               everything is served all the same, and flushes seal short rows; \
                               otherwise it opens only with the journal";

/// The journal's bit in a set of the volume's `count` devices, where the layer knows its members;
/// none where there is no journal.
pub(crate) fn bit(layer: &LayerConfig, count: usize) -> u16 {
    match (layer.log.journal, layer.members.born) {
        (false, _) => 0,
        (true, 0) => 1 << (count - 1),
        (true, born) => 1 << (born - 1),
    }
}

/// The same, as a superblock says it.
pub(crate) fn bit_in(layer: &LayerConfig, said: &Superblock) -> u16 {
    if layer.log.journal { bit_of(said) } else { 0 }
}

/// The same, of a volume that has a journal.
pub(crate) fn bit_of(said: &Superblock) -> u16 {
    let made = if said.born == 0 { said.count } else { said.born };
    1 << (made - 1)
}

/// The devices that hold what the volume holds.
pub(crate) fn others<'a>(
    layer: &LayerConfig,
    devices: &'a [Device],
) -> impl Iterator<Item = &'a Device> + use<'a> {
    let journal = bit(layer, devices.len());
    let all = devices.iter().enumerate();
    all.filter(move |(index, _)| journal >> index & 1 == 0).map(|(_, device)| device)
}
