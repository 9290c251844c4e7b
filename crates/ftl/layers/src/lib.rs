//! Translation layers: pure state machines over 1 to 16 devices.
//!
//! [`AnyLayer`] is the only type that drivers use. A new layer adds a folder with a registration, a
//! [`LayerKind`] and a line in `registry.rs`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod about;
mod any;
pub mod chaos;
mod config;
mod effect;
pub mod exerciser;
mod hard;
mod kind;
mod kit;
mod log;
mod members;
mod mhatl;
mod parameter;
mod passthrough;
mod plan;
mod planted;
pub mod policy;
mod promises;
mod raid5;
mod registration;
mod registry;
mod roots;
mod scrambler;
mod shatl;
mod slice;
pub mod targets;
mod tier;
mod vsp;
mod zones;

pub use about::About;
pub use any::AnyLayer;
pub use config::{LayerConfig, Mode, Plan, PlanError};
pub use effect::{Effect, StudyUsage, Usage, is_changed, notes};
pub use kind::LayerKind;
pub use log::register::effects::short_segments;
pub use log::{At as LogAt, ChosenSpare, Layout as LogLayout, SpareRule};
pub use members::Members;
pub use mhatl::params::Gather;
pub use parameter::{Parameter, size_text};
pub use planted::Bug;
#[cfg(feature = "planted")]
pub use planted::set as plant;
pub use promises::Promises;
pub use raid5::Raid5;
pub use registration::{Devices, Registered, Registration};
pub use roots::{RootPlaces, Roots};
pub use shatl::params::Reclaim;
pub use slice::slice;
pub use tier::params::{Params as TierParams, Policy as TierPolicy};
