//! Why a volume is not opened without some of its devices, or what it lacks when it is.

pub(crate) mod degraded;
pub(crate) mod moved;
pub(crate) mod tier;
