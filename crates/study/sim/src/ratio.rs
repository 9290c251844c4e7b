//! Ratios of counts.

/// Returns `one / other`; `None` when `other` is 0.
pub(crate) fn ratio(one: u64, other: u64) -> Option<f64> {
    (other > 0).then(|| one as f64 / other as f64)
}
