//! Reasons for not opening a volume without some of its devices, and the effects of opening it.

pub(crate) mod degraded;
pub(crate) mod moved;
pub(crate) mod tier;
