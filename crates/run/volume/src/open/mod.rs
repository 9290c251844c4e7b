//! Opening a volume: finds its devices, decides whether they suffice, and creates the layer over
//! them.
//!
//! An open volume has not served a request yet. This module also handles the leftovers of the
//! previous run: an unclean end, acknowledged writes, or an interrupted change of the members.

pub(crate) mod cut;
pub(crate) mod event_host;
pub(crate) mod gather;
pub(crate) mod inspect;
pub(crate) mod machine;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod refusal;
pub(crate) mod session;
pub(crate) mod stack;
pub(crate) mod take;
pub(crate) mod volume;
