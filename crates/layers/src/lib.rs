//! Translation layers: pure state machines over 1 to 16 devices.
//!
//! [`AnyLayer`] is the one type that drivers hold; a new layer adds a folder, a [`LayerKind`] and
//! an arm in `any.rs`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod any;
mod config;
pub mod exerciser;
mod hard;
mod kit;
mod log;
mod mhatl;
mod passthrough;
mod plan;
mod planted;
pub mod policy;
mod raid5;
mod scrambler;
mod shatl;
pub mod targets;
mod tier;
mod vsp;
mod zones;

pub use any::AnyLayer;
pub use config::{Gather, LayerConfig, LayerKind, Mode, Plan, PlanError, Reclaim};
pub use log::{At as LogAt, Layout as LogLayout};
pub use planted::Bug;
#[cfg(feature = "planted")]
pub use planted::set as plant;
pub use raid5::Raid5;
pub use tier::{Params as TierParams, Policy as TierPolicy};
