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
mod import;
mod jobs;
mod open;
mod quiet;
mod ram;
mod record;
mod replay;
mod roster;
mod running;
mod stack;
mod status;

pub use check::{Checked, check};
pub use config::Config;
pub use create::{CreateSpec, Created, create};
pub use error::Error;
pub use import::import;
pub use open::{Volume, open};
pub use ram::ram_port;
pub use replay::{Replayed, replay};
pub use running::{Running, StartOptions};
pub use status::{DeviceStatus, Sent, Status, Traffic, status};
