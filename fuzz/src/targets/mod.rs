//! The parsers, and what each must do with any input.

mod drive;
mod hard;
mod log;
mod nbd;
mod page;
mod recording;
mod superblock;
mod trace;
mod volume;

/// One parser under test.
pub struct Target {
    /// Its name on the command line and in the corpus.
    pub name: &'static str,
    /// Good inputs that our own emitters make.
    pub made: fn() -> Vec<Vec<u8>>,
    /// Checks one input; the seed decides what the check itself chooses.
    pub check: fn(&[u8], u64) -> anyhow::Result<()>,
}

/// All of them.
pub const ALL: &[Target] = &[
    Target { name: "nbd-server", made: nbd::client_says, check: nbd::check_server },
    Target { name: "nbd-client", made: nbd::server_says, check: nbd::check_client },
    Target { name: "nbd-request", made: nbd::requests, check: nbd::check_request },
    Target { name: "nbd-chunk", made: nbd::chunks, check: nbd::check_chunk },
    Target { name: "page", made: page::pages, check: page::check },
    Target { name: "superblock", made: superblock::one, check: superblock::check },
    Target { name: "assemble", made: superblock::stacks, check: superblock::check_stack },
    Target { name: "hard-root", made: hard::roots, check: hard::check_root },
    Target { name: "hard-gens", made: hard::generations, check: hard::check_generations },
    Target { name: "hard-map", made: hard::maps, check: hard::check_map },
    Target { name: "hard-log", made: hard::logs, check: hard::check_log },
    Target { name: "log-head", made: log::heads, check: log::check_head },
    Target { name: "log-record", made: log::records, check: log::check_record },
    Target { name: "log-root", made: log::roots, check: log::check_root },
    Target { name: "trace", made: trace::traces, check: trace::check },
    Target { name: "drive-toml", made: drive::drives, check: drive::check },
    Target { name: "volume-toml", made: volume::volumes, check: volume::check },
    Target { name: "recording", made: recording::whole, check: recording::check },
    Target { name: "replay-head", made: recording::heads, check: recording::check_head },
    Target { name: "replay-steps", made: recording::steps, check: recording::check_steps },
];

/// A folder in memory where there is one, so that files are quick.
fn fast_folder() -> std::path::PathBuf {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { memory.into() } else { std::env::temp_dir() }
}
