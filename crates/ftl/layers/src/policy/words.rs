//! Names of the victim policies and frontiers on the command line.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::error::Error;
use core::fmt;
use core::str::FromStr;

use super::own::{NAMED, OwnPolicy};

/// Maximum number of segments that `d-choices` compares.
const MAX_CHOICES: u32 = 256;

/// Victim policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcPolicy {
    /// The segment with the fewest valid pages; among equals the longest unchanged.
    Greedy,
    /// The segment that was sealed first.
    Fifo,
    /// A random segment.
    Random,
    /// The segment with the fewest valid pages among this number of random draws.
    DChoices(u32),
    /// The segment with the largest `age · (1 − u) / 2u`, where `u` is its valid share and `age`
    /// the number of host writes since a page of it last became invalid.
    CostBenefit,
    /// The segment with the largest `age · (1 − u + u·ln u)`, with the same `u` and `age`. One more
    /// page of space would save the fewest copies there, if pages become invalid at random.
    DecliningCost,
    /// A policy in a file of its own.
    Own(&'static OwnPolicy),
}

/// Destination of copies by garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frontiers {
    /// The segment filled by host writes of the same placement.
    Shared,
    /// A segment of their own, shared by all placements.
    Separate,
    /// A segment of their own for each placement, so that placements never mix.
    Isolated,
}

/// Error for an unknown word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    pub(super) key: &'static str,
    pub(super) value: String,
    pub(super) known: &'static str,
}

impl Error for UnknownWord {}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} '{}'; use {}", self.key, self.value, self.known)
    }
}

impl GcPolicy {
    /// Placeholder for the word in help texts.
    pub const WORDS: &'static str = "greedy|fifo|random|cost-benefit|declining-cost|d-choices:D";
    /// List of the words, for messages.
    pub const KNOWN: &'static str =
        "greedy, fifo, random, cost-benefit, declining-cost, or d-choices:D with D in 1..256";

    /// Number of the first policy with choices; the simple policies come before it.
    const CHOICES: u16 = 256;
    /// Number of the first policy of [`NAMED`].
    const OWN: u16 = 1024;

    /// Returns the number of the policy, for an admin command.
    pub fn to_number(self) -> u16 {
        match self {
            GcPolicy::Greedy => 0,
            GcPolicy::Fifo => 1,
            GcPolicy::Random => 2,
            GcPolicy::CostBenefit => 3,
            GcPolicy::DecliningCost => 4,
            GcPolicy::DChoices(count) => Self::CHOICES + count as u16,
            GcPolicy::Own(own) => {
                let at = NAMED.iter().position(|named| named.word == own.word);
                Self::OWN + at.unwrap_or(NAMED.len()) as u16
            }
        }
    }

    /// Returns the policy with a number, if there is one.
    pub fn from_number(number: u16) -> Option<Self> {
        match number {
            0 => Some(GcPolicy::Greedy),
            1 => Some(GcPolicy::Fifo),
            2 => Some(GcPolicy::Random),
            3 => Some(GcPolicy::CostBenefit),
            4 => Some(GcPolicy::DecliningCost),
            Self::OWN.. => NAMED.get(usize::from(number - Self::OWN)).map(|own| GcPolicy::Own(own)),
            Self::CHOICES.. => Some(u32::from(number - Self::CHOICES))
                .filter(|count| (1..=MAX_CHOICES).contains(count))
                .map(GcPolicy::DChoices),
            _ => None,
        }
    }
}

impl FromStr for GcPolicy {
    type Err = UnknownWord;

    /// Parses `greedy`, `fifo`, `random`, `d-choices:D`, `cost-benefit` or `declining-cost`,
    /// optionally after `gc=`.
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text.strip_prefix("gc=").unwrap_or(text) {
            "greedy" => Ok(GcPolicy::Greedy),
            "fifo" => Ok(GcPolicy::Fifo),
            "random" => Ok(GcPolicy::Random),
            "cost-benefit" => Ok(GcPolicy::CostBenefit),
            "declining-cost" => Ok(GcPolicy::DecliningCost),
            other => other
                .strip_prefix("d-choices:")
                .and_then(|count| count.parse().ok())
                .filter(|count| (1..=MAX_CHOICES).contains(count))
                .map(GcPolicy::DChoices)
                .or(NAMED.iter().find(|own| own.word == other).map(|own| GcPolicy::Own(own)))
                .ok_or_else(|| UnknownWord {
                    key: "gc",
                    value: other.to_owned(),
                    known: GcPolicy::KNOWN,
                }),
        }
    }
}

impl fmt::Display for GcPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GcPolicy::Greedy => f.write_str("greedy"),
            GcPolicy::Fifo => f.write_str("fifo"),
            GcPolicy::Random => f.write_str("random"),
            GcPolicy::DChoices(count) => write!(f, "d-choices:{count}"),
            GcPolicy::CostBenefit => f.write_str("cost-benefit"),
            GcPolicy::DecliningCost => f.write_str("declining-cost"),
            GcPolicy::Own(own) => f.write_str(own.word),
        }
    }
}

impl FromStr for Frontiers {
    type Err = UnknownWord;

    /// Parses `shared`, `separate` or `isolated`, optionally after `frontiers=`.
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text.strip_prefix("frontiers=").unwrap_or(text) {
            "shared" => Ok(Frontiers::Shared),
            "separate" => Ok(Frontiers::Separate),
            "isolated" => Ok(Frontiers::Isolated),
            other => Err(UnknownWord {
                key: "frontiers",
                value: other.to_owned(),
                known: "shared, separate or isolated",
            }),
        }
    }
}

impl fmt::Display for Frontiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Frontiers::Shared => "shared",
            Frontiers::Separate => "separate",
            Frontiers::Isolated => "isolated",
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn words_round_trip() {
        for word in ["greedy", "fifo", "random", "d-choices:10", "cost-benefit", "declining-cost"] {
            assert_eq!(word.parse::<GcPolicy>().unwrap().to_string(), word);
            assert_eq!(format!("gc={word}").parse::<GcPolicy>(), word.parse());
        }
        for word in ["shared", "separate", "isolated"] {
            assert_eq!(word.parse::<Frontiers>().unwrap().to_string(), word);
        }
    }

    #[test]
    fn other_words_are_refused_by_name() {
        for word in ["", "d-choices", "d-choices:0", "d-choices:257", "d-choices:-1", "lru"] {
            let error = word.parse::<GcPolicy>().unwrap_err().to_string();
            assert!(error.contains(&format!("no gc '{word}'; use greedy")), "{error}");
        }
        assert!("both".parse::<Frontiers>().unwrap_err().to_string().contains("'both'"));
    }
}
