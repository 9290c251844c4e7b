//! The list of all layers, and access to their registrations by kind.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::config::LayerConfig;
use crate::kind::LayerKind;
use crate::registration::{Devices, Registration};
use crate::{exerciser, hard, log, mhatl, passthrough, scrambler, shatl, targets, tier, zones};

/// Every layer, in the order in which users see them. Those after the first [`OFFERED`] are not
/// available for volumes.
const LAYERS: [&Registration; LayerKind::COUNT] = [
    &passthrough::register::REGISTRATION,
    &hard::register::REGISTRATION,
    &mhatl::register::REGISTRATION,
    &shatl::register::SHATL,
    &shatl::register::HATL_AUTO,
    &scrambler::register::REGISTRATION,
    &log::register::REGISTRATION,
    &tier::register::REGISTRATION,
    &zones::register::PBLK,
    &zones::register::RRPC,
    &exerciser::register::REGISTRATION,
    &targets::register::REGISTRATION,
];
const OFFERED: usize = LayerKind::COUNT - 2;

const KINDS: [LayerKind; LayerKind::COUNT] = {
    let mut kinds = [LayerKind::Passthrough; LayerKind::COUNT];
    let mut at = 0;
    while at < LayerKind::COUNT {
        kinds[at] = LAYERS[at].kind;
        at += 1;
    }
    kinds
};

/// Index in [`LAYERS`] of each kind. Compilation fails if a kind is not registered, or registered
/// twice.
const PLACES: [usize; LayerKind::COUNT] = {
    let mut places = [usize::MAX; LayerKind::COUNT];
    let mut at = 0;
    while at < LayerKind::COUNT {
        assert!(places[KINDS[at] as usize] == usize::MAX, "a layer is registered twice");
        places[KINDS[at] as usize] = at;
        at += 1;
    }
    places
};

impl LayerKind {
    /// The kinds that are available for volumes.
    pub const ALL: &'static [LayerKind] = KINDS.split_at(OFFERED).0;

    /// All kinds, including those for tests.
    pub const EVERY: &'static [LayerKind] = &KINDS;

    /// Returns the registration of the layer.
    pub fn registration(self) -> &'static Registration {
        LAYERS[PLACES[self as usize]]
    }

    /// Returns the name on the command line, in reports and on media.
    pub fn name(self) -> &'static str {
        self.registration().name
    }

    /// Returns the version of the layer's format on media.
    pub fn format(self) -> u32 {
        self.registration().format
    }

    /// Returns whether the layer needs a device that reports its next victim.
    pub fn needs_hint(self) -> bool {
        self.registration().devices == Devices::Hinting
    }

    /// Returns whether the layer only works on one zoned device.
    pub fn takes_zones(self) -> bool {
        self.registration().devices == Devices::Zoned
    }

    /// Returns whether the layer reads its metadata back while it serves requests.
    pub fn reads_metadata(self) -> bool {
        self.registration().reads_metadata
    }

    /// Returns those of [`LayerKind::ALL`] that work on one block device of any kind.
    pub fn block_layers() -> impl Iterator<Item = LayerKind> {
        let fits = |kind: &LayerKind| {
            matches!(kind.registration().devices, Devices::Block | Devices::Array)
        };
        Self::ALL.iter().copied().filter(fits)
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

impl LayerConfig {
    /// Returns `kind` with every other value at its default.
    pub fn new(kind: LayerKind) -> Self {
        let mut config = LayerConfig::bare(kind);
        (kind.registration().defaults)(&mut config);
        config
    }

    /// Returns the number of devices that a volume can lose.
    pub fn tolerates(&self) -> u32 {
        (self.kind.registration().promises.does_without)(self)
    }

    /// Parses `NAME[:KEY=VALUE]…`, as in `hard:superpage=256k:spare=10`.
    ///
    /// # Errors
    /// If the text is invalid: a message with the valid values.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let kind = name.parse().map_err(|()| {
            let known: Vec<_> = LayerKind::ALL.iter().map(|kind| kind.name()).collect();
            format!("no layer '{name}'; use none, {}", known.join(", "))
        })?;
        let mut config = LayerConfig::new(kind);
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            let (key, value) = word.split_once('=').ok_or_else(|| {
                format!("'{word}' of layer '{text}' is not of the form KEY=VALUE")
            })?;
            // A value may contain a colon, as in `gc=d-choices:4`.
            let rest = words.next_if(|next| !next.contains('='));
            let value = rest.map_or_else(|| value.into(), |rest| format!("{value}:{rest}"));
            config.set(key, &value)?;
        }
        Ok(config)
    }

    /// Returns the canonical text: the name and every parameter of the layer. Volumes store it, and
    /// [`LayerConfig::parse`] reads it. `deadline`, `members` and `uuid` are not included.
    pub fn to_text(&self) -> String {
        let mut text = String::from(self.kind.name());
        for parameter in self.kind.registration().parameters {
            if let Some(value) = (parameter.get)(self) {
                text += &format!(":{}={value}", parameter.key);
            }
        }
        text
    }

    /// Sets one parameter of the layer.
    ///
    /// # Errors
    /// As [`LayerConfig::parse`].
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let kind = self.kind;
        let Some(parameter) = kind.registration().parameter(key) else {
            let keys: Vec<_> = kind.registration().parameters.iter().map(|it| it.key).collect();
            let has = if keys.is_empty() { String::from("none") } else { keys.join(", ") };
            return Err(format!("{kind} has no parameter '{key}'; it has {has}"));
        };
        (parameter.set)(self, value)
            .map_err(|want| format!("{kind}: {key}={value} is invalid; use {want}"))
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
            ("hard:spare", "of the form KEY=VALUE"),
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
            "log:superpage=32k:spare=10:compress=lz4:parity=2:gc=greedy:separation=two",
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
