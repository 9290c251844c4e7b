//! Streams: the classes of data that fill separate stripes.

use crate::policy::CLASSES;

/// First stream that is not for host writes; each class of host writes has a stream below it.
pub(crate) const COPIES: u8 = 2;
/// Stream of map images; those before it are the classes of [`crate::policy::Separator`].
pub(crate) const MAP: u8 = CLASSES as u8;

/// Returns whether a stream receives host writes.
pub(crate) fn is_of_host(stream: u8) -> bool {
    stream < COPIES
}
