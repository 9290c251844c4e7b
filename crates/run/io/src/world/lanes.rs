//! Replacement of a device, the threads that make calls to devices, and the commands that each
//! device has in flight.

use std::sync::Arc;

use hostftl_core::{Command, Token};

use super::World;
use crate::device::Device;
use crate::error::IoError;
use crate::placed::PlacedWrites;
use crate::pool::Pool;
use crate::stats::DeviceStats;
use crate::transfer;
use crate::waker::Waker;

/// Threads for each device whose transfers io_uring does not execute.
const DEVICE_THREADS: usize = 8;

/// Starts `count` threads, which wake the thread that sleeps on `waker`.
pub(super) fn threads(count: usize, waker: &Arc<Waker>) -> Result<Pool, IoError> {
    Pool::new(count, waker.clone()).map_err(IoError::Start)
}

/// Returns the number of threads that make calls to a device.
pub(super) fn threads_for(device: &Device, is_placed: bool, has_ring: bool) -> usize {
    let calls = is_placed || !has_ring && device.fd() != transfer::NO_FILE;
    if calls { DEVICE_THREADS } else { 0 }
}

impl World {
    /// Replaces a device that has no command in flight. Returns the old device.
    pub(crate) fn replace(&mut self, index: usize, device: Device) -> Result<Device, IoError> {
        let under_way = self.under_way(index);
        // The kernel or the server may still use the buffers of these commands.
        if under_way > 0 {
            let (name, old) = (device.name(), self.devices[index].name());
            return Err(IoError::Unended { name: name.into(), old: old.into(), under_way });
        }
        let placed = PlacedWrites::from_device(&device);
        let count = threads_for(&device, placed.is_some(), self.ring.is_some());
        // The only step that can fail comes first, so that an error changes nothing.
        self.lanes[index] = threads(count, &self.waker)?;
        self.placed[index] = placed;
        device.as_remote().iter().for_each(|remote| remote.listen(self.waker.clone()));
        self.stats.devices[index] = DeviceStats::default();
        Ok(std::mem::replace(&mut self.devices[index], device))
    }

    /// Counts the commands to a device that have started and not ended.
    pub(crate) fn under_way(&self, device: usize) -> usize {
        let to = |flight: &&(Token, Command)| flight.1.device().map(usize::from) == Some(device);
        let held = self.held.iter().filter(|held| held.device == device);
        let held: usize = held.map(|held| held.slots.len()).sum();
        self.flights.iter().flatten().filter(to).count() - held
    }

    /// Lists the devices that still have commands in flight, with their number.
    pub(crate) fn unanswered(&self) -> Vec<(&str, usize)> {
        let names = self.devices.iter().map(Device::name).enumerate();
        names
            .map(|(index, name)| (name, self.under_way(index)))
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}
