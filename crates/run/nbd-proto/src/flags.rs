//! The flag bits of the protocol.

/// Handshake: the peer supports fixed newstyle.
pub const FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake: the 124 zero bytes after `EXPORT_NAME` are omitted.
pub const NO_ZEROES: u16 = 1 << 1;

/// Transmission: the flags are valid; always set.
pub const HAS_FLAGS: u16 = 1 << 0;
/// Transmission: the export is read-only.
pub const READ_ONLY: u16 = 1 << 1;
/// Transmission: flush is supported.
pub const SEND_FLUSH: u16 = 1 << 2;
/// Transmission: forced unit access is supported.
pub const SEND_FUA: u16 = 1 << 3;
/// Transmission: trim is supported.
pub const SEND_TRIM: u16 = 1 << 5;
/// Transmission: write zeroes is supported.
pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
/// Transmission: unfragmented reads can be requested; only with structured replies.
pub const SEND_DF: u16 = 1 << 7;
/// Transmission: a flush on one connection covers completed writes of all connections.
pub const CAN_MULTI_CONN: u16 = 1 << 8;
/// Transmission: the cache command is supported.
pub const SEND_CACHE: u16 = 1 << 10;
/// Transmission: write zeroes can be requested to fail instead of being slow.
pub const SEND_FAST_ZERO: u16 = 1 << 11;

/// Request: the command must be durable before its reply.
pub const CMD_FUA: u16 = 1 << 0;
/// Request: write zeroes must not create a hole.
pub const CMD_NO_HOLE: u16 = 1 << 1;
/// Request: the data of a read must be in one chunk.
pub const CMD_DF: u16 = 1 << 2;
/// Request: block status returns one extent of each context.
pub const CMD_REQ_ONE: u16 = 1 << 3;
/// Request: write zeroes fails if it would be as slow as a write.
pub const CMD_FAST_ZERO: u16 = 1 << 4;

/// Block status of `base:allocation`: the extent is not allocated.
pub const STATE_HOLE: u32 = 1 << 0;
/// Block status of `base:allocation`: the extent reads as zeros.
pub const STATE_ZERO: u32 = 1 << 1;
