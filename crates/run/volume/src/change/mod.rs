//! Membership changes: devices are added, replaced, copied or returned.
//!
//! A [`changer::Changer`] changes a volume that is open in this process, while its clients are
//! served. Each change is a table of named steps ([`hostftl_format::steps`]); [`effects`] carries
//! them out.

pub(crate) mod add;
pub(crate) mod changer;
mod copy;
mod effects;
mod online;
mod orders;
mod reopen;
pub(crate) mod replace;
mod volume_file;
