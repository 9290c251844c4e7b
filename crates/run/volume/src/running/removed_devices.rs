//! Closing of devices that were removed from a served volume, so that they can be disconnected or
//! reused.

use std::thread;

use hostftl_io::{Device, Driver, IoError};
use hostftl_layers::AnyLayer;

use crate::running::jobs::Jobs;

/// Closes the removed devices that all superblocks record and that have no commands in flight.
pub(crate) fn close(driver: &mut Driver<AnyLayer>, jobs: &mut Jobs) {
    for index in jobs.closable() {
        // A command in flight uses the handle; the next turn tries again.
        if driver.is_busy(index) {
            continue;
        }
        match close_one(index, driver, jobs) {
            // Closing may block, so a separate thread does it. Without a thread, clients have to
            // wait.
            Ok(old) => drop(thread::Builder::new().name("closing".into()).spawn(|| drop(old))),
            Err(error) => jobs.stays_open(index, &error),
        }
        // Also after a failure, which is reported once and not at each turn.
        jobs.is_closed(index);
    }
}

/// Puts an absent device at its index, and closes the handle of the superblock writer too.
fn close_one(index: u8, driver: &mut Driver<AnyLayer>, jobs: &mut Jobs) -> Result<Device, IoError> {
    let device = &driver.devices()[usize::from(index)];
    let absent = Device::absent(device.name(), device.info().sectors);
    // The superblock writer has its own handle, which has to be closed as well.
    let nothing = absent.reserve([0, 0])?;
    let old = driver.replace(index, absent)?;
    jobs.close_device(index, nothing);
    Ok(old)
}
