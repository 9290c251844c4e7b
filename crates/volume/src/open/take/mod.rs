//! Devices that are about to become members, and the files that are made for them.

pub(crate) mod made;
pub(crate) mod peer_geometry;
