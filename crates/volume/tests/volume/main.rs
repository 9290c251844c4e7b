//! Volumes as their users meet them.

mod blocks;
mod common;
mod life;
mod members;
mod refusals;
mod tier;
mod trouble;
mod zoned;
