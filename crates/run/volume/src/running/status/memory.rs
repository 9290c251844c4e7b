//! Memory of the process that serves a volume: the planned amount, and the current use.

use hostftl_io::HOST_CLASSES;
use hostftl_layers::Plan;
use serde::{Deserialize, Serialize};

use crate::running::front::CLIENTS_BYTES;

/// Fixed part of every volume: the program, its own threads, tables of commands, and the figures of
/// `status`.
const FIXED: u64 = 12 << 20;
/// Memory of 64 clients for stacks, tables of requests and socket buffers. Measured with glibc: 60
/// clients that read 32 MiB each without receiving it need 24 MiB beside [`CLIENTS_BYTES`] in the
/// worst case.
const CONNECTIONS: u64 = 24 << 20;

/// Memory of a volume. Lengths are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Map, as counted in the literature.
    pub map_bytes: u64,
    /// Other structures that grow with the volume: counts, lists and queues.
    pub meta_bytes: u64,
    /// Data buffers of the layer and of its clients.
    pub arena_bytes: u64,
    /// Memory of clients beside the buffers: for connections, and for clients that read slowly or
    /// much at once.
    #[serde(default)]
    pub clients_bytes: u64,
    /// Part that is the same for every volume.
    pub fixed_bytes: u64,
    /// Sum of the above.
    pub planned_bytes: u64,
    /// Resident memory of the process; `None` when the volume is not served.
    pub resident_bytes: Option<u64>,
}

impl Memory {
    /// Returns the maximum memory of a layer with this plan.
    pub fn from_plan(plan: &Plan) -> Self {
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

    /// Returns the same with the resident set of this process, if the system reports it.
    pub(crate) fn in_use(&self) -> Self {
        Memory { resident_bytes: resident(), ..self.clone() }
    }
}

fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}
