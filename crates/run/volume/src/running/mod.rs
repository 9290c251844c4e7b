//! A running volume: the engine that drives its layer, the port for requests, and the threads
//! behind them.
//!
//! These threads write superblocks after a loss, run scrubs, measure background work and fill the
//! status.

pub(crate) mod copying;
pub(crate) mod device_view;
pub(crate) mod engine;
pub mod front;
pub(crate) mod jobs;
pub(crate) mod monitor;
pub(crate) mod removed_devices;
pub(crate) mod reopen;
pub(crate) mod scrubbing;
pub(crate) mod status;
pub(crate) mod status_sources;
pub(crate) mod superblock_writer;
