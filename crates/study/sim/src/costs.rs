//! The modelled time of work on the host's processors.

use hostftl_core::{ALL_ZEROS, Codec, Command, Nanos, Verdict, View};

/// Durations of the commands that need no device. Each has a processor to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCosts {
    /// Fixed cost of each command, in ns.
    pub command_ns: Nanos,
    /// Rate of copying, XOR and checksums, in bytes per microsecond (10,000 = 10 GB/s).
    pub copy_rate: u64,
    /// Rate of compression, in bytes per microsecond.
    pub pack_rate: u64,
    /// Rate of decompression, in bytes per microsecond.
    pub unpack_rate: u64,
}

impl Default for HostCosts {
    fn default() -> Self {
        HostCosts { command_ns: 2_000, copy_rate: 10_000, pack_rate: 600, unpack_rate: 2_500 }
    }
}

impl HostCosts {
    /// Returns the duration and the result of `command`.
    pub fn of(&self, command: &Command) -> (Nanos, Verdict) {
        let (rate, bytes, made) = match command {
            Command::Place { into, .. } => (self.copy_rate, into.bytes(), 0),
            Command::Pack { from, codec: Codec::Raw, .. } => {
                (self.copy_rate, from.bytes(), from.bytes())
            }
            Command::Pack { from, into, .. } => {
                (self.pack_rate, from.bytes(), packed(from, into.bytes()))
            }
            Command::Unpack { into, .. } => (self.unpack_rate, into.bytes(), into.bytes()),
            Command::Digest { from, .. } | Command::Peek { from, .. } => {
                (self.copy_rate, from.bytes(), 0)
            }
            Command::Move { from, parts, .. } => {
                (self.copy_rate, 2 * from.bytes(), parts.len() as u32)
            }
            Command::Fold { from, into, .. } => {
                (self.copy_rate, into.bytes() * from.len() as u32, 0)
            }
            other => unreachable!("{other:?} is a device command"),
        };
        let took = self.command_ns + u64::from(bytes) * 1_000 / rate;
        (took, Verdict { bytes: made, crc: 0 })
    }
}

/// Bit in the name of a payload that marks it as the host's.
const OF_HOST: u32 = 1 << 31;
/// Position of the percentage saved by compression in such a name.
const SAVED: u32 = 24;

/// Returns the name of a host's payload. The payload has no bytes; its name holds the percentage
/// saved by compression. `number` distinguishes the payloads in progress.
pub(crate) fn payload_name(number: u64, saved: Option<u8>) -> u32 {
    let number = number as u32 & ((1 << SAVED) - 1);
    OF_HOST | u32::from(saved.unwrap_or(0).min(100)) << SAVED | number
}

/// Returns the length after compression. Payloads that the layer assembled itself count as
/// incompressible.
fn packed(from: &View, room: u32) -> u32 {
    let name = from.id();
    let saved = if name & OF_HOST != 0 { name >> SAVED & 0x7f } else { 0 };
    if saved == 100 {
        return ALL_ZEROS;
    }
    let made = (u64::from(from.bytes()) * u64::from(100 - saved)).div_ceil(100) as u32;
    if made <= room { made } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_core::Payload;

    /// Returns the packed length of a block with this saving.
    fn pack(saved: Option<u8>, room: u32) -> u32 {
        let mut from = Payload::issue(payload_name(7, saved), 8);
        let mut into = Payload::issue(1, 8);
        let (view, target) = (from.view(0, 4096), into.view_mut(0, room));
        let command = Command::Pack { from: view, into: target, codec: Codec::Lz4, seed: 0 };
        let (_, verdict) = HostCosts::default().of(&command);
        command.void();
        from.void();
        into.void();
        verdict.bytes
    }

    #[test]
    fn a_payload_compresses_to_its_recorded_size() {
        assert_eq!(pack(Some(67), 4032), 1352);
        assert_eq!(pack(Some(100), 4032), ALL_ZEROS);
        assert_eq!(pack(Some(1), 4032), 0, "it does not fit");
        assert_eq!(pack(None, 4032), 0);
        assert_eq!(pack(None, 4096), 4096);
    }
}
