//! Reproductions of published experiments, which compare the published figures with those of
//! HostFTL.
//!
//! Each paper has a folder and a function that runs its studies and returns [`Findings`]. The
//! command `hostftl paper` prints the findings, and tests verify their checks.
#![forbid(unsafe_code)]

mod check;
mod fdp;
mod findings;
pub mod hatl;
mod made;
mod misses;
mod multi_scm;
mod olive;
mod page;
mod scrambler;
mod sheet;
mod stage;
mod traces;
mod xdp;

use std::time::Instant;

use serde::Serialize;
use thiserror::Error;

pub use check::{Band, Check, Known, Verdict};
pub use findings::Findings;
pub use made::{Made, Options, Size};
pub use misses::{MISSES, Miss};
pub use page::{page, pages};
pub use sheet::{Cell, Kind, Sheet};
pub use stage::{Stage, stages};

/// A reproducible experiment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Paper {
    /// Name on the command line.
    pub name: &'static str,
    /// Subject, in one line.
    pub about: &'static str,
    /// Approximate processor time at the usual size, in seconds.
    #[serde(skip)]
    seconds: u64,
    #[serde(skip)]
    run: fn(&Options, &dyn Watch) -> Result<Findings, Error>,
}

impl Paper {
    /// Runs the experiment and records in the findings how it was run.
    ///
    /// # Errors
    /// If a file can't be read or written, a law is violated, or the experiment is cancelled.
    pub fn make(&self, options: &Options, watch: &dyn Watch) -> Result<Findings, Error> {
        let start = Instant::now();
        let watch = Stage::whole(watch);
        let mut findings = (self.run)(options, &watch)?;
        watch.progress(self.name, 1, 1);
        misses::judge(self.name, options, &mut findings);
        let made = Made::new(self.name, options, start.elapsed().as_secs_f64());
        Ok(Findings { made: Some(made), ..findings })
    }
}

/// Splits the progress of `watch` into a part for each of several papers.
pub fn parts<'a>(watch: &'a dyn Watch, papers: &[Paper]) -> Vec<Stage<'a>> {
    stages(watch, papers.iter().map(|paper| paper.seconds))
}

/// All papers, in the order of lists.
pub const ALL: &[Paper] = &[
    Paper {
        name: "multi-scm",
        about: "a fast memory as a cache of a slower one, with wear levelling in either",
        seconds: 90,
        run: multi_scm::run,
    },
    Paper {
        name: "olive",
        about: "eMMC chips behind an FPGA: block driver and LightNVM compared, interleave, ports",
        seconds: 4,
        run: olive::run,
    },
    Paper {
        name: "xdp",
        about: "a log array over several SSDs: compression, RAID 5, and bytes sent to the drives",
        seconds: 70,
        run: xdp::run,
    },
    Paper {
        name: "hatl",
        about: "small random writes gathered for drives that map in superpages",
        seconds: 320,
        run: hatl::run,
    },
    Paper {
        name: "scrambler",
        about: "writes to the blocks that the drive collects next",
        seconds: 70,
        run: scrambler::run,
    },
    Paper {
        name: "fdp",
        about: "placement ids: two measured drives, a noisy neighbour, and a flash cache",
        seconds: 100,
        run: fdp::run,
    },
];

/// Observer of an experiment.
pub trait Watch: Sync {
    /// Reports that `done` of `of` parts are complete; `what` is the name of the current part.
    fn progress(&self, what: &str, done: usize, of: usize);
    /// Returns whether to stop.
    fn cancelled(&self) -> bool;
}

/// Reason why an experiment failed.
#[derive(Debug, Error)]
pub enum Error {
    /// It was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// A missing file or an impossible configuration, with advice, as text for the user.
    #[error("{0}")]
    Failed(String),
}
