//! The journal device of a volume: the last of its original devices, if the layer uses a journal.
//! Devices that were added later follow it.

use hostftl_format::superblock::Superblock;
use hostftl_io::Device;
use hostftl_layers::LayerConfig;

/// Length of a journal file that `create` makes. With 64 KiB chunks the ring uses less.
pub(crate) const FILE_BYTES: u64 = 64 << 20;

/// Note on a volume whose journal is missing.
pub(crate) const AWAY: &str = "DEGRADED: the journal is absent; flushes write short stripes, and \
                               after an unclean shutdown the volume needs the journal to open";

/// Returns the journal's bit in a set of the volume's `count` devices, from the member list of the
/// layer; 0 without a journal.
pub(crate) fn bit(layer: &LayerConfig, count: usize) -> u16 {
    match (layer.log.journal, layer.members.born) {
        (false, _) => 0,
        // The members never changed, so the last device is the journal.
        (true, 0) => 1 << (count - 1),
        (true, born) => 1 << (born - 1),
    }
}

/// Returns the journal's bit from a superblock; 0 without a journal.
pub(crate) fn bit_in(layer: &LayerConfig, said: &Superblock) -> u16 {
    if layer.log.journal { recorded_bit(said) } else { 0 }
}

/// Returns the journal's bit of a volume that has a journal.
pub(crate) fn recorded_bit(said: &Superblock) -> u16 {
    let made = if said.born == 0 { said.count } else { said.born };
    1 << (made - 1)
}

/// Returns the devices that hold data, without the journal.
pub(crate) fn others<'a>(
    layer: &LayerConfig,
    devices: &'a [Device],
) -> impl Iterator<Item = &'a Device> + use<'a> {
    let journal = bit(layer, devices.len());
    let all = devices.iter().enumerate();
    all.filter(move |(index, _)| journal >> index & 1 == 0).map(|(_, device)| device)
}
