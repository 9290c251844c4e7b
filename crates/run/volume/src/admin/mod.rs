//! Entry points: what a command, a server or a program asks of a volume.
//!
//! Each function finds the process that serves the volume and sends it the request over the control
//! socket, or does the work here under the locks of the volume. This is the top floor: it may use
//! all others, and none of them uses it.

pub(crate) mod check;
pub(crate) mod control;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod dump;
pub(crate) mod import;
pub(crate) mod members;
pub(crate) mod operate;
pub(crate) mod operator;
pub(crate) mod replay;
pub(crate) mod serve;
pub(crate) mod status;
