//! The flag bits of the protocol.

/// Handshake: the peer speaks fixed newstyle.
pub const FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake: no 124 zero bytes after `EXPORT_NAME`.
pub const NO_ZEROES: u16 = 1 << 1;

/// Transmission: the flags mean something; always set.
pub const HAS_FLAGS: u16 = 1 << 0;
/// Transmission: writes are refused.
pub const READ_ONLY: u16 = 1 << 1;
/// Transmission: flush is supported.
pub const SEND_FLUSH: u16 = 1 << 2;
/// Transmission: forced unit access is supported.
pub const SEND_FUA: u16 = 1 << 3;
/// Transmission: trim is supported.
pub const SEND_TRIM: u16 = 1 << 5;
/// Transmission: write zeroes is supported.
pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
/// Transmission: reads may be asked to come in one piece; only with structured replies.
pub const SEND_DF: u16 = 1 << 7;
/// Transmission: a flush on one connection covers what any connection has completed.
pub const CAN_MULTI_CONN: u16 = 1 << 8;
/// Transmission: the hint to cache is understood.
pub const SEND_CACHE: u16 = 1 << 10;
/// Transmission: write zeroes may be asked to fail rather than be slow.
pub const SEND_FAST_ZERO: u16 = 1 << 11;

/// Request: the command is durable before its reply.
pub const CMD_FUA: u16 = 1 << 0;
/// Request: write zeroes must not leave a hole.
pub const CMD_NO_HOLE: u16 = 1 << 1;
/// Request: the data of a read comes in one piece.
pub const CMD_DF: u16 = 1 << 2;
/// Request: block status tells one extent of each context.
pub const CMD_REQ_ONE: u16 = 1 << 3;
/// Request: write zeroes fails rather than be as slow as a write.
pub const CMD_FAST_ZERO: u16 = 1 << 4;

/// Block status of `base:allocation`: nothing is allocated here.
pub const STATE_HOLE: u32 = 1 << 0;
/// Block status of `base:allocation`: it reads as zeros.
pub const STATE_ZERO: u32 = 1 << 1;
