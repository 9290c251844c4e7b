//! Devices that have left a volume that is served: they are closed, so that they can be taken away,
//! or used for something else.

use std::thread;

use hostftl_io::{Device, Driver, IoError};
use hostftl_layers::AnyLayer;

use crate::running::jobs::Jobs;

/// Closes those that have left, which all superblocks say, and to which no command is under way.
pub(crate) fn close(driver: &mut Driver<AnyLayer>, jobs: &mut Jobs) {
    let left = jobs.left();
    for index in (0..16).filter(|index| left >> index & 1 == 1) {
        if driver.is_busy(index) {
            continue;
        }
        match close_one(index, driver, jobs) {
            // That may take a while: clients do not wait for it, unless there is no thread.
            Ok(old) => drop(thread::Builder::new().name("closing".into()).spawn(|| drop(old))),
            Err(error) => jobs.stays_open(index, &error),
        }
        jobs.is_closed(index);
    }
}

/// Nothing is in its place from now on; the keeper closes its own way to it.
fn close_one(index: u8, driver: &mut Driver<AnyLayer>, jobs: &mut Jobs) -> Result<Device, IoError> {
    let device = &driver.devices()[usize::from(index)];
    let absent = Device::absent(device.name(), device.info().sectors);
    let nothing = absent.reserve([0, 0])?;
    let old = driver.replace(index, absent)?;
    jobs.close_device(index, nothing);
    Ok(old)
}
