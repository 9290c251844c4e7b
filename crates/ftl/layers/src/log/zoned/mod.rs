//! Zoned devices: write pointers and commands to zones.

pub(in crate::log) mod write_pointers;
pub(in crate::log) mod zone_io;
