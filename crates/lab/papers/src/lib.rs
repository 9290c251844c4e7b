//! The experiments of the published systems, made again: what was published beside what we find.
//!
//! One folder per paper. Each has a function that makes its studies and returns [`Findings`]; the
//! command `hostftl paper` prints them, and tests ask them for the checks that must hold.
#![forbid(unsafe_code)]

mod check;
mod findings;
pub mod hatl;
mod made;
mod misses;
mod multi_scm;
mod olive;
mod page;
mod scrambler;
mod sheet;
mod traces;
mod xdp;

use std::time::Instant;

use thiserror::Error;

pub use check::{Band, Check, Known, Verdict};
pub use findings::Findings;
pub use made::{Made, Options, Size};
pub use misses::{MISSES, Miss};
pub use page::{page, pages};
pub use sheet::{Cell, Kind, Sheet};

/// An experiment that can be made again.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Its name in the CLI.
    pub name: &'static str,
    /// What it is about, in one line.
    pub about: &'static str,
    run: fn(&Options, &dyn Watch) -> Result<Findings, Error>,
}

impl Paper {
    /// Makes it, and says in the findings how.
    ///
    /// # Errors
    /// When a file can't be read or written, a law is broken, or nobody waits.
    pub fn make(&self, options: &Options, watch: &dyn Watch) -> Result<Findings, Error> {
        let start = Instant::now();
        let mut findings = (self.run)(options, watch)?;
        misses::judge(self.name, options, &mut findings);
        let made = Made::new(self.name, options, start.elapsed().as_secs_f64());
        Ok(Findings { made: Some(made), ..findings })
    }
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
