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
/// Transmission: a flush on one connection covers what any connection has completed.
pub const CAN_MULTI_CONN: u16 = 1 << 8;

/// Request: the command is durable before its reply.
pub const CMD_FUA: u16 = 1 << 0;
/// Request: write zeroes must not leave a hole.
pub const CMD_NO_HOLE: u16 = 1 << 1;
