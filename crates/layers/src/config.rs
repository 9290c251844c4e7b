//! Which layer, with what parameters, and what that needs and gives.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use hostftl_core::{Nanos, SECTOR};

pub use crate::plan::{Mode, Plan, PlanError};
use crate::{log, scrambler, tier, zones};

/// The layers by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// No translation.
    Passthrough,
    /// Small writes are gathered into superpages; every sector is mapped.
    Hard,
    /// Every sector has a home; small writes go to a hidden area first.
    Shatl,
    /// Blocks are compressed and packed into rows over all devices, with parity.
    Log,
    /// A fast device is a write-back cache over a slow one.
    Tier,
    /// A zoned device is filled line by line, a line being a segment of each parallel unit.
    Pblk,
    /// A zoned device is filled segment by segment, the parallel units in turn.
    Rrpc,
    /// The test layer that uses every command; no user may choose it.
    Exerciser,
    /// Writes go to what the device collects next.
    Scrambler,
    /// Small writes are gathered into superpages; runs of sectors are mapped.
    Mhatl,
    /// As `shatl`, with a hidden area as large as a budget of memory allows.
    HatlAuto,
}

impl LayerKind {
    /// All of them that a user may choose.
    pub const ALL: &'static [LayerKind] = &[
        LayerKind::Passthrough,
        LayerKind::Hard,
        LayerKind::Mhatl,
        LayerKind::Shatl,
        LayerKind::HatlAuto,
        LayerKind::Scrambler,
        LayerKind::Log,
        LayerKind::Tier,
        LayerKind::Pblk,
        LayerKind::Rrpc,
    ];

    /// Whether it works only on a device that tells what it collects next.
    pub const fn needs_hint(self) -> bool {
        matches!(self, LayerKind::Scrambler)
    }

    /// The name in the CLI, in reports and on media.
    pub const fn name(self) -> &'static str {
        match self {
            LayerKind::Passthrough => "passthrough",
            LayerKind::Hard => "hard",
            LayerKind::Mhatl => "mhatl",
            LayerKind::Shatl => "shatl",
            LayerKind::HatlAuto => "hatl-auto",
            LayerKind::Scrambler => "scrambler",
            LayerKind::Log => "log",
            LayerKind::Tier => "tier",
            LayerKind::Pblk => "pblk",
            LayerKind::Rrpc => "rrpc",
            LayerKind::Exerciser => "exerciser",
        }
    }
}

impl LayerKind {
    /// The version of what it writes on media. Whoever changes a byte of that, or what one means,
    /// adds one to it: volumes of another version are refused. `crates/chaos/tests/golden.rs`
    /// notices a change without it.
    pub const fn format(self) -> u32 {
        match self {
            LayerKind::Passthrough
            | LayerKind::Hard
            | LayerKind::Mhatl
            | LayerKind::Shatl
            | LayerKind::HatlAuto
            | LayerKind::Scrambler
            | LayerKind::Tier
            | LayerKind::Pblk
            | LayerKind::Rrpc
            | LayerKind::Exerciser => 1,
            LayerKind::Log => 2,
        }
    }

    /// Whether it writes in superpages of a size that may be chosen.
    fn has_superpages(self) -> bool {
        matches!(
            self,
            LayerKind::Hard
                | LayerKind::Mhatl
                | LayerKind::Shatl
                | LayerKind::HatlAuto
                | LayerKind::Log
        ) || self.takes_zones()
    }

    /// Whether it keeps a share of the device spare.
    fn has_spare(self) -> bool {
        self == LayerKind::Scrambler
            || self.has_superpages() && !matches!(self, LayerKind::Shatl | LayerKind::HatlAuto)
    }

    /// Those of [`LayerKind::ALL`] that work on one block device of any kind.
    pub fn of_blocks() -> impl Iterator<Item = LayerKind> {
        let fits = |kind: &LayerKind| {
            !kind.takes_zones() && !kind.needs_hint() && *kind != LayerKind::Tier
        };
        Self::ALL.iter().copied().filter(fits)
    }

    /// Whether it reads back, while it serves, the metadata that it wrote.
    pub const fn reads_metadata(self) -> bool {
        matches!(self, LayerKind::Log) || self.takes_zones()
    }

    /// Whether it takes one zoned device, and none of another kind.
    pub const fn takes_zones(self) -> bool {
        matches!(self, LayerKind::Pblk | LayerKind::Rrpc)
    }
}

impl fmt::Display for LayerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LayerKind {
    type Err = ();

    /// Accepts a name from [`LayerKind::name`], and `none` for passthrough.
    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "none" => Ok(LayerKind::Passthrough),
            _ => Self::ALL.iter().copied().find(|kind| kind.name() == name).ok_or(()),
        }
    }
}

/// How `shatl` empties its hidden area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// The superpage that touches the fewest logical superpages (sHATL).
    Fewest,
    /// All of it, in the order of addresses; writes that go on where one ended go home (ReSSD).
    Batch,
}

/// What `mhatl` puts together when it has too many leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// All of each logical superpage that the victim holds part of.
    Lsp,
    /// What the victim holds.
    Vsp,
}

/// What a layer is made from. The same values must be given each time a volume is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerConfig {
    /// Which layer.
    pub kind: LayerKind,
    /// The unit in which the layer writes, in sectors; 128 (64 KiB) by default.
    pub superpage: u32,
    /// Share of the device that is kept spare, in thousandths; 70 by default, 110 with `pblk`, 100
    /// with `rrpc`.
    pub spare_permille: u32,
    /// The size of `shatl`'s hidden area, in sectors; 128 MiB by default.
    pub hidden: u64,
    /// From this length on `shatl` writes home, in sectors; see [`LayerConfig::direct_from`].
    pub threshold: Option<u32>,
    /// How `shatl` empties its hidden area.
    pub reclaim: Reclaim,
    /// Bytes of memory that the map of `hatl-auto` may take with all that belongs to it; 4 MiB for
    /// each 32 GiB of device unless it is set.
    pub budget: Option<u64>,
    /// How many leaves `mhatl` wants to have at the most; 65,536 by default.
    pub leaves: u32,
    /// What `mhatl` puts together.
    pub gather: Gather,
    /// How long a command may take before it is abandoned, in ns; 0 = for ever.
    pub deadline: Nanos,
    /// What only `scrambler` has.
    pub scrambler: scrambler::Params,
    /// What only `log` has.
    pub log: log::Params,
    /// What only `pblk` has.
    pub zones: zones::Params,
    /// The devices that are not there this time, as a set of bits by index in the stack: every
    /// command to them fails. At most as many as [`LayerConfig::tolerates`].
    pub missing: u16,
    /// As `deadline`, for each device by its index in the stack; 0 = as for the others.
    pub deadlines: [Nanos; 16],
    /// What only `tier` has.
    pub tier: tier::Params,
    /// The volume, so that metadata of another is never taken for its own.
    pub uuid: [u8; 16],
}

impl LayerConfig {
    /// `kind` with every other value at its default.
    pub fn new(kind: LayerKind) -> Self {
        LayerConfig {
            kind,
            superpage: 128,
            spare_permille: match kind {
                LayerKind::Pblk => 110,
                LayerKind::Rrpc => 100,
                _ => 70,
            },
            hidden: 1 << 18,
            threshold: None,
            reclaim: Reclaim::Fewest,
            budget: None,
            leaves: 1 << 16,
            gather: Gather::Lsp,
            deadline: 0,
            scrambler: scrambler::Params::default(),
            log: log::Params::default(),
            zones: zones::Params::default(),
            missing: 0,
            deadlines: [0; 16],
            tier: tier::Params::default(),
            uuid: [0; 16],
        }
    }

    /// From which length on `shatl` writes home, in sectors: a superpage, or 32 KiB as ReSSD,
    /// unless a threshold is set.
    pub fn direct_from(&self) -> u32 {
        self.threshold.unwrap_or(match self.reclaim {
            Reclaim::Fewest => self.superpage,
            Reclaim::Batch => 64,
        })
    }

    /// How many devices a volume can do without.
    pub fn tolerates(&self) -> u32 {
        u32::from(self.kind == LayerKind::Log && self.log.parity)
    }

    /// How long a command of each device may take, by its index in the stack, in ns; 0 = for ever.
    pub fn patience(&self) -> [Nanos; 16] {
        self.deadlines.map(|own| if own == 0 { self.deadline } else { own })
    }

    /// Reads `NAME[:KEY=VALUE]…`, as in `hard:superpage=256k:spare=10`.
    ///
    /// # Errors
    /// What is wrong and what would be right, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let kind = name.parse().map_err(|()| {
            let known: alloc::vec::Vec<_> = LayerKind::ALL.iter().map(|kind| kind.name()).collect();
            format!("no layer '{name}': use none, {}", known.join(", "))
        })?;
        let mut config = LayerConfig::new(kind);
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| format!("'{word}' of layer '{text}' is not KEY=VALUE"))?;
            // A value may have a colon too, as `gc=d-choices:4`.
            let rest = words.next_if(|next| !next.contains('='));
            let value = rest.map_or_else(|| value.into(), |rest| format!("{value}:{rest}"));
            config.set(key, &value)?;
        }
        Ok(config)
    }

    /// The canonical text: the name and every parameter that the layer has. It is what volumes
    /// keep, and [`LayerConfig::parse`] reads it; `deadline`, `missing` and `uuid` are not in it.
    pub fn to_text(&self) -> String {
        let mut text = String::from(self.kind.name());
        let bytes = |sectors: u64| size_text(sectors * SECTOR as u64);
        let superpage = bytes(self.superpage.into());
        match self.kind {
            LayerKind::Passthrough | LayerKind::Exerciser => {}
            LayerKind::Tier => text += &format!(":page={}", bytes(self.tier.page.into())),
            LayerKind::Hard
            | LayerKind::Mhatl
            | LayerKind::Log
            | LayerKind::Pblk
            | LayerKind::Rrpc => {
                text += &format!(":superpage={superpage}:spare={}", self.spare_text());
            }
            LayerKind::Scrambler => {
                text += &self.scrambler.to_text();
                text += &format!(":spare={}", self.spare_text());
            }
            LayerKind::HatlAuto => {
                text += &format!(":superpage={superpage}");
                if let Some(budget) = self.budget {
                    text += &format!(":budget={}", size_text(budget));
                }
            }
            LayerKind::Shatl => {
                let mode = match self.reclaim {
                    Reclaim::Fewest => "shatl",
                    Reclaim::Batch => "ressd",
                };
                let hidden = bytes(self.hidden);
                text += &format!(":superpage={superpage}:hidden={hidden}:mode={mode}");
                if let Some(threshold) = self.threshold {
                    text += &format!(":threshold={}", bytes(threshold.into()));
                }
            }
        }
        match self.kind {
            LayerKind::Log => text += &self.log.to_text(),
            LayerKind::Tier => text += &self.tier.to_text(),
            LayerKind::Mhatl => {
                let gather = match self.gather {
                    Gather::Lsp => "lsp",
                    Gather::Vsp => "vsp",
                };
                text += &format!(":leaves={}:gather={gather}", self.leaves);
            }
            LayerKind::Pblk => text += &self.zones.to_text(),
            _ => {}
        }
        text
    }

    /// The spare in per cent.
    fn spare_text(&self) -> String {
        match (self.spare_permille / 10, self.spare_permille % 10) {
            (whole, 0) => format!("{whole}"),
            (whole, tenth) => format!("{whole}.{tenth}"),
        }
    }

    /// Sets one parameter of the layer.
    ///
    /// # Errors
    /// As [`LayerConfig::parse`].
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let kind = self.kind;
        let bad = |want: &str| format!("{kind}: {key}={value}: {want}");
        let sectors = || {
            let bytes = size(value).filter(|&bytes| bytes.is_multiple_of(SECTOR as u64));
            bytes.map(|bytes| bytes / SECTOR as u64)
        };
        let short = || {
            let short = sectors().and_then(|sectors| u32::try_from(sectors).ok());
            short.ok_or_else(|| bad("a size in whole sectors, as 64k"))
        };
        match (kind, key) {
            (_, "superpage") if kind.has_superpages() => self.superpage = short()?,
            (_, "spare") if kind.has_spare() => {
                let permille = value.parse().ok().map(|percent: f64| percent * 10.0 + 1e-6);
                let permille = permille.filter(|it| (0.0..900.5).contains(it));
                self.spare_permille =
                    permille.ok_or_else(|| bad("a percentage from 0 to 90"))? as u32;
            }
            (LayerKind::Shatl, "hidden") => {
                self.hidden = sectors().ok_or_else(|| bad("a size in whole sectors, as 128m"))?;
            }
            (LayerKind::Shatl, "threshold") => {
                self.threshold = Some(short()?).filter(|sectors| *sectors > 0);
            }
            (LayerKind::Shatl, "mode") => {
                self.reclaim = match value {
                    "shatl" => Reclaim::Fewest,
                    "ressd" => Reclaim::Batch,
                    _ => return Err(bad("shatl or ressd")),
                };
            }
            (LayerKind::Tier, "page") => self.tier.page = short()?,
            (LayerKind::Tier, "policy" | "free") => self.tier.set(key, value)?,
            (LayerKind::Scrambler, _) if scrambler::Params::has(key) => {
                self.scrambler.set(key, value, sectors())?;
            }
            (LayerKind::HatlAuto, "budget") => {
                self.budget = size(value).ok_or_else(|| bad("a size, as 4m")).map(Some)?;
            }
            (LayerKind::Mhatl, "leaves") => {
                let leaves = value.parse().ok().filter(|leaves| (1..=1 << 26).contains(leaves));
                self.leaves = leaves.ok_or_else(|| bad("a number from 1 to 67108864"))?;
            }
            (LayerKind::Mhatl, "gather") => {
                let known = [("lsp", Gather::Lsp), ("vsp", Gather::Vsp)];
                let chosen = known.iter().find(|(word, _)| *word == value);
                self.gather = chosen.ok_or_else(|| bad("lsp or vsp"))?.1;
            }
            (LayerKind::Log, _) if log::Params::has(key) => self.log.set(key, value)?,
            (LayerKind::Pblk, "gc") => self.zones.set(value)?,
            _ => {
                let has = match kind {
                    LayerKind::Passthrough | LayerKind::Exerciser => "none",
                    LayerKind::Hard => "superpage, spare",
                    LayerKind::Scrambler => scrambler::Params::KEYS,
                    LayerKind::Mhatl => "superpage, spare, leaves, gather",
                    LayerKind::HatlAuto => "superpage, budget",
                    LayerKind::Log => log::Params::KEYS,
                    LayerKind::Tier => tier::Params::KEYS,
                    LayerKind::Pblk => "superpage (the strip), spare, gc",
                    LayerKind::Rrpc => "superpage (the strip), spare",
                    LayerKind::Shatl => "superpage, hidden, threshold, mode",
                };
                return Err(format!("{kind} has no parameter '{key}': it has {has}"));
            }
        }
        Ok(())
    }
}

/// Bytes: a number with `k`, `m` or `g` behind it, in powers of 1024.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A size as [`size`] reads it, in the largest unit that it is a multiple of.
pub(crate) fn size_text(bytes: u64) -> String {
    match bytes.trailing_zeros() {
        30..64 => format!("{}g", bytes >> 30),
        20..30 => format!("{}m", bytes >> 20),
        10..20 => format!("{}k", bytes >> 10),
        _ => format!("{bytes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_and_its_parameters_in_words() {
        let config = LayerConfig::parse("hard:superpage=256k:spare=12.5").unwrap();
        assert_eq!((config.kind, config.superpage), (LayerKind::Hard, 512));
        assert_eq!(config.spare_permille, 125);
        assert_eq!(LayerConfig::parse("none").unwrap(), LayerConfig::new(LayerKind::Passthrough));
        assert_eq!(config.to_text(), "hard:superpage=256k:spare=12.5");
        for (text, part) in [
            ("soft", "no layer 'soft'"),
            ("hard:spare", "not KEY=VALUE"),
            ("hard:spare=95", "from 0 to 90"),
            ("hard:superpage=1000", "whole sectors"),
            ("hard:leaves=3", "no parameter 'leaves'"),
            ("shatl:mode=half", "shatl or ressd"),
            ("mhatl:gather=all", "lsp or vsp"),
            ("mhatl:leaves=0", "a number from 1"),
            ("none:spare=3", "no parameter 'spare'"),
        ] {
            let error = LayerConfig::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn parse_undoes_to_text() {
        for &kind in LayerKind::ALL {
            let config = LayerConfig::new(kind);
            assert_eq!(LayerConfig::parse(&config.to_text()), Ok(config));
        }
        for text in [
            "shatl:superpage=32k:hidden=8m:mode=ressd:threshold=16k",
            "log:superpage=32k:spare=10:compress=zstd-5:parity=yes:gc=d-choices:4:separation=two",
        ] {
            assert_eq!(LayerConfig::parse(text).unwrap().to_text(), text);
        }
        for permille in 0..=900 {
            let mut config = LayerConfig::new(LayerKind::Hard);
            (config.spare_permille, config.superpage) = (permille, 1 + permille);
            assert_eq!(LayerConfig::parse(&config.to_text()), Ok(config));
        }
    }
}
