//! The parsers, and what each must do with any input.

mod drive;
mod nbd;
mod page;
mod trace;

/// One parser under test.
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Good inputs to damage.
    pub corpus: fn() -> Vec<Vec<u8>>,
    /// Checks one input; the seed decides what the check itself chooses.
    pub check: fn(&[u8], u64) -> anyhow::Result<()>,
}

/// All of them.
pub const ALL: &[Target] = &[
    Target { name: "nbd-server", corpus: nbd::client_says, check: nbd::check_server },
    Target { name: "nbd-client", corpus: nbd::server_says, check: nbd::check_client },
    Target { name: "nbd-request", corpus: nbd::requests, check: nbd::check_request },
    Target { name: "nbd-chunk", corpus: nbd::chunks, check: nbd::check_chunk },
    Target { name: "page", corpus: page::pages, check: page::check_header },
    Target { name: "superblock", corpus: page::superblocks, check: page::check_superblock },
    Target { name: "hard-log", corpus: page::logs, check: page::check_log },
    Target { name: "trace-csv", corpus: trace::traces, check: trace::check },
    Target { name: "drive-toml", corpus: drive::drives, check: drive::check },
];
