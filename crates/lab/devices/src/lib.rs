//! Models of the devices of published systems: storage-class memory and eMMC chips behind an FPGA.
//!
//! They are kinds of devices like those of `hostftl-drives`. A program that offers them calls
//! [`register`] first.

pub mod olive;
mod plain;
mod queue;
pub mod scm;

/// Registers the kinds of this crate, `scm` and `emmc`. Further calls have no effect.
pub fn register() {
    hostftl_drives::register(&[&scm::register::REGISTRATION, &olive::register::REGISTRATION]);
}
