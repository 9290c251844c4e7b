//! Another value of a parameter, for a volume that serves or will.
//!
//! The superblocks keep what the volume was made with; what was changed since stands in the volume
//! file, in `[settings]`.

use std::path::Path;

use hostftl_core::{Setting, Verb};

use crate::admin::operate::{Outcome, Wish, operate};
use crate::metadata::config::Config;
use crate::metadata::settings::change;
use crate::open::volume::lock;
use crate::util::error::Error;
use crate::util::volume_lock::Sole;

/// Sets a parameter of a volume, with the process that serves it, if one does.
///
/// # Errors
/// When there is no such volume or parameter, or it can't be changed.
pub fn set(path: &Path, key: &str, value: &str) -> Result<Outcome, Error> {
    let config = Config::load(path)?;
    let wrong = |why| Error::Asked(format!("{}: {why}", path.display()));
    verb(&config, key, value).map_err(wrong)?;
    let wish = Wish::Set { key: key.into(), value: value.into() };
    if let Some(outcome) = operate(path, &wish)? {
        return Ok(outcome);
    }
    let _lock = lock(path)?;
    let _sole = Sole::take(config.uuid, path)?;
    keep(path, key, value).map(Outcome::of_volume)
}

/// What a parameter's new value is to a layer.
///
/// # Errors
/// In words, when it can't be.
pub(crate) fn verb(config: &Config, key: &str, value: &str) -> Result<Verb, String> {
    let mut layer = config.layer_config()?;
    change(&mut layer, key, value)?;
    Ok(Verb::Set(match key {
        "gc" => Setting::Gc(layer.log.gc.to_number()),
        "fault-after" => Setting::FaultAfter(layer.log.fault_after),
        _ => Setting::RebuildShare(layer.log.rebuild_share),
    }))
}

/// Writes a parameter into the volume file; whether that is new.
pub(crate) fn keep(path: &Path, key: &str, value: &str) -> Result<bool, Error> {
    let mut config = Config::load(path)?;
    let was = config.settings.insert(key.into(), value.into());
    let is_new = was.as_deref() != Some(value);
    if is_new {
        config.publish_again(path)?;
    }
    Ok(is_new)
}
