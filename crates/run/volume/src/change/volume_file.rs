//! The volume file during membership changes. The administrator may edit it at any time.

use std::path::Path;

use hostftl_core::{DeviceSet, Layer};
use hostftl_io::Driver;
use hostftl_layers::AnyLayer;

use super::changer::{CLOSED, Changer};
use crate::metadata::config::{Config, MISSING};
use crate::running::jobs::Jobs;
use crate::util::error::AdminError;
use crate::util::events::Level;

impl Changer {
    /// Reads the volume file and lists its devices by member number, because the administrator may
    /// have edited it. Removed and lost devices may be `missing` in the file.
    pub(super) fn file(&self) -> Result<Config, AdminError> {
        let file = Config::load(self.path())?;
        let devices = self.device_list(&file, self.path())?;
        Ok(Config { devices, ..file })
    }

    fn device_list(&self, file: &Config, path: &Path) -> Result<Vec<String>, AdminError> {
        let query = |driver: &mut Driver<AnyLayer>, _: &mut Jobs| {
            driver.layer().members().lost() | driver.layer().members().removed()
        };
        let (served, away) = (self.config(), self.port.between(query).ok_or(CLOSED)?);
        // If the file could not be written after the last change, it still lists its devices as
        // pending.
        let is_known = |name: &String| file.devices.contains(name) || file.pending.contains(name);
        let is_behind = !file.pending.is_empty() && served.devices.iter().all(is_known);
        let list = if is_behind {
            Some(served.devices.clone())
        } else {
            in_file_order(&file.devices, &served.devices, away)
        };
        list.filter(|_| file.uuid == served.uuid).ok_or_else(|| {
            AdminError::refused(format!(
                "{} does not match the served volume and its devices; correct it, or remove it and \
                 recreate it with `hostftl import`",
                path.display()
            ))
        })
    }

    /// Writes the volume file after a change. Returns a warning if that fails.
    fn conclude(&self, file: &Config) -> Option<String> {
        let warning = file.conclude(self.path())?;
        self.sources.samples.events.report(Level::Warning, "note", warning.as_str());
        Some(warning)
    }

    /// Writes the current members to the volume file and removes `names` from its pending devices.
    /// Returns a warning if the file can't be written.
    pub(super) fn publish(&self, names: &[String]) -> Option<String> {
        let mut file = match self.file() {
            Ok(file) => file,
            Err(why) => return Some(format!("warning: the devices have changed, but {why}")),
        };
        let served = self.config();
        file.pending.retain(|name| !names.contains(name));
        file.devices = served.devices;
        // The served list is authoritative: the file may be older than the last command.
        file.offline.retain(|device| served.offline.contains(device));
        let Config { devices, deadlines, .. } = &mut file;
        deadlines.retain(|name, _| devices.contains(name));
        self.conclude(&file)
    }

    /// Removes `names` from the pending devices of the volume file.
    pub(super) fn forget_pending(&self, names: &[String]) {
        let forgotten = self.file().and_then(|mut file| {
            if !file.pending.iter().any(|name| names.contains(name)) {
                return Ok(());
            }
            file.pending.retain(|name| !names.contains(name));
            file.publish_again(self.path()).map_err(AdminError::from)
        });
        if let Err(why) = forgotten {
            let text = format!(
                "{} may still be listed as pending: {why}; the next start corrects it",
                names.join(", ")
            );
            self.sources.samples.events.report(Level::Warning, "note", text);
        }
    }
}

/// Returns the devices of the volume file in the order of the `served` devices. Devices that are
/// `away` may be `missing` in the file. Returns `None` if the lists differ otherwise.
fn in_file_order(file: &[String], served: &[String], away: DeviceSet) -> Option<Vec<String>> {
    let mut rest = file.to_vec();
    let mut list = Vec::new();
    for (index, name) in (0..).zip(served) {
        let exact = rest.iter().position(|it| it == name);
        let is_away = away.contains(index);
        let missing = || rest.iter().position(|it| it == MISSING).filter(|_| is_away);
        list.push(rest.swap_remove(exact.or_else(missing)?));
    }
    rest.is_empty().then_some(list)
}
