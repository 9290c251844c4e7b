//! A real stack with its data: made, opened, served, looked at, closed.
#![forbid(unsafe_code)]

mod blank;
mod busy;
mod check;
mod config;
mod control;
mod create;
mod engine;
mod entry;
mod error;
pub mod front;
mod gather;
mod import;
mod jobs;
mod journal;
mod keeper;
mod latency;
mod memory;
mod modelled;
mod open;
mod place;
mod quiet;
mod ram;
mod record;
mod replay;
mod roster;
mod running;
mod sole;
mod stack;
mod status;
mod tier;
mod traffic;

pub use check::{Checked, check, check_with};
pub use config::Config;
pub use create::{CreateSpec, Created, create};
pub use error::Error;
pub use gather::OpenOptions;
pub use import::import;
pub use latency::Latency;
pub use memory::Memory;
pub use open::{Volume, open, open_with};
pub use ram::ram_port;
pub use replay::{Replayed, replay};
pub use running::{Figures, Running, StartOptions};
pub use status::{DeviceStatus, Space, Status, VolumeFile, status};
pub use traffic::{Sent, Traffic, WafStep};
