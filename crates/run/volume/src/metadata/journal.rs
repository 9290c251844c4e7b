//! The journal device of a volume: the last of its original devices, if the layer uses a journal.
//! Devices that were added later follow it.

use hostftl_core::DeviceSet;
use hostftl_format::superblock::Superblock;
use hostftl_io::Device;
use hostftl_layers::LayerConfig;

/// Length of a journal file that `create` makes. With 64 KiB chunks the ring uses less.
pub(crate) const FILE_BYTES: u64 = 64 << 20;

/// Note on a volume whose journal is missing.
pub(crate) const AWAY: &str = "DEGRADED: the journal is absent; flushes write short stripes, and \
                               after an unclean shutdown the volume needs the journal to open";

/// Returns the set with the journal among the volume's `count` devices, from the member list of the
/// layer. Empty without a journal.
pub(crate) fn set(layer: &LayerConfig, count: usize) -> DeviceSet {
    match (layer.log.journal, layer.members.born) {
        (false, _) => DeviceSet::EMPTY,
        // The members never changed, so the last device is the journal.
        (true, 0) => DeviceSet::single(count as u8 - 1),
        (true, born) => DeviceSet::single(born - 1),
    }
}

/// Returns the set with the journal, from a superblock. Empty without a journal.
pub(crate) fn recorded(layer: &LayerConfig, newest: &Superblock) -> DeviceSet {
    if layer.log.journal { DeviceSet::single(number(newest)) } else { DeviceSet::EMPTY }
}

/// Returns the number of the journal of a volume that has one.
pub(crate) fn number(newest: &Superblock) -> u8 {
    if newest.born == 0 { newest.count - 1 } else { newest.born - 1 }
}

/// Returns the devices that hold data, without the journal.
pub(crate) fn others<'a>(
    layer: &LayerConfig,
    devices: &'a [Device],
) -> impl Iterator<Item = &'a Device> + use<'a> {
    let journal = set(layer, devices.len());
    let all = (0..).zip(devices);
    all.filter(move |(index, _)| !journal.contains(*index)).map(|(_, device)| device)
}
