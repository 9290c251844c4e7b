//! The parameters of the scrambler, as words.

use alloc::format;
use alloc::string::String;

/// See the key in [`Params::KEYS`] of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The unit of the map, in sectors; 0 = a whole page of the device.
    pub slot: u32,
    /// A page takes no more once so many thousandths of its slots are used, while others do.
    pub util_permille: u32,
    /// Pages written from one question about what the device collects to the next; 0 = it is never
    /// asked.
    pub refresh: u32,
}

impl Default for Params {
    fn default() -> Self {
        Params { slot: 8, util_permille: 1000, refresh: 32 }
    }
}

impl Params {
    /// The keys, for messages.
    pub const KEYS: &'static str = "slot, spare, util, refresh";

    /// The parameters as `LayerConfig::parse` reads them.
    pub fn to_text(self) -> String {
        let slot = match self.slot {
            0 => String::from("page"),
            sectors if sectors % 2 == 0 => format!("{}k", sectors / 2),
            sectors => format!("{}", sectors * 512),
        };
        let (whole, part) = (self.util_permille / 1000, self.util_permille % 1000);
        let refresh = self.refresh;
        format!(":slot={slot}:util={whole}.{part:03}:refresh={refresh}")
    }

    /// Whether there is a parameter of that name.
    pub fn has(key: &str) -> bool {
        matches!(key, "slot" | "util" | "refresh")
    }

    /// Sets one of the parameters that there are; `sectors` is the value as a size.
    pub fn set(&mut self, key: &str, value: &str, sectors: Option<u64>) -> Result<(), String> {
        let bad = |want: &str| format!("scrambler: {key}={value}: use {want}");
        match key {
            "slot" if value == "page" => self.slot = 0,
            "slot" => {
                let fits = sectors.filter(|sectors| (1..=128).contains(sectors));
                self.slot = fits.ok_or_else(|| bad("a size from 512 to 64k, or page"))? as u32;
            }
            "util" => {
                let share = value.parse().ok().filter(|share: &f64| (0.0..=1.0).contains(share));
                let share = share.ok_or_else(|| bad("a share from 0 to 1"))?;
                self.util_permille = (share * 1000.0 + 0.5) as u32;
            }
            _ => {
                let count = value.parse().ok();
                self.refresh = count.ok_or_else(|| bad("a number of writes, 0 for never"))?;
            }
        }
        Ok(())
    }
}
