//! Changes of the members: devices that are added, replaced, copied, or brought back.
//!
//! A change writes the superblocks and the volume file in an order that makes a power cut harmless.
//! `served` changes a volume beside its clients; the other modules change one that is not served.

pub(crate) mod add;
pub(crate) mod replace;
pub(crate) mod served;
