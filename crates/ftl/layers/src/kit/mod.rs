//! Building blocks that the engines share.
//!
//! [`shell`] is the only `impl Layer`: start, stop, failures, deadlines and the loop of rounds are
//! the same for every engine, which implements [`shell::Core`]. A part of an engine owns its state
//! and takes a [`cx::Cx`], through which it sends commands, answers requests, counts, and reports
//! failures.

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
