//! Operation without a device, and the rebuild of its chunks from the other devices.

pub(in crate::log) mod failed_devices;
pub(in crate::log) mod metadata;
pub(in crate::log) mod rebuild;
pub(in crate::log) mod timed_out;
