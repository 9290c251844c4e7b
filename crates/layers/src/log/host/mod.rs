//! What the host asks: requests, and the block operations of which they are made.

pub(in crate::log) mod blocks;
pub(in crate::log) mod op;
pub(in crate::log) mod requests;
