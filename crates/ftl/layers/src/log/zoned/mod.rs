//! Zoned devices: where each zone is written next.

pub(in crate::log) mod write_pointers;
pub(in crate::log) mod zone_io;
