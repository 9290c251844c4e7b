//! Commands to zoned devices. `ZoneOrder` orders them, `PointerStorage` stores the write pointers.

use hostftl_core::{Command, DeviceError, SECTOR, Verdict};

use super::World;
use crate::pool::{Finished, Task};
use crate::transfer::Transfer;
use crate::zoned::{PendingFlush, PointerStorage, Turn, Zoned};

impl World {
    /// Starts a command to a zoned device, or adds its completion to `finished`.
    pub(super) fn submit_zoned(&mut self, slot: u32, device: usize, command: &mut Command) {
        let Zoned { zone_order, .. } = self.devices[device].as_zoned().expect("a zoned device");
        let turn = match command {
            Command::Report { about, into, .. } => {
                let result = zone_order.report(*about, into);
                return self.finished.push_back(Finished { slot, result });
            }
            Command::Read { lba, into, .. } => {
                zone_order.may_read(*lba, into.sectors().into()).map(|()| Turn::Now)
            }
            Command::Program { lba, tally, .. } => {
                zone_order.program(slot, *lba, tally.total().into())
            }
            Command::Reset { lba, sectors, .. } => match zone_order.reset(slot, *lba, *sectors) {
                Ok(true) => return self.reset_segment(slot, device, *lba, *sectors),
                Ok(false) => return self.end(slot, Ok(Verdict::default())),
                Err(error) => Err(error),
            },
            Command::Mark { lba, bad, .. } => return self.mark(slot, device, *lba, *bad),
            Command::Flush { .. } => {
                return self.settle(device, PendingFlush { slot, frees: None });
            }
            other => unreachable!("{other:?} is not a device command"),
        };
        match turn {
            Err(error) => self.end(slot, Err(error)),
            Ok(Turn::Now) => {
                let transfer = self.transfer(slot, command);
                self.start(transfer, device, None);
            }
            Ok(Turn::Later(segment)) => {
                let transfer = self.transfer(slot, command);
                let zoned = self.devices[device].as_zoned().expect("a zoned device");
                zoned.zone_order.park(segment, transfer);
            }
        }
    }

    fn end(&mut self, slot: u32, result: Result<Verdict, DeviceError>) {
        self.finished.push_back(Finished { slot, result });
    }

    fn reset_segment(&mut self, slot: u32, device: usize, lba: u64, sectors: u64) {
        let place = (self.devices[device].place(lba, sectors), sectors * SECTOR as u64);
        let (fd, memory) = (self.devices[device].fd(), self.devices[device].as_memory());
        // A read-only run resets the segment only in its overlay.
        if !self.overlays.is_empty() {
            return self.start(Transfer::reset(slot, fd, place.0, place.1), device, None);
        }
        if let Some(memory) = memory {
            memory.clear(place.0 as usize, place.1 as usize);
            return self.end(slot, Ok(Verdict::default()));
        }
        let zoned = self.devices[device].as_zoned().expect("a zoned device");
        match zoned.pointer_storage {
            PointerStorage::Kernel => {
                let stride = zoned.stride();
                self.call(device, Task::ResetZone(slot, fd, place.0, stride));
            }
            _ => self.settle(device, PendingFlush { slot, frees: Some(place) }),
        }
    }

    /// Marks a segment and stores the mark. The kernel has no such request.
    fn mark(&mut self, slot: u32, device: usize, lba: u64, bad: bool) {
        let Zoned { zone_order, pointer_storage, .. } =
            self.devices[device].as_zoned().expect("a zoned device");
        let marked = match pointer_storage {
            PointerStorage::Kernel => Err(DeviceError::Unsupported),
            _ => zone_order.mark(lba, bad),
        };
        let sectors = u64::from(zone_order.shape.size);
        match marked {
            Ok(true) if bad => self.settle(device, PendingFlush { slot, frees: None }),
            // A segment that is marked good again is empty.
            Ok(true) => self.reset_segment(slot, device, lba, sectors),
            done => self.end(slot, done.map(|_| Verdict::default())),
        }
    }

    /// Makes completed writes and the write pointers durable.
    fn settle(&mut self, device: usize, wait: PendingFlush) {
        let (fd, writeback_errors) =
            (self.devices[device].fd(), self.devices[device].writeback_errors().clone());
        let Zoned { zone_order, pointer_storage, .. } =
            self.devices[device].as_zoned().expect("a zoned device");
        match pointer_storage {
            PointerStorage::Memory => self.end(wait.slot, Ok(Verdict::default())),
            PointerStorage::Kernel => self.start(Transfer::sync(wait.slot, fd), device, None),
            PointerStorage::Table(table) => {
                let mut finished = Vec::new();
                let settling = table.settle(zone_order, fd, &writeback_errors, wait, &mut finished);
                finished.into_iter().for_each(|slot| self.end(slot, Ok(Verdict::default())));
                settling.into_iter().for_each(|it| self.call(device, Task::Settle(it)));
            }
        }
    }

    /// Updates the segments after a command, and starts the commands that waited for it.
    pub(super) fn zoned_over(
        &mut self,
        slot: u32,
        command: &Command,
        result: Result<Verdict, DeviceError>,
    ) {
        let Some(device) = command.device().map(usize::from) else { return };
        let Some(Zoned { zone_order, pointer_storage, .. }) = self.devices[device].as_zoned()
        else {
            return;
        };
        if let PointerStorage::Table(table) = pointer_storage {
            table.settled(slot, result.is_ok());
        }
        let (mut failed, mut next) = (Vec::new(), None);
        match command {
            Command::Program { lba, tally, .. } => {
                next = zone_order.programmed(slot, *lba, tally.total().into(), result, &mut failed);
            }
            Command::Reset { lba, .. } => zone_order.was_reset(slot, *lba, result.is_err()),
            _ => {}
        }
        let error = result.err().unwrap_or(DeviceError::Media);
        failed.into_iter().for_each(|slot| self.end(slot, Err(error)));
        next.into_iter().for_each(|transfer| self.start(transfer, device, None));
        self.settle_next(device);
    }

    /// Starts the settlings that waited, one after the other.
    fn settle_next(&mut self, device: usize) {
        while let Some(Zoned { pointer_storage: PointerStorage::Table(table), .. }) =
            self.devices[device].as_zoned()
            && let Some(wait) = table.next()
        {
            self.settle(device, wait);
        }
    }
}
