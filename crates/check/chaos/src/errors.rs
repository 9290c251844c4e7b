//! Errors that a layer received in one life, and the host errors that they excuse.
//!
//! Invariants
//! - Every death is an excuse, and every excuse is an error.

use crate::matrix::{Claim, Claims, Row};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Errors {
    /// Device errors, including timeouts.
    given: u64,
    /// Errors for which the host may receive an error.
    excuses: u64,
    /// Errors that report a failed device.
    deaths: u64,
    /// Whether a program was abandoned, so that programs behind it in its segment may fail the
    /// write rules.
    disordered: bool,
}

impl Errors {
    /// Counts a command that fails because of a fault of kind `row`. Returns whether the host may
    /// receive an error.
    pub(crate) fn add(&mut self, row: Row, claims: &Claims) -> bool {
        let excused = claims.get(row) != Claim::Kept;
        self.given += 1;
        self.excuses += u64::from(excused);
        self.deaths += u64::from(excused && row == Row::FailedDevice);
        excused
    }

    /// Records that a program was abandoned.
    pub(crate) fn disorder(&mut self) {
        self.disordered = true;
    }

    /// Returns whether a program was abandoned.
    pub(crate) fn is_disordered(&self) -> bool {
        self.disordered
    }

    /// Returns whether there was any error.
    pub(crate) fn any(&self) -> bool {
        self.given > 0
    }

    /// Returns the number of errors for which the host may receive an error.
    pub(crate) fn excuses(&self) -> u64 {
        self.excuses
    }

    /// Returns whether a device has failed.
    pub(crate) fn any_death(&self) -> bool {
        self.deaths > 0
    }

    /// Returns whether failed devices are the only excuse.
    pub(crate) fn are_deaths_alone(&self) -> bool {
        self.excuses == self.deaths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_a_layer_claims_to_mask_are_violations() {
        let mut errors = Errors::default();
        assert!(!errors.add(Row::FailedDevice, &Claims::all(Claim::Kept)));
        assert!(errors.any() && errors.excuses() == 0 && !errors.any_death());
        assert!(errors.add(Row::FailedDevice, &Claims::all(Claim::Detected)));
        assert!(errors.any_death() && errors.are_deaths_alone());
        assert!(errors.add(Row::ReadError, &Claims::all(Claim::Detected)));
        assert!(!errors.are_deaths_alone());
    }
}
