//! Commands that query NVMe drives, and parsers for the returned pages. The crate accesses no files
//! and has no `unsafe`.
//!
//! [`Facts::gather`] queries everything through a [`Carrier`], which is the kernel or a test with
//! recorded pages. Layouts are those of the NVMe Base Specification 2.1, the NVM Command Set
//! Specification 1.1, and the OCP Datacenter NVMe SSD Specification 2.5 (page C0h).
#![forbid(unsafe_code)]

mod bytes;
mod command;
mod endurance;
mod facts;
mod fdp;
mod identify;
mod ocp;
mod smart;
#[cfg(test)]
mod tests;

pub use command::{Carrier, Command, PAGE_BYTES, Queue, refusal};
pub use endurance::Endurance;
pub use facts::{Facts, Media, Source};
pub use fdp::{Configuration, Fdp, Placement, Statistics};
pub use identify::{Controller, Namespace};
pub use ocp::Ocp;
pub use smart::Smart;
