//! Opening a volume: finding its devices, judging whether they suffice, and putting the layer over
//! them.
//!
//! A volume that is open here has taken no request yet. What the last run left behind, an unclean
//! end, acknowledged writes or a change of members that was cut off, is dealt with on this floor.

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
