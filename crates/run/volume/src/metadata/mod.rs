//! Description of a volume: its file, its superblocks, the claims on shared devices, the names of
//! devices, and recorded traces.

pub(crate) mod claims;
pub(crate) mod config;
pub(crate) mod config_edit;
pub(crate) mod entry;
pub(crate) mod journal;
pub(crate) mod modelled;
pub(crate) mod record;
pub(crate) mod roster;
pub(crate) mod settings;
pub(crate) mod storage;
pub(crate) mod superblocks;
