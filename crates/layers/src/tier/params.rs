//! The parameters of a tiered volume, as words.

use alloc::format;
use alloc::string::String;

/// Which pages come to the fast device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Every page that is read or written.
    Lru,
    /// The same, and the slow device's copy no longer counts: every eviction writes.
    Exclusive,
    /// Pages that are written.
    Writes,
    /// Pages that are read or written so often.
    After(u8),
}

/// See the key in [`Params::KEYS`] of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// What moves between the devices at once, in sectors.
    pub page: u32,
    /// Which pages come to the fast device.
    pub policy: Policy,
    /// The share of slots that is kept free, in hundredths.
    pub free: u32,
}

impl Default for Params {
    fn default() -> Self {
        Params { page: 32, policy: Policy::Lru, free: 10 }
    }
}

impl Params {
    /// The keys, for messages.
    pub const KEYS: &'static str = "page, policy, free";

    /// The parameters as `LayerConfig::parse` reads them, but for the page.
    pub fn to_text(self) -> String {
        let policy = match self.policy {
            Policy::Lru => String::from("lru"),
            Policy::Exclusive => String::from("exclusive"),
            Policy::Writes => String::from("writes"),
            Policy::After(accesses) => format!("after-{accesses}"),
        };
        format!(":policy={policy}:free={}", self.free)
    }

    /// Sets the policy or the free share.
    ///
    /// # Errors
    /// What would be right, in words.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let bad = |want: &str| format!("tier: {key}={value}: use {want}");
        match key {
            "policy" => {
                self.policy = policy(value)
                    .ok_or_else(|| bad("lru, exclusive, writes, or after-N with N from 2 to 255"))?
            }
            _ => {
                let share = value.parse().ok().filter(|share| (1..=50).contains(share));
                self.free = share.ok_or_else(|| bad("a percentage from 1 to 50"))?;
            }
        }
        Ok(())
    }
}

fn policy(word: &str) -> Option<Policy> {
    match word {
        "lru" => Some(Policy::Lru),
        "exclusive" => Some(Policy::Exclusive),
        "writes" => Some(Policy::Writes),
        _ => {
            let accesses = word.strip_prefix("after-")?.parse().ok()?;
            (accesses >= 2).then_some(Policy::After(accesses))
        }
    }
}
