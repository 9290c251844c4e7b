//! Zoned devices: where each zone is written next, and what a start finds out about zones.

pub(in crate::log) mod report;
pub(in crate::log) mod write_pointers;
pub(in crate::log) mod zone_io;
