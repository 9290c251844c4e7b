//! Volumes as their users meet them.

mod add;
mod allocate;
mod blocks;
mod common;
mod copied;
mod formats;
mod grown;
mod journal;
mod kept;
mod life;
mod members;
mod older;
mod operate;
mod parts;
mod pulse;
mod readonly;
mod refusals;
mod remove;
mod replace;
mod rot;
mod seats;
mod session;
mod sole;
mod tier;
mod trouble;
mod zoned;
