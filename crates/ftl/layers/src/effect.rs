//! Parameters that do not take effect as stated.
//!
//! Each layer checks its parameters ([`Registration::effect`]) against the devices and the use of
//! the layer. [`notes`] collects the results for a new volume or a study.
//!
//! [`Registration::effect`]: crate::Registration::effect

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use hostftl_core::DeviceInfo;

use crate::config::{LayerConfig, Plan};

/// The use of a layer, against which its parameters are checked.
#[derive(Clone, Copy, Debug)]
pub struct Usage<'a> {
    /// The devices in the order of the stack, including a journal.
    pub devices: &'a [DeviceInfo],
    /// Details of a study; `None` for a volume.
    pub study: Option<StudyUsage>,
}

/// Properties of a study, which has no failures, no rebuild and no scrub.
#[derive(Clone, Copy, Debug)]
pub struct StudyUsage {
    /// Exported sectors; `None` if each layer exports its maximum.
    pub exported: Option<u64>,
    /// Whether the data of the workload is incompressible.
    pub is_incompressible: bool,
}

/// Effect of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The value takes effect as stated.
    Full,
    /// The value has no effect, or not the stated one, for this reason.
    Limited(String),
    /// The value can never have an effect in this configuration, for this reason.
    Never(&'static str),
}

/// Returns a note for each parameter of `config` that does not take effect as stated. `is_stated`
/// decides by key whether the user stated a parameter. Parameters that [`LayerConfig::choose`]
/// chooses must not be chosen yet.
///
/// # Errors
/// A parameter that can never have an effect, with the reason.
pub fn notes(
    config: &LayerConfig,
    usage: &Usage,
    is_stated: impl Fn(&str) -> bool,
) -> Result<Vec<String>, String> {
    let registration = config.kind.registration();
    let mut notes = Vec::new();
    for parameter in registration.parameters.iter().filter(|it| is_stated(it.key)) {
        let key = parameter.key;
        let value = (parameter.get)(config);
        let text = value.map_or_else(|| key.into(), |value| format!("{key}={value}"));
        match (registration.effect)(config, key, usage) {
            Effect::Full => {}
            Effect::Limited(why) => notes.push(format!("{text}: {why}")),
            Effect::Never(why) => {
                return Err(format!("{}: {text} has no effect: {why}", config.kind));
            }
        }
    }
    Ok(notes)
}

/// Returns whether a parameter differs from its default.
pub fn is_changed(config: &LayerConfig, key: &str) -> bool {
    let parameter = config.kind.registration().parameter(key);
    let usual = LayerConfig::new(config.kind);
    parameter.is_some_and(|it| (it.get)(config) != (it.get)(&usual))
}

/// Returns the plan of `config` with `change` applied; `None` if it is impossible.
pub(crate) fn planned(
    config: &LayerConfig,
    usage: &Usage,
    change: impl FnOnce(&mut LayerConfig),
) -> Option<Plan> {
    let mut config = config.clone();
    change(&mut config);
    (config.kind.registration().plan)(&config, usage.devices).ok()
}

/// The effects of a layer without limited parameters.
pub(crate) fn full(_: &LayerConfig, _: &str, _: &Usage) -> Effect {
    Effect::Full
}

/// The effects of a layer in which only `spare` can be limited.
pub(crate) fn only_spare(config: &LayerConfig, key: &str, usage: &Usage) -> Effect {
    if key == "spare" { spare(config, usage) } else { Effect::Full }
}

/// The effect of `spare`: it is limited if the layer reserves more in any case, or if the export of
/// a study leaves more.
pub(crate) fn spare(config: &LayerConfig, usage: &Usage) -> Effect {
    let Some(plan) = planned(config, usage, |_| ()) else { return Effect::Full };
    let Some(least) = planned(config, usage, |it| it.spare_permille = 0) else {
        return Effect::Full;
    };
    if config.spare_permille > 0 && plan == least {
        return Effect::Limited(
            "acts as spare=0, because the layer reserves more in any case".into(),
        );
    }
    left_by_export(usage, plan.limits.exported)
}

/// The effect of `spare` if at most `exported` sectors can be exported with it.
pub(crate) fn left_by_export(usage: &Usage, exported: u64) -> Effect {
    let studied = usage.study.and_then(|study| study.exported);
    match studied {
        Some(studied) if studied + exported / 1000 < exported => {
            Effect::Limited("the export leaves more spare than this; use --export".into())
        }
        _ => Effect::Full,
    }
}

/// A length in bytes, displayed in its largest whole unit.
pub(crate) struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => write!(f, "{} MiB", bytes >> 20),
            bytes if bytes >= 100 << 20 => write!(f, "{} MiB", bytes >> 20),
            bytes if bytes >= 1 << 20 => write!(f, "{:.1} MiB", bytes as f64 / 1048576.0),
            bytes if bytes >= 1024 => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{bytes} B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::{DeviceKind, Segments};

    use super::*;

    /// Returns the notes of a volume on one device of 4 GiB, or the error.
    fn notes(layer: &str, is_zoned: bool) -> Result<Vec<String>, String> {
        let block = DeviceInfo::block(4 << 21, 8);
        let zones = Segments {
            size: 1 << 15,
            write_unit: 8,
            write_best: 8,
            unreadable: 0,
            max_open: 0,
            count: 256,
            units: 1,
        };
        let kind = if is_zoned { DeviceKind::Zoned(zones) } else { DeviceKind::Block };
        let device = DeviceInfo { kind, ..block };
        let config = LayerConfig::parse(layer).unwrap();
        let usage = Usage { devices: core::slice::from_ref(&device), study: None };
        super::notes(&config, &usage, |key| is_changed(&config, key))
    }

    #[test]
    fn only_changed_parameters_have_notes() {
        assert_eq!(notes("mhatl", false), Ok(Vec::new()));
        assert_eq!(notes("log:rebuild-share=5:compress=zstd", false), Ok(Vec::new()));
        let limited = notes("log:fault-after=5:map-memory=1g", false).unwrap();
        assert_eq!(limited.len(), 2, "{limited:?}");
        assert!(limited[0].contains("map-memory=1g: limited to the whole map"), "{limited:?}");
        assert!(limited[1].contains("fault-after=5: no effect"), "{limited:?}");
        let short = notes("log:reclaim-unit=64m", false).unwrap();
        assert!(short[0].contains("segments of 4 MiB are shorter"), "{short:?}");
    }

    #[test]
    fn parameters_that_can_never_have_an_effect_are_errors() {
        let why = notes("log:reclaim-unit=64m", true).unwrap_err();
        assert!(why.contains("log: reclaim-unit=64m has no effect"), "{why}");
        let why = notes("scrambler:refresh=0:enough=0.5", false).unwrap_err();
        assert!(why.contains("enough=0.500 has no effect"), "{why}");
        assert!(notes("scrambler:refresh=0", false).is_ok());
    }
}
