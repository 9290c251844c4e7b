//! Volumes as their users meet them.

mod common;
mod life;
mod refusals;
mod trouble;
