//! Entry points for commands, servers and programs.
//!
//! Each function finds the process that serves the volume and sends it the request over the control
//! socket, or does the work in this process under the locks of the volume. This is the top module:
//! it may use all others, and none of them uses it.

pub(crate) mod check;
pub(crate) mod control;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod dump;
pub(crate) mod import;
pub(crate) mod members;
pub(crate) mod operate;
pub(crate) mod replay;
pub(crate) mod request;
pub(crate) mod serve;
pub(crate) mod status;
