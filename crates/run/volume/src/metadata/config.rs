//! Volume file: a small TOML file that lists the devices. `import` can recreate it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::slice;
use std::time::Duration;

use hostftl_core::files::read_text;
use hostftl_core::{DeviceSet, Nanos};
use hostftl_format::changes;
use hostftl_format::letters::is_unseen;
use hostftl_format::superblock::Superblock;
use hostftl_io::{Device, cuts};
use hostftl_layers::LayerConfig;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::metadata::config_edit::with_values;
use crate::metadata::modelled;
use crate::metadata::{settings, storage};
use crate::util::error::{AdminError, AdminErrorKind, Error, file};
use crate::util::private::{new_private, rename_new, sync_folder, target};

/// Entry of a device that is known to be lost.
pub(crate) const MISSING: &str = "missing";

/// Default deadline of a command of a device. It exceeds the kernel's own timeouts, so that the
/// kernel aborts first on a device that still responds.
const DEADLINE: Nanos = 120_000_000_000;

/// Maximum deadline of a device in seconds: one day.
const LONGEST_DEADLINE: u64 = 86_400;
/// Additional time of the layer for a device that enforces its deadline itself.
const GRACE: Nanos = 10_000_000_000;

const HEADER: &str = "\
# A HostFTL volume. `hostftl import DEVICE...` recreates this file from the devices.
";

/// Content of the volume file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// UUID of the volume.
    pub uuid: Uuid,
    /// Label chosen by the owner.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Layer and its parameters, as formatted by [`LayerConfig::to_text`].
    pub layer: String,
    /// Absolute paths, complete URIs of NBD exports, or `mem:SIZE`; `missing` for a device that is
    /// known to be lost. A file may list them in any order; opening the volume lists them by member
    /// number.
    pub devices: Vec<String>,
    /// Names of devices that are about to become members, only during a change of the members.
    /// After a power cut their superblocks decide whether they are members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<String>,
    /// Deadlines of commands in seconds, by device name; 120 for all others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deadlines: BTreeMap<String, u64>,
    /// UUIDs of the devices that an operator took offline. No spare replaces them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub offline: BTreeSet<Uuid>,
    /// Parameters of the layer that were changed since the creation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

impl Config {
    /// Returns the configuration of the volume with this newest superblock.
    pub(crate) fn from_superblock(superblock: &Superblock, devices: Vec<String>) -> Self {
        Config {
            uuid: Uuid::from_bytes(superblock.volume),
            label: superblock.label.as_str().into(),
            layer: superblock.layer.as_str().into(),
            devices,
            pending: Vec::new(),
            offline: BTreeSet::new(),
            deadlines: BTreeMap::new(),
            settings: BTreeMap::new(),
        }
    }

    /// Returns the devices of `newest` that an operator took offline.
    pub(crate) fn planned(&self, newest: &Superblock) -> DeviceSet {
        let is_one = |uuid: &[u8; 16]| self.offline.contains(&Uuid::from_bytes(*uuid));
        let members = (0..).zip(&newest.members);
        members.filter(|(_, uuid)| is_one(uuid)).map(|(index, _)| index).collect()
    }

    /// Records in the volume file at `path` that an operator took a device offline or back online.
    pub(crate) fn set_offline(path: &Path, device: Uuid, is_out: bool) -> Result<(), Error> {
        let mut config = Config::load(path)?;
        let is_new =
            if is_out { config.offline.insert(device) } else { config.offline.remove(&device) };
        if is_new { config.publish_again(path) } else { Ok(()) }
    }

    /// Reads a volume file.
    ///
    /// # Errors
    /// When it is missing or not the TOML of a volume; the message has the line.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = read_text(path).map_err(file(path, "read the volume file"))?;
        let wrong = |why: String| Error::Config { path: path.into(), why };
        let config: Config =
            toml::from_str(&text).map_err(|error| wrong(explain(&text, &error)))?;
        if config.devices.is_empty() {
            return Err(wrong("devices is empty; name at least one".into()));
        }
        let odd = |name: &&String| {
            *name != MISSING && modelled::full_name(name).ok().as_ref() != Some(*name)
        };
        if let Some(name) = config.devices.iter().chain(&config.pending).find(odd) {
            let why = "not an absolute path, mem:SIZE, zoned:..., drive:DRIVE@PATH or NBD URI";
            return Err(wrong(format!("device {name:?} is {why}")));
        }
        if config.label.chars().any(is_unseen) {
            return Err(wrong("the label has invisible or direction-changing characters".into()));
        }
        // Checked here, so that a wrong parameter is reported for the file and not later for a
        // device.
        config.layer_config().map_err(wrong)?;
        config.check_deadlines().map_err(wrong)?;
        Ok(config)
    }

    /// Adds deadlines, which replace its own. A device may have any of its names.
    pub(crate) fn add_deadlines(&mut self, deadlines: &[(String, u64)]) -> Result<(), String> {
        for (name, seconds) in deadlines {
            let name = modelled::full_name(name).map_err(|error| error.to_string())?;
            // Deadlines are looked up by the listed name, which may be another path of the same
            // device.
            let listed = storage::find(&self.devices, &name).map(|at| self.devices[at].clone());
            self.deadlines.insert(listed.unwrap_or(name), *seconds);
        }
        self.check_deadlines()
    }

    /// Checks the deadlines; the error describes the first invalid one.
    fn check_deadlines(&self) -> Result<(), String> {
        for (name, seconds) in &self.deadlines {
            if !self.devices.contains(name) && !self.pending.contains(name) {
                return Err(format!(
                    "a deadline for {name:?}, which is not a device of the volume"
                ));
            }
            if !(1..=LONGEST_DEADLINE).contains(seconds) {
                let most = LONGEST_DEADLINE;
                return Err(format!("the deadline of {name:?} is {seconds} s, not 1 to {most}"));
            }
        }
        Ok(())
    }

    /// Sets the deadlines of the devices, which are in stack order, and of the layer.
    pub(crate) fn set_deadlines(&self, devices: &[Device], layer: &mut LayerConfig) {
        for (device, own) in devices.iter().zip(&mut layer.deadlines) {
            let seconds = self.deadlines.get(device.name()).copied();
            let most = seconds.map_or(layer.deadline, |seconds| seconds * 1_000_000_000);
            // A device that enforces its deadline itself reports the fate of a command more
            // precisely, so it comes first.
            let grace = if device.set_deadline(Duration::from_nanos(most)) { GRACE } else { 0 };
            *own = most + grace;
        }
    }

    /// Returns the configuration of the layer.
    ///
    /// # Errors
    /// When the layer does not exist, or a parameter is invalid.
    pub fn layer_config(&self) -> Result<LayerConfig, String> {
        let mut layer = LayerConfig::parse(&self.layer)?;
        // Settings override the parameters of the creation, which the superblocks keep.
        for (key, value) in &self.settings {
            settings::change(&mut layer, key, value)?;
        }
        Ok(LayerConfig { uuid: *self.uuid.as_bytes(), deadline: DEADLINE, ..layer })
    }

    /// Returns whether the volume is in memory, and so exists only while it is served.
    pub fn is_memory(&self) -> bool {
        self.devices.iter().any(|name| Device::is_memory(name))
    }

    /// Writes the file durably under a temporary name; [`Draft::publish`] renames it into place.
    ///
    /// # Errors
    /// When the file exists already, or the write fails.
    pub fn draft(&self, path: &Path) -> Result<Draft, Error> {
        Self::refuse_existing(path)?;
        let mut draft = write_beside(path, &self.text(path)?)?;
        // Publication must not replace a file that appeared since the check above.
        draft.is_new = true;
        Ok(draft)
    }

    pub(crate) fn refuse_existing(path: &Path) -> Result<(), Error> {
        // A dangling symbolic link is an obstacle too.
        if fs::symlink_metadata(path).is_ok() {
            Err(Error::Exists { path: path.into() })
        } else {
            Ok(())
        }
    }

    /// Lists the devices of the volume file at `path` by member number.
    pub(crate) fn put_in_order(path: &Path, devices: &[String]) -> Result<(), Error> {
        let mut file = Config { devices: devices.into(), ..Config::load(path)? };
        // The superblocks have decided about the pending devices.
        file.pending.clear();
        // A deadline for an unlisted device would make the file invalid.
        file.deadlines.retain(|name, _| devices.contains(name));
        file.publish_again(path)
    }

    /// Writes the file at `path` with the names of the new devices as pending. This precedes the
    /// first write to any of them.
    pub(crate) fn announce(&self, path: &Path, new: &[String]) -> Result<(), AdminError> {
        let mut file = self.clone();
        // A removed device may have the name of the new one.
        let left = file.devices.iter_mut().filter(|name| new.contains(name));
        left.for_each(|name| *name = MISSING.into());
        changes::announce(&mut file.devices, &mut file.pending, new);
        file.publish_again(path).map_err(|error| {
            let why = match error {
                Error::File { what, source, .. } => format!("cannot {what}: {source}"),
                other => other.to_string(),
            };
            let text = format!(
                "{why}; no device was changed, make the file writable and run the command again"
            );
            AdminError::new(AdminErrorKind::Failed, text)
        })
    }

    /// Writes the file like [`Config::announce`], for a device that replaces member `index`. If
    /// both have the same name, the volume file lists it already.
    pub(crate) fn announce_at(
        &self,
        index: u8,
        path: &Path,
        new: &String,
    ) -> Result<(), AdminError> {
        let is_listed = self.devices[usize::from(index)] == *new;
        self.announce(path, if is_listed { &[] } else { slice::from_ref(new) })
    }

    /// Writes the file after the superblocks have changed. Returns a warning on failure; the next
    /// start writes it then.
    pub(crate) fn conclude(&self, path: &Path) -> Option<String> {
        let error = self.publish_again(path).err()?;
        Some(format!(
            "warning: devices changed, but {error}; the next start updates the volume file"
        ))
    }

    /// Replaces the file durably. Its comments are preserved, and so is a symbolic link to it.
    pub(crate) fn publish_again(&self, path: &Path) -> Result<(), Error> {
        let text = self.text(path)?;
        // A file that can't be read is replaced without its comments.
        let text = match read_text(path) {
            Ok(old) => with_values(&old, &text),
            Err(_) => text,
        };
        write_beside(&target(path), &text)?.publish()
    }

    /// Returns the text of the file.
    fn text(&self, path: &Path) -> Result<String, Error> {
        let text = toml::to_string(self)
            .map_err(|error| Error::Config { path: path.into(), why: error.to_string() })?;
        Ok(format!("{HEADER}{text}"))
    }
}

fn write_beside(path: &Path, text: &str) -> Result<Draft, Error> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    // In the same folder, because a rename is atomic only within a file system. The process ID
    // keeps the drafts of two processes apart.
    name.push(format!(".{}.new", std::process::id()));
    let temporary = path.with_file_name(name);
    let failed = || file(path, "write the volume file");
    // The draft, which removes its file when dropped, begins only once the file was created here.
    let mut out = new_private(&temporary).map_err(failed())?;
    let draft = Draft { temporary: Some(temporary), path: path.into(), is_new: false };
    // Durable before the rename; otherwise a power cut could leave an empty file under the final
    // name.
    out.write_all(text.as_bytes()).and_then(|()| out.sync_all()).map_err(failed())?;
    Ok(draft)
}

/// A volume file that is written but not yet in place; dropping it removes the file.
#[derive(Debug)]
pub struct Draft {
    /// Temporary path; `None` once the file is in place.
    temporary: Option<PathBuf>,
    path: PathBuf,
    /// Whether an existing file must not be replaced.
    is_new: bool,
}

impl Draft {
    /// Renames the file into place, durably.
    ///
    /// # Errors
    /// When the system refuses, or another process has created the file meanwhile.
    pub fn publish(mut self) -> Result<(), Error> {
        let temporary = self.temporary.as_ref().expect("it is published once");
        let renamed = if self.is_new {
            // Another process may have created the file since it was checked.
            rename_new(temporary, &self.path)
        } else {
            fs::rename(temporary, &self.path)
        };
        match renamed {
            Err(error) if self.is_new && error.kind() == ErrorKind::AlreadyExists => {
                return Err(Error::Exists { path: self.path.clone() });
            }
            other => other.map_err(file(&self.path, "put the volume file in its place"))?,
        }
        self.temporary = None;
        // A rename is durable only with its folder.
        sync_folder(&self.path).map_err(file(&self.path, "make the volume file durable"))?;
        cuts::step();
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            fs::remove_file(temporary).ok();
        }
    }
}

/// Returns the parser's message in one line, with the line number of the error.
fn explain(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    match error.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or(text);
            format!("line {}: {message}", before.matches('\n').count() + 1)
        }
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_volume_files() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/volumes");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let config = Config::load(&path).unwrap_or_else(|why| panic!("{why}"));
            config.layer_config().unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            count += 1;
        }
        assert!(count >= 7, "{count} examples");
    }

    fn config() -> Config {
        Config {
            uuid: Uuid::from_u128(7),
            label: "a \"label\"".into(),
            layer: "passthrough".into(),
            devices: vec!["/dev/null".into()],
            pending: vec!["/dev/zero".into()],
            offline: [Uuid::from_u128(8)].into(),
            deadlines: [("/dev/null".into(), 7)].into(),
            settings: BTreeMap::new(),
        }
    }

    #[test]
    fn written_files_read_back_equal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.toml");
        config().draft(&path).unwrap().publish().unwrap();
        assert_eq!(Config::load(&path).unwrap(), config());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
        assert!(matches!(config().draft(&path), Err(Error::Exists { .. })));
    }

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.toml");
        let second = config().draft(&path).unwrap();
        // Another process, with another process number.
        Config { label: "first".into(), ..config() }
            .publish_again(&folder.path().join("w"))
            .unwrap();
        fs::rename(folder.path().join("w"), &path).unwrap();
        assert!(matches!(second.publish(), Err(Error::Exists { .. })));
        assert_eq!(Config::load(&path).unwrap().label, "first");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_draft_of_another_process_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.toml");
        let theirs = folder.path().join(format!("v.toml.{}.new", std::process::id()));
        fs::write(&theirs, "").unwrap();
        config().draft(&path).unwrap_err();
        assert!(theirs.exists());
    }

    #[test]
    fn replacing_a_file_preserves_symbolic_links() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("v.toml"), folder.path().join("l.toml"));
        config().draft(&path).unwrap().publish().unwrap();
        std::os::unix::fs::symlink("v.toml", &link).unwrap();
        Config { label: "new".into(), ..config() }.publish_again(&link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(Config::load(&path).unwrap().label, "new");
        fs::remove_file(&path).unwrap();
        assert!(matches!(config().draft(&link), Err(Error::Exists { .. })), "it leads nowhere");
    }

    #[test]
    fn mistakes_have_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.toml");
        let good = toml::to_string(&config()).unwrap();
        let cases = [
            (good.replace("layer =", "lair ="), "line 3: unknown field `lair`"),
            (good.replace("= \"passthrough\"", "= 70"), "line 3: invalid type"),
            (good.replace("passthrough", "hardd"), "no layer 'hardd'; use none,"),
            (good.replace("passthrough", "hard:spare=x"), "a percentage from 0 to 90"),
            (good.replace("/dev/null", "null"), "device \"null\" is not an absolute path"),
            (good.replace("[\"/dev/null\"]", "[]"), "devices is empty"),
            (
                good.replace("null\" = 7", "nul\" = 7"),
                "a deadline for \"/dev/nul\", which is not a device",
            ),
            (good.replace("= 7", "= 0"), "the deadline of \"/dev/null\" is 0 s, not 1 to 86400"),
        ];
        for (text, expected) in cases {
            fs::write(&path, text).unwrap();
            let message = Config::load(&path).unwrap_err().to_string();
            assert!(message.starts_with(path.to_str().unwrap()), "{message}");
            assert!(message.contains(expected), "{message}");
        }
    }
}
