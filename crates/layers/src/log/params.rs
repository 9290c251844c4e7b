//! The parameters of a log volume, as words.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;

use hostftl_core::Codec;

use crate::config::{size, size_text};
use crate::policy::{GcPolicy, Separation};

/// See the key in [`Params::KEYS`] of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// How blocks are compressed.
    pub compress: Codec,
    /// Whether each row has a chunk of parity: a mirror on two devices.
    pub parity: bool,
    /// Which segment is collected next.
    pub gc: GcPolicy,
    /// What is kept apart in segments of its own.
    pub separation: Separation,
    /// Whether the last device of the stack is a journal, to which flushes go.
    pub journal: bool,
    /// Bytes of memory for map pages; unless it is set, enough for all of a small volume, and a
    /// share of what a large one exports.
    pub map_memory: Option<u64>,
    /// Whether map pages have few pairs: tests get many pages of a small volume. No user may choose
    /// it.
    pub few_pairs: bool,
    /// Whether a new volume begins with its last segments: tests get to the end of a large device.
    /// No user may choose it.
    pub backwards: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            compress: Codec::Lz4,
            parity: false,
            gc: GcPolicy::CostBenefit,
            separation: Separation::Lifetime,
            journal: false,
            map_memory: None,
            few_pairs: false,
            backwards: false,
        }
    }
}

impl Params {
    /// The keys, for messages.
    pub const KEYS: &'static str =
        "superpage (the chunk), spare, compress, parity, gc, separation, map-memory, journal";

    /// So many segments in the order in which a new volume takes them.
    pub(super) fn order(&self, count: u32) -> VecDeque<u32> {
        match self.backwards {
            true => (0..count).rev().collect(),
            false => (0..count).collect(),
        }
    }

    /// The parameters as `LayerConfig::parse` reads them.
    pub fn to_text(self) -> String {
        let compress = match self.compress {
            Codec::Raw => String::from("none"),
            Codec::Lz4 => String::from("lz4"),
            Codec::Zstd(level) => format!("zstd-{level}"),
        };
        let parity = if self.parity { "yes" } else { "no" };
        let Params { gc, separation, .. } = self;
        let mut text =
            format!(":compress={compress}:parity={parity}:gc={gc}:separation={separation}");
        if self.journal {
            text += ":journal=yes";
        }
        if let Some(memory) = self.map_memory {
            text += &format!(":map-memory={}", size_text(memory));
        }
        text
    }

    /// Whether there is a parameter of that name.
    pub fn has(key: &str) -> bool {
        matches!(key, "compress" | "parity" | "gc" | "separation" | "map-memory" | "journal")
    }

    /// Sets one of the parameters that there are.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let bad = |want: &str| format!("log: {key}={value}: use {want}");
        match (key, value) {
            ("compress", _) => {
                self.compress = codec(value).ok_or_else(|| {
                    bad("none, lz4, zstd, or zstd-LEVEL with a level from 1 to 19")
                })?;
            }
            ("parity", "yes" | "no") => self.parity = value == "yes",
            ("journal", "yes" | "no") => self.journal = value == "yes",
            ("map-memory", _) => {
                self.map_memory = Some(size(value).ok_or_else(|| bad("a size, as 256m"))?);
            }
            ("parity" | "journal", _) => return Err(bad("yes or no")),
            ("separation", _) => {
                self.separation = value.parse().map_err(|word| format!("log: {word}"))?;
            }
            _ => self.gc = value.parse().map_err(|word| format!("log: {word}"))?,
        }
        Ok(())
    }
}

fn codec(word: &str) -> Option<Codec> {
    match word {
        "none" => Some(Codec::Raw),
        "lz4" => Some(Codec::Lz4),
        "zstd" => Some(Codec::Zstd(3)),
        _ => {
            let level = word.strip_prefix("zstd-")?.parse().ok()?;
            (1..=19).contains(&level).then_some(Codec::Zstd(level))
        }
    }
}
