//! Formats with records of bytes.

pub mod blktrace;
pub mod fixed;
pub mod flat;
pub mod frames;
pub mod packed;
pub mod records;
