//! What must become durable, and how soon.

use super::log::Mark;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    commit: Mark,
    wanted: Mark,
    starved: bool,
}

impl Wishes {
    /// What must become durable soon, stages closed for it.
    pub(crate) fn commit(&self) -> Mark {
        self.commit
    }

    /// What should become durable when it is settled anyway.
    pub(crate) fn wanted(&self) -> Mark {
        self.wanted
    }

    /// Asks for what must become durable soon.
    pub(crate) fn press(&mut self, mark: Mark) {
        self.commit = self.commit.max(mark);
    }

    /// Asks for what should become durable when it is settled anyway.
    pub(crate) fn want(&mut self, mark: Mark) {
        self.wanted = self.wanted.max(mark);
    }

    /// Whether something waits for the next log write, whatever that covers.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Something can't go on until there is another log write.
    pub(crate) fn starve(&mut self) {
        self.starved = true;
    }

    /// A log write was composed.
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
