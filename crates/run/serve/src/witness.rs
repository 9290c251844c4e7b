//! Seeing what clients ask, for whoever writes it down.

use std::fmt;

/// Sees requests as they come, from many threads at once. It must not wait.
pub trait Witness: Send + Sync {
    /// A client asks for this, from byte `offset` on; a flush has no range.
    fn saw(&self, what: Seen, offset: u64, bytes: u64);
}

impl fmt::Debug for dyn Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// To read the range.
    Read,
    /// To write it.
    Write,
    /// To make completed writes durable.
    Flush,
    /// To forget the range.
    Trim,
    /// To make it zeros.
    Zeroes,
}
