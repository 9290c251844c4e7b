//! Volumes as their users meet them.

mod blocks;
mod common;
mod life;
mod refusals;
mod trouble;
