//! The memory of the process that serves a volume: what is stated when it is made, and what the
//! process has in use.

use hostftl_io::HOST_CLASSES;
use hostftl_layers::Plan;
use serde::{Deserialize, Serialize};

use crate::running::front::CLIENTS_BYTES;

/// The fixed part for every volume: the program itself, its own threads, tables of commands, and
/// the figures that are kept for `status`.
const FIXED: u64 = 12 << 20;
/// The memory of 64 clients for stacks, tables of requests and buffers of their sockets. Measured
/// on glibc: 60 clients that read 32 MiB each and take nothing of it bring 24 MiB beside
/// [`CLIENTS_BYTES`] in the worst of some runs.
const CONNECTIONS: u64 = 24 << 20;

/// See the module text. Lengths are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Where everything is, as the literature counts it.
    pub map_bytes: u64,
    /// What else grows with the volume: counts, lists and queues.
    pub meta_bytes: u64,
    /// Buffers for data, the layer's and its clients'.
    pub arena_bytes: u64,
    /// The memory of clients beside the buffers: for connections, and when they read slowly or much
    /// at once.
    #[serde(default)]
    pub clients_bytes: u64,
    /// What is the same for every volume.
    pub fixed_bytes: u64,
    /// All of that.
    pub planned_bytes: u64,
    /// What the process has in use now; none when the volume is not served.
    pub resident_bytes: Option<u64>,
}

impl Memory {
    /// What a layer with this plan needs, when all of it was touched.
    pub fn of(plan: &Plan) -> Self {
        let clients = HOST_CLASSES.iter().map(|class| class.bytes as u64 * class.count as u64);
        let arena_bytes = plan.buffer_bytes() + clients.sum::<u64>();
        let Plan { map_bytes, meta_bytes, .. } = *plan;
        let (clients_bytes, fixed_bytes) = (CLIENTS_BYTES + CONNECTIONS, FIXED);
        let planned_bytes = map_bytes + meta_bytes + arena_bytes + clients_bytes + fixed_bytes;
        let resident_bytes = None;
        Memory {
            map_bytes,
            meta_bytes,
            arena_bytes,
            clients_bytes,
            fixed_bytes,
            planned_bytes,
            resident_bytes,
        }
    }

    /// With what this process has in use (its resident set), as far as the system tells.
    pub(crate) fn in_use(&self) -> Self {
        Memory { resident_bytes: resident(), ..self.clone() }
    }
}

fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}
