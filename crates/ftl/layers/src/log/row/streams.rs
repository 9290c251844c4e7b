//! The streams: whose data a row is for.

use crate::policy::CLASSES;

/// Streams below this are those of the host's writes, one for each class of them.
pub(crate) const COPIES: u8 = 2;
/// The stream of map images; those before it are the classes of [`crate::policy::Separator`].
pub(crate) const MAP: u8 = CLASSES as u8;

/// Whether a stream takes what the host writes.
pub(crate) fn is_of_host(stream: u8) -> bool {
    stream < COPIES
}
