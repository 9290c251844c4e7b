//! Durability requests: the marks that must become durable, and how soon.

use super::log::Mark;

/// The pending durability requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    commit: Mark,
    wanted: Mark,
    starved: bool,
}

impl Wishes {
    /// Returns the mark that must become durable soon; stages are closed for it.
    pub(crate) fn commit(&self) -> Mark {
        self.commit
    }

    /// Returns the mark that should become durable once it has settled anyway.
    pub(crate) fn wanted(&self) -> Mark {
        self.wanted
    }

    /// Requests that `mark` becomes durable soon.
    pub(crate) fn press(&mut self, mark: Mark) {
        self.commit = self.commit.max(mark);
    }

    /// Requests that `mark` becomes durable once it has settled anyway.
    pub(crate) fn want(&mut self, mark: Mark) {
        self.wanted = self.wanted.max(mark);
    }

    /// Returns whether a part waits for the next log write, regardless of its coverage.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Requests another log write, without which the caller can't proceed.
    pub(crate) fn starve(&mut self) {
        self.starved = true;
    }

    /// Notes that a log write was composed.
    pub(crate) fn feed(&mut self) {
        self.starved = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_never_taken_back() {
        let (early, late) =
            (Mark { stamp: 1, ..Mark::default() }, Mark { stamp: 2, pos: 3, direct: 0 });
        let mut wishes = Wishes::default();
        wishes.press(late);
        wishes.press(early);
        wishes.want(early);
        assert_eq!((wishes.commit(), wishes.wanted()), (late, early));
        wishes.starve();
        assert!(wishes.is_starved());
        wishes.feed();
        assert!(!wishes.is_starved());
    }
}
