//! Fits a pool of the drive models to the write amplification that a real drive reported.
//!
//! The workload is a permutation: each block of the drive once per pass, in a new random order each
//! pass. Write amplification then varies within a pass in a way that depends on three parameters:
//! the effective spare α (physical over exported capacity), the number of reclaim units, and the
//! victim policy. The fit simulates [`hostftl_drives::pool`] itself, at a reduced scale that keeps
//! the number of units and reduces their size. A fitted shape is therefore one of the drive models.

mod fit;
mod log;
mod pool;

pub use fit::{Fit, FitError, POLICIES, fit, mean_residual, residuals};
pub use log::{BINS, EIGHTHS, Log, LogError};
pub use pool::{PoolShape, simulate};
