//! The experiments of the published systems, made again: what was published beside what we find.
//!
//! One folder per paper. Each has a function that makes its studies and returns [`Findings`]; the
//! command `hostftl paper` prints them, and tests ask them for the checks that must hold.
#![forbid(unsafe_code)]

mod check;
mod findings;
pub mod hatl;
mod multi_scm;
mod olive;
mod page;
mod scrambler;
mod sheet;
mod xdp;

use std::path::PathBuf;

use thiserror::Error;

pub use check::{Band, Check};
pub use findings::Findings;
pub use page::page;
pub use sheet::{Cell, Sheet};

/// An experiment that can be made again.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Its name in the CLI.
    pub name: &'static str,
    /// What it is about, in one line.
    pub about: &'static str,
    /// Makes it.
    pub run: fn(&Options, &dyn Watch) -> Result<Findings, Error>,
}

/// All papers, in the order in which they are listed.
pub const ALL: &[Paper] = &[
    Paper {
        name: "multi-scm",
        about: "a fast memory as a cache over a slower one, with wear levelling in either",
        run: multi_scm::run,
    },
    Paper {
        name: "olive",
        about: "eMMC chips behind an FPGA: block driver against LightNVM, interleave, ports",
        run: olive::run,
    },
    Paper {
        name: "xdp",
        about: "a log array over several SSDs: compression, RAID 5, and what the drives are sent",
        run: xdp::run,
    },
    Paper {
        name: "hatl",
        about: "small random writes gathered for drives that map in superpages",
        run: hatl::run,
    },
    Paper {
        name: "scrambler",
        about: "writes go to what the drive collects next",
        run: scrambler::run,
    },
];

/// How an experiment is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// At the published size, however long that takes; scaled down otherwise.
    pub full: bool,
    /// Also what goes beyond the paper, where there is such a thing: a sweep of its parameters.
    pub sweep: bool,
    /// A folder with traces, when there is one.
    pub traces: Option<PathBuf>,
    /// How many threads may work at once; at least 1.
    pub threads: usize,
    /// What all draws begin with.
    pub seed: u64,
}

/// Whoever waits for an experiment.
pub trait Watch: Sync {
    /// So many of so many parts are done; `what` names the part that runs now.
    fn progress(&self, what: &str, done: usize, of: usize);
    /// Whether nobody waits any longer.
    fn cancelled(&self) -> bool;
}

/// Why an experiment was not made.
#[derive(Debug, Error)]
pub enum Error {
    /// Nobody waited for it.
    #[error("cancelled")]
    Cancelled,
    /// What was missing or impossible, and what to do.
    #[error("{0}")]
    Failed(String),
}
