//! Bytes on media: each structure is parsed from a page and emitted to a page only here.
//!
//! `docs/FORMAT.md` has the byte maps.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod assemble;
pub mod backup;
pub mod changes;
pub mod claim;
pub mod hard;
pub mod letters;
pub mod log;
pub mod page;
pub mod planted;
pub mod report;
pub mod roster;
pub mod scrambler;
pub mod session;
pub mod steps;
pub mod superblock;
pub mod tier;
pub mod zonefile;
pub mod zonepages;
pub mod zones;
