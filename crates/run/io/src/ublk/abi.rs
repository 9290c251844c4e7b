//! The layouts and numbers of linux/ublk_cmd.h that are used here. Fields are written and read at
//! their offsets, so they do not depend on Rust's layout.

use std::fmt;

/// Commands to control devices: `_IOR` and `_IOWR` of `struct ublksrv_ctrl_cmd` with `u`.
pub(super) mod order {
    pub(crate) const ADD_DEV: u32 = super::exchanged(0x04, 32);
    pub(crate) const DEL_DEV: u32 = super::exchanged(0x05, 32);
    pub(crate) const START_DEV: u32 = super::exchanged(0x06, 32);
    pub(crate) const STOP_DEV: u32 = super::exchanged(0x07, 32);
    pub(crate) const SET_PARAMS: u32 = super::exchanged(0x08, 32);
    pub(crate) const GET_PARAMS: u32 = super::read(0x09, 32);
    pub(crate) const GET_DEV_INFO: u32 = super::read(0x02, 32);
    pub(crate) const START_USER_RECOVERY: u32 = super::exchanged(0x10, 32);
    pub(crate) const END_USER_RECOVERY: u32 = super::exchanged(0x11, 32);
    pub(crate) const GET_FEATURES: u32 = super::read(0x13, 32);
    pub(crate) const DEL_DEV_ASYNC: u32 = super::read(0x14, 32);
    pub(crate) const UPDATE_SIZE: u32 = super::exchanged(0x15, 32);
}

/// Command to fetch a request: `_IOWR` of `struct ublksrv_io_cmd`.
pub(super) const FETCH_REQ: u32 = exchanged(0x20, 16);
/// Command to fetch a request and answer the previous one.
pub(super) const COMMIT_AND_FETCH_REQ: u32 = exchanged(0x21, 16);

const fn exchanged(number: u32, bytes: u32) -> u32 {
    3 << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

const fn read(number: u32, bytes: u32) -> u32 {
    2 << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

/// Maximum number of requests of a queue.
pub(super) const MAX_QUEUE_DEPTH: usize = 4096;
/// Bytes of the description of a request.
pub(super) const DESCRIPTION_BYTES: usize = 24;
/// Offset of the payload in the character node.
const PAYLOAD_OFFSET: u64 = 0x8000_0000;
const TAG_SHIFT: u32 = 25;
const QUEUE_SHIFT: u32 = 41;
/// Maximum length of a request in bytes.
pub(super) const LONGEST: u32 = 1 << TAG_SHIFT;

/// Returns the offset of the payload of a request in the character node.
pub(super) fn payload_at(queue: u16, tag: u16) -> u64 {
    PAYLOAD_OFFSET + (u64::from(queue) << QUEUE_SHIFT) + (u64::from(tag) << TAG_SHIFT)
}

/// Feature flags of ublk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub(super) u64);

impl Features {
    /// The device remains when its server ends, and its requests wait for the next server.
    pub const RECOVERY: Features = Features(1 << 3);
    /// Requests that the previous server had are issued again.
    pub const REISSUE: Features = Features(1 << 4);
    /// Commands are encoded as ioctl numbers.
    pub const IOCTL_ENCODE: Features = Features(1 << 6);
    /// Payload is copied by reads and writes of the character node.
    pub const USER_COPY: Features = Features(1 << 7);
    /// A device in use can be resized (Linux 6.16).
    pub const UPDATE_SIZE: Features = Features(1 << 10);

    /// Returns whether all of `others` are included.
    pub fn has(self, others: Features) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns the union.
    pub const fn and(self, others: Features) -> Features {
        Features(self.0 | others.0)
    }
}

/// Parameters of a new device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Number of queues; the kernel makes fewer if it has fewer processors.
    pub queues: u16,
    /// Maximum number of requests in flight in each queue.
    pub depth: u16,
    /// Maximum length of a request in bytes.
    pub longest: u32,
    /// Requested features.
    pub features: Features,
    /// Number of the server's choice that the kernel stores.
    pub mark: u64,
}

/// Bytes of `struct ublksrv_ctrl_dev_info`.
pub(super) const INFO_BYTES: usize = 64;
/// Device number that lets the kernel choose.
pub(super) const ANY: u32 = u32::MAX;

impl Spec {
    pub(super) fn emit(&self) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        put(&mut bytes, 0, self.queues.to_ne_bytes());
        put(&mut bytes, 2, self.depth.to_ne_bytes());
        put(&mut bytes, 8, self.longest.min(LONGEST).to_ne_bytes());
        put(&mut bytes, 12, ANY.to_ne_bytes());
        put(&mut bytes, 24, self.features.0.to_ne_bytes());
        put(&mut bytes, 32, self.mark.to_ne_bytes());
        bytes
    }
}

/// State of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not started, or stopped.
    Dead,
    /// Served.
    Live,
    /// The server has ended, and requests wait for the next one.
    Quiesced,
    /// The server has ended, and requests fail until there is another.
    FailIo,
    /// State that only newer kernels have.
    Other(u16),
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Dead => f.write_str("dead"),
            State::Live => f.write_str("live"),
            State::Quiesced => f.write_str("waits for a server"),
            State::FailIo => f.write_str("fails until it has a server"),
            State::Other(number) => write!(f, "state {number}"),
        }
    }
}

/// Description of a device by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Number N of /dev/ublkbN.
    pub id: u32,
    /// Number of queues.
    pub queues: u16,
    /// Maximum number of requests in flight in each queue.
    pub depth: u16,
    /// Maximum length of a request in bytes.
    pub longest: u32,
    /// State of the device.
    pub state: State,
    /// Process that serves or last served the device, as it reported itself.
    pub pid: i32,
    /// Features of the device.
    pub features: Features,
    /// Number of the server's choice.
    pub mark: u64,
}

impl DeviceInfo {
    pub(super) fn parse(bytes: &[u8; INFO_BYTES]) -> Self {
        let state = match u16::from_ne_bytes(get(bytes, 4)) {
            0 => State::Dead,
            1 => State::Live,
            2 => State::Quiesced,
            3 => State::FailIo,
            other => State::Other(other),
        };
        DeviceInfo {
            id: u32::from_ne_bytes(get(bytes, 12)),
            queues: u16::from_ne_bytes(get(bytes, 0)),
            depth: u16::from_ne_bytes(get(bytes, 2)),
            longest: u32::from_ne_bytes(get(bytes, 8)),
            state,
            pid: i32::from_ne_bytes(get(bytes, 16)),
            features: Features(u64::from_ne_bytes(get(bytes, 24))),
            mark: u64::from_ne_bytes(get(bytes, 32)),
        }
    }

    /// Returns the path of the block device.
    pub fn path(&self) -> String {
        format!("/dev/ublkb{}", self.id)
    }
}

/// Attributes of the block device that its users see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Length in sectors of 512 bytes.
    pub sectors: u64,
    /// Maximum length of a read or write in bytes.
    pub longest: u32,
    /// Preferred size of requests in bytes; a power of two.
    pub best: u32,
    /// Whether the device is read-only.
    pub read_only: bool,
}

/// Bytes of `struct ublk_params` up to the discard parameters.
pub(super) const PARAMS_BYTES: usize = 60;
const BASIC: u32 = 1;
const DISCARD: u32 = 1 << 1;
const READ_ONLY: u32 = 1;
const VOLATILE_CACHE: u32 = 1 << 2;
const FUA: u32 = 1 << 3;
/// Sectors of 512 bytes, in blocks of 4 KiB.
const SECTOR_SHIFT: u8 = 9;
const BLOCK_SHIFT: u8 = 12;
/// Maximum number of sectors of a discard or a zeroing: 2 GiB.
const MOST_CLEARED: u32 = 1 << 22;

impl Attributes {
    pub(super) fn emit(&self) -> [u8; PARAMS_BYTES] {
        assert!(self.best.is_power_of_two(), "the kernel takes a shift");
        let mut bytes = [0; PARAMS_BYTES];
        // A read-only device must not offer discards.
        let types = if self.read_only { BASIC } else { BASIC | DISCARD };
        let read_only = if self.read_only { READ_ONLY } else { 0 };
        put(&mut bytes, 0, (PARAMS_BYTES as u32).to_ne_bytes());
        put(&mut bytes, 4, types.to_ne_bytes());
        // The kernel sends flushes and FUA writes only to a device with these attributes.
        put(&mut bytes, 8, (VOLATILE_CACHE | FUA | read_only).to_ne_bytes());
        // Sizes are passed as shifts. The optimal size is at least a block.
        let best = (self.best.trailing_zeros() as u8).max(BLOCK_SHIFT);
        put(&mut bytes, 12, [SECTOR_SHIFT, BLOCK_SHIFT, best, BLOCK_SHIFT]);
        put(&mut bytes, 16, (self.longest >> SECTOR_SHIFT).to_ne_bytes());
        put(&mut bytes, 24, self.sectors.to_ne_bytes());
        if !self.read_only {
            put(&mut bytes, 44, (1_u32 << BLOCK_SHIFT).to_ne_bytes());
            put(&mut bytes, 48, MOST_CLEARED.to_ne_bytes());
            put(&mut bytes, 52, MOST_CLEARED.to_ne_bytes());
            put(&mut bytes, 56, 1_u16.to_ne_bytes());
        }
        bytes
    }

    /// Reads the attributes of an existing device.
    pub(super) fn parse(bytes: &[u8; PARAMS_BYTES]) -> Self {
        Attributes {
            sectors: u64::from_ne_bytes(get(bytes, 24)),
            longest: u32::from_ne_bytes(get(bytes, 16)) << SECTOR_SHIFT,
            best: 1 << bytes[14].min(31),
            read_only: u32::from_ne_bytes(get(bytes, 8)) & READ_ONLY != 0,
        }
    }
}

/// Builds `struct ublksrv_ctrl_cmd` at the start of the command area of a 128-byte entry.
pub(super) fn order(id: u32, memory: u64, bytes: u16, data: u64) -> [u8; 80] {
    let mut command = [0; 80];
    put(&mut command, 0, id.to_ne_bytes());
    // Control commands do not refer to a queue.
    put(&mut command, 4, u16::MAX.to_ne_bytes());
    put(&mut command, 6, bytes.to_ne_bytes());
    put(&mut command, 8, memory.to_ne_bytes());
    put(&mut command, 16, data.to_ne_bytes());
    command
}

/// Builds `struct ublksrv_io_cmd`.
pub(super) fn io_command(queue: u16, tag: u16, result: i32) -> [u8; 16] {
    let mut command = [0; 16];
    put(&mut command, 0, queue.to_ne_bytes());
    put(&mut command, 2, tag.to_ne_bytes());
    put(&mut command, 4, result.to_ne_bytes());
    command
}

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads the range.
    Read,
    /// Writes the range.
    Write,
    /// Makes completed writes durable.
    Flush,
    /// Discards the range.
    Discard,
    /// Zeroes the range.
    WriteZeroes,
    /// Operation that the device did not offer.
    Other(u8),
}

/// Parses `struct ublksrv_io_desc` without its address: the operation, the FUA flag, and the range
/// in sectors, which a flush does not have.
pub(super) fn description(bytes: &[u8; DESCRIPTION_BYTES]) -> (Op, bool, u64, u32) {
    const FORCE_UNIT_ACCESS: u32 = 1 << 13;
    let flags = u32::from_ne_bytes(get(bytes, 0));
    let op = match flags as u8 {
        0 => Op::Read,
        1 => Op::Write,
        2 => Op::Flush,
        3 => Op::Discard,
        5 => Op::WriteZeroes,
        other => Op::Other(other),
    };
    let (sectors, first) = match op {
        // The kernel passes −1 as the first sector.
        Op::Flush => (0, 0),
        _ => (u32::from_ne_bytes(get(bytes, 4)), u64::from_ne_bytes(get(bytes, 8))),
    };
    (op, flags & FORCE_UNIT_ACCESS != 0, first, sectors)
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a field is inside its structure")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_header() {
        assert_eq!(order::ADD_DEV, 0xc020_7504);
        assert_eq!(order::GET_FEATURES, 0x8020_7513);
        assert_eq!(order::UPDATE_SIZE, 0xc020_7515);
        assert_eq!(FETCH_REQ, 0xc010_7520);
    }

    #[test]
    fn a_device_reports_its_parameters() {
        let features = Features::RECOVERY.and(Features::USER_COPY);
        let spec =
            Spec { queues: 2, depth: 64, longest: 1 << 20, features, mark: 0x1234_5678_9abc };
        let mut bytes = spec.emit();
        put(&mut bytes, 4, 2_u16.to_ne_bytes());
        put(&mut bytes, 12, 7_u32.to_ne_bytes());
        put(&mut bytes, 16, 4711_i32.to_ne_bytes());
        let info = DeviceInfo::parse(&bytes);
        assert_eq!((info.queues, info.depth, info.longest), (2, 64, 1 << 20));
        assert_eq!((info.id, info.pid, info.mark), (7, 4711, 0x1234_5678_9abc));
        assert_eq!((info.state, info.path()), (State::Quiesced, "/dev/ublkb7".into()));
        assert!(info.features.has(features) && !info.features.has(Features::REISSUE));
    }

    #[test]
    fn attributes_round_trip() {
        for read_only in [false, true] {
            let made =
                Attributes { sectors: 1 << 33, longest: 512 << 10, best: 256 << 10, read_only };
            let bytes = made.emit();
            assert_eq!(Attributes::parse(&bytes), made);
            let types = u32::from_ne_bytes(get(&bytes, 4));
            assert_eq!(types & DISCARD != 0, !read_only, "a read-only device has no discards");
        }
    }

    #[test]
    fn a_request_is_decoded_from_its_descriptor() {
        let mut bytes = [0; DESCRIPTION_BYTES];
        put(&mut bytes, 0, (1_u32 | 1 << 13 | 1 << 11).to_ne_bytes());
        put(&mut bytes, 4, 8_u32.to_ne_bytes());
        put(&mut bytes, 8, (1_u64 << 35).to_ne_bytes());
        assert_eq!(description(&bytes), (Op::Write, true, 1 << 35, 8));
        for (number, op) in [(0, Op::Read), (3, Op::Discard), (5, Op::WriteZeroes)] {
            put(&mut bytes, 0, [number, 0, 0, 0]);
            assert_eq!(description(&bytes), (op, false, 1 << 35, 8));
        }
        put(&mut bytes, 8, u64::MAX.to_ne_bytes());
        put(&mut bytes, 0, [2, 0, 0, 0]);
        assert_eq!(description(&bytes), (Op::Flush, false, 0, 0));
        put(&mut bytes, 0, [13, 0, 0, 0]);
        assert_eq!(description(&bytes).0, Op::Other(13));
    }

    #[test]
    fn payloads_of_tags_are_disjoint() {
        assert_eq!(payload_at(0, 0), 0x8000_0000);
        assert_eq!(payload_at(0, 1) - payload_at(0, 0), u64::from(LONGEST));
        assert_eq!(payload_at(1, 0), 0x8000_0000 + (1 << 41));
    }
}
