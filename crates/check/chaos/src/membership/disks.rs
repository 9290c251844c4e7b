//! Devices from the view of the membership: two copies of a superblock, and the data of the layer.

use hostftl_core::DeviceSet;
use hostftl_format::assemble::{Chosen, choose};
use hostftl_format::superblock::{SuperFault, Superblock, Text, places};

use crate::dice::Dice;

/// Data of the layer on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Data {
    /// Newest node of the volume's history that is complete here.
    pub node: u32,
    /// Number of the newest root.
    pub root: u64,
    /// Lost members, as recorded in that root.
    pub lost: DeviceSet,
    /// Number of the last root on all members that were not lost, as recorded in that root.
    pub everywhere: u64,
    /// Whether it has all data up to that node; false while a joining device misses some.
    pub whole: bool,
}

/// Device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Disk {
    /// Head and tail copy.
    pub copies: [Result<Superblock, SuperFault>; 2],
    pub data: Data,
    /// Whether it is accessible.
    pub here: bool,
    /// Whether writes of its superblocks fail.
    pub sick: bool,
}

impl Disk {
    /// Returns member `index` of a new volume of `count` devices.
    pub(super) fn new(index: u8, count: u8) -> Self {
        let mut members = [[0; 16]; 16];
        (0..count).for_each(|index| members[usize::from(index)] = [index + 1; 16]);
        let superblock = Superblock {
            generation: 1,
            volume: [9; 16],
            device: members[usize::from(index)],
            index,
            count,
            layer_format: 1,
            layer: Text::new("log").expect("a short text"),
            data_start: 2048,
            data_len: 2048,
            device_sectors: 8192,
            exported: 1000,
            created: 1,
            label: Text::new("").expect("a short text"),
            change: 1,
            changed: 1,
            members,
            lengths: core::array::from_fn(|at| if at < usize::from(count) { 2048 } else { 0 }),
            ..Superblock::default()
        };
        let data = Data { node: 0, root: 1, lost: DeviceSet::EMPTY, everywhere: 1, whole: true };
        Disk { copies: [Ok(superblock); 2], data, here: true, sick: false }
    }

    /// Returns a device that belongs to no volume.
    pub(super) fn blank() -> Self {
        let data = Data { node: 0, root: 0, lost: DeviceSet::EMPTY, everywhere: 0, whole: false };
        Disk { copies: [Err(SuperFault::Foreign); 2], data, here: true, sick: false }
    }

    /// Returns the superblock of the device.
    pub(super) fn superblock(&self) -> Result<Chosen, SuperFault> {
        choose(self.copies[0], self.copies[1])
    }

    /// Writes a copy of the superblock, encoded and parsed if `bytes`.
    pub(super) fn write(&mut self, copy: usize, superblock: &Superblock, bytes: bool) {
        self.copies[copy] = if bytes {
            let at = places(superblock.device_sectors)[copy];
            Superblock::parse(&superblock.emit(at), at)
        } else {
            Ok(*superblock)
        };
    }

    /// Interrupts the write of a copy: the copy is old, new or damaged.
    pub(super) fn tear(&mut self, copy: usize, superblock: &Superblock, dice: &mut Dice) {
        match dice.below(3) {
            0 => {}
            1 => self.copies[copy] = Ok(*superblock),
            _ => self.copies[copy] = Err(SuperFault::Damaged),
        }
    }
}
