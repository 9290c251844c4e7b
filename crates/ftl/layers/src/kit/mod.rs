//! What the engines are made of besides their own parts.
//!
//! [`shell`] is the one `impl Layer`: start, stop, failure, deadlines and the round loop are the
//! same for every engine, which is a [`shell::Core`]. A part of an engine owns its state and takes
//! a [`cx::Cx`]: through that it sends commands, answers requests, counts, and fails.

pub(crate) mod commands;
pub(crate) mod cx;
pub(crate) mod life;
pub(crate) mod metabuf;
pub(crate) mod reads;
pub(crate) mod requests;
pub(crate) mod roots;
pub(crate) mod shell;
pub(crate) mod watermark;

pub(crate) use cx::Cx;
pub(crate) use life::{Health, Life};
pub(crate) use shell::{Core, Shell};
