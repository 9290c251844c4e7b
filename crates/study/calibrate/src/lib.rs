//! Fits a pool of the drive models to the write amplification that a real drive reported.
//!
//! The workload is a permutation: each block of the drive once per pass, in a new random order each
//! pass. Write amplification then varies within a pass in a way that depends on the effective spare
//! α (physical over exported capacity), the victim policy, and early garbage collection. Its
//! differences between passes depend on the number of reclaim units. The fit simulates
//! [`hostftl_drives::pool`] itself, at a reduced scale that keeps the number of units and reduces
//! their size. A fitted shape is therefore one of the drive models.

mod counters;
mod fit;
mod interval;
mod log;
mod pool;
mod refusal;
mod units;

pub use counters::CountersError;
pub use fit::{Calibration, Fit, POLICIES, fit, mean_residual, residuals};
pub use interval::Interval;
pub use log::{BINS, EIGHTHS, Log, LogError};
pub use pool::{Early, PoolShape, simulate};
pub use refusal::{FitError, Refusal};
