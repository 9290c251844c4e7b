//! The parsers under test, and their checks.

mod backup;
mod drive;
mod hard;
mod image;
mod log;
mod mqsim;
mod nbd;
mod nvme;
mod page;
mod recording;
mod superblock;
mod trace;
mod volume;
mod whole;

/// A parser under test.
pub(crate) struct Target {
    /// Name on the command line and in the corpus.
    pub name: &'static str,
    /// Valid inputs made by our own emitters.
    pub made: fn() -> Vec<Vec<u8>>,
    /// Checks one input. The seed determines the choices of the check.
    pub check: fn(&[u8], u64) -> anyhow::Result<()>,
    /// Bytes that the check may allocate for an empty input.
    pub buffers: u64,
}

impl Target {
    /// Returns the divisor of the number of runs when all targets run. It is above 1 for slow
    /// targets.
    pub(crate) fn share(&self) -> u64 {
        match self.name {
            "whole-volume" => 1000,
            "image" | "drawn-image" => 10,
            _ => 1,
        }
    }
}

/// Buffers of a small parser.
const SMALL: u64 = 4 << 20;

/// All targets.
pub(crate) const ALL: &[Target] = &[
    Target { name: "nbd-server", made: nbd::client_says, check: nbd::check_server, buffers: SMALL },
    Target { name: "nbd-client", made: nbd::server_says, check: nbd::check_client, buffers: SMALL },
    Target { name: "nbd-request", made: nbd::requests, check: nbd::check_request, buffers: SMALL },
    Target { name: "nbd-chunk", made: nbd::chunks, check: nbd::check_chunk, buffers: SMALL },
    Target { name: "nvme", made: nvme::drives, check: nvme::check, buffers: SMALL },
    Target { name: "page", made: page::pages, check: page::check, buffers: SMALL },
    Target { name: "superblock", made: superblock::one, check: superblock::check, buffers: SMALL },
    Target {
        name: "assemble",
        made: superblock::stacks,
        check: superblock::check_stack,
        buffers: SMALL,
    },
    Target { name: "backup", made: backup::files, check: backup::check, buffers: SMALL },
    Target { name: "hard-root", made: hard::roots, check: hard::check_root, buffers: SMALL },
    Target {
        name: "hard-gens",
        made: hard::generations,
        check: hard::check_generations,
        buffers: SMALL,
    },
    Target { name: "hard-map", made: hard::maps, check: hard::check_map, buffers: SMALL },
    Target { name: "hard-log", made: hard::logs, check: hard::check_log, buffers: SMALL },
    Target { name: "log-head", made: log::heads, check: log::check_head, buffers: SMALL },
    Target { name: "log-record", made: log::records, check: log::check_record, buffers: SMALL },
    Target { name: "log-root", made: log::roots, check: log::check_root, buffers: SMALL },
    Target { name: "image", made: image::made, check: image::check, buffers: 96 << 20 },
    Target {
        name: "drawn-image",
        made: image::drawn,
        check: image::check_drawn,
        buffers: 96 << 20,
    },
    Target { name: "whole-volume", made: whole::volumes, check: whole::check, buffers: 256 << 20 },
    Target { name: "trace", made: trace::traces, check: trace::check, buffers: SMALL },
    Target { name: "drive-toml", made: drive::drives, check: drive::check, buffers: SMALL },
    Target { name: "drive-xml", made: mqsim::drives, check: drive::check, buffers: SMALL },
    Target {
        name: "work-xml",
        made: mqsim::workloads,
        check: mqsim::check_workloads,
        buffers: SMALL,
    },
    Target { name: "volume-toml", made: volume::volumes, check: volume::check, buffers: SMALL },
    Target { name: "recording", made: recording::whole, check: recording::check, buffers: SMALL },
    Target {
        name: "replay-head",
        made: recording::heads,
        check: recording::check_head,
        buffers: SMALL,
    },
    Target {
        name: "replay-steps",
        made: recording::steps,
        check: recording::check_steps,
        buffers: SMALL,
    },
];

/// Returns a folder in memory if there is one, which makes temporary files fast.
fn fast_folder() -> std::path::PathBuf {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { memory.into() } else { std::env::temp_dir() }
}
