//! Words of prose, and how many of them are words that HostFTL avoids.

use std::ops::AddAssign;

/// Names of the measured groups of words, in the order of [`Figures::found`].
pub(super) const GROUPS: [&str; 5] = ["what", "so_many", "told", "lies", "nobody"];
/// Goals, in words per 10,000.
pub(super) const GOALS: [u64; 5] = [20, 1, 5, 2, 1];

/// Figures of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Number of words.
    pub words: u64,
    /// Number of avoided words, by group.
    pub found: [u64; 5],
}

impl Figures {
    /// Returns whether group `at` exceeds its goal.
    pub(super) fn exceeds(&self, at: usize) -> bool {
        self.found[at] * 10_000 > GOALS[at] * self.words
    }

    /// Returns the number of words of group `at` in 1,000 words.
    pub(super) fn rate(&self, at: usize) -> f64 {
        self.found[at] as f64 * 1000.0 / self.words.max(1) as f64
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.words += other.words;
        self.found.iter_mut().zip(other.found).for_each(|(sum, more)| *sum += more);
    }
}

/// Counts the words of `text`. Code in backquotes does not count.
pub(super) fn count(text: &str) -> Figures {
    let mut figures = Figures::default();
    let mut before = String::new();
    for prose in text.split('`').step_by(2) {
        let words = prose.split(|letter: char| !letter.is_alphanumeric() && letter != '\'');
        for word in words.filter(|word| word.chars().any(char::is_alphabetic)) {
            let word = word.to_lowercase();
            figures.words += 1;
            let group = match word.as_str() {
                "what" | "whatever" => Some(0),
                "many" | "much" if before == "so" => Some(1),
                "told" | "tell" | "tells" | "said" | "says" => Some(2),
                "lie" | "lies" => Some(3),
                "nobody" | "somebody" | "whoever" => Some(4),
                _ => None,
            };
            group.into_iter().for_each(|at| figures.found[at] += 1);
            before = word;
        }
    }
    figures
}
