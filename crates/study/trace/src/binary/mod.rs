//! Formats with binary records.

pub(crate) mod blktrace;
pub(crate) mod fixed;
pub(crate) mod flat;
pub(crate) mod frames;
pub(crate) mod packed;
pub(crate) mod records;
