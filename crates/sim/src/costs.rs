//! What the host's own work costs in modelled time.

use hostftl_core::{Codec, Command, Nanos, Verdict};

/// Times of the commands that need no device. Each has a processor to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCosts {
    /// For any of them, in ns.
    pub command_ns: Nanos,
    /// Copying, XOR and checksums, in bytes per microsecond (10,000 = 10 GB/s).
    pub copy_rate: u64,
    /// Compressing, in bytes per microsecond.
    pub pack_rate: u64,
    /// Expanding, in bytes per microsecond.
    pub unpack_rate: u64,
    /// What compression leaves of 100 bytes.
    pub packed_percent: u32,
}

impl Default for HostCosts {
    fn default() -> Self {
        HostCosts {
            command_ns: 2_000,
            copy_rate: 10_000,
            pack_rate: 600,
            unpack_rate: 2_500,
            packed_percent: 50,
        }
    }
}

impl HostCosts {
    /// How long `command` takes and what it finds.
    pub fn of(&self, command: &Command) -> (Nanos, Verdict) {
        let (rate, bytes, made) = match command {
            Command::Place { into, .. } => (self.copy_rate, into.bytes(), 0),
            Command::Pack { from, codec: Codec::Raw, .. } => {
                (self.copy_rate, from.bytes(), from.bytes())
            }
            Command::Pack { from, into, .. } => {
                let made = (u64::from(from.bytes()) * u64::from(self.packed_percent) / 100) as u32;
                (self.pack_rate, from.bytes(), if made <= into.bytes() { made } else { 0 })
            }
            Command::Unpack { into, .. } => (self.unpack_rate, into.bytes(), into.bytes()),
            Command::Digest { from, .. } => (self.copy_rate, from.bytes(), 0),
            Command::Fold { from, into, .. } => {
                (self.copy_rate, into.bytes() * from.len() as u32, 0)
            }
            other => unreachable!("{other:?} goes to a device"),
        };
        let took = self.command_ns + u64::from(bytes) * 1_000 / rate;
        (took, Verdict { bytes: made, crc: 0 })
    }
}
