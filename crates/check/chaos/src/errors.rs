//! The errors that a layer was given in one life, and what they excuse.
//!
//! Invariants
//! - A death is an excuse, and an excuse is an error.

use crate::matrix::{Claim, Claims, Row};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Errors {
    /// Device errors, hangs included.
    given: u64,
    /// Those of them for which the host may be given an error.
    excuses: u64,
    /// Those of them that say that a device is dead.
    deaths: u64,
    /// Whether a program was given up, so that those behind it in its segment can't be right.
    disordered: bool,
}

impl Errors {
    /// A command fails because of a fault of kind `row`. Whether the host may be given an error.
    pub(crate) fn add(&mut self, row: Row, claims: &Claims) -> bool {
        let excused = claims.get(row) != Claim::Kept;
        self.given += 1;
        self.excuses += u64::from(excused);
        self.deaths += u64::from(excused && row == Row::DeadDevice);
        excused
    }

    /// A program was given up.
    pub(crate) fn disorder(&mut self) {
        self.disordered = true;
    }

    /// Whether one was.
    pub(crate) fn is_disordered(&self) -> bool {
        self.disordered
    }

    /// Whether there was any.
    pub(crate) fn any(&self) -> bool {
        self.given > 0
    }

    /// How many there were for which the host may be given one.
    pub(crate) fn excuses(&self) -> u64 {
        self.excuses
    }

    /// Whether a device is dead.
    pub(crate) fn any_death(&self) -> bool {
        self.deaths > 0
    }

    /// Whether dead devices alone are an excuse.
    pub(crate) fn are_deaths_alone(&self) -> bool {
        self.excuses == self.deaths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_layer_claims_to_keep_from_the_host_is_no_excuse() {
        let mut errors = Errors::default();
        assert!(!errors.add(Row::DeadDevice, &Claims::all(Claim::Kept)));
        assert!(errors.any() && errors.excuses() == 0 && !errors.any_death());
        assert!(errors.add(Row::DeadDevice, &Claims::all(Claim::Detected)));
        assert!(errors.any_death() && errors.are_deaths_alone());
        assert!(errors.add(Row::ReadError, &Claims::all(Claim::Detected)));
        assert!(!errors.are_deaths_alone());
    }
}
