//! What the engines are made of besides their own parts.
//!
//! [`shell`] is the one `impl Layer`: start, stop, failure, deadlines and the round loop are the
//! same for every engine, which is a [`shell::Core`]. A part of an engine owns its state and takes
//! a [`cx::Cx`]: through that it sends commands, answers requests, counts, and fails.

pub mod commands;
pub mod cx;
pub mod life;
pub mod metabuf;
pub mod reads;
pub mod requests;
pub mod roots;
pub mod shell;
pub mod watermark;

pub use cx::Cx;
pub use life::{Health, Life};
pub use shell::{Core, Shell};
