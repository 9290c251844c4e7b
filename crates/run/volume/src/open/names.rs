//! Resolution of a path, a number or a UUID to a member of a volume.
//!
//! A volume file lists its devices in any order, and a path may lead to another device than it did
//! when the file was written. The superblock at a path identifies the member there, so a position
//! in a list is never taken for a member number.
//!
//! # Invariants
//! - Entry `n` is member `n`.
//! - A path means a member only if a superblock has proved it, or if the device is absent and no
//!   other path and no other member is left.

use std::fmt;

use hostftl_core::{DeviceSet, SECTOR};
use hostftl_format::assemble::choose;
use hostftl_format::changes::member_at;
use hostftl_format::superblock::Superblock;
use hostftl_io::{Access, Device, zoned_path};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::metadata::config::Config;
use crate::metadata::config::MISSING;
use crate::metadata::modelled;
use crate::metadata::storage::is_same;
use crate::open::stack::{Assembly, copies};
use crate::util::error::{AdminError, Error, device};

/// Identity of a member in replies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceId {
    /// Member number.
    #[serde(rename = "device")]
    pub number: u8,
    /// UUID; empty for a volume in memory.
    pub uuid: String,
    /// Path in the volume file.
    pub path: String,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.uuid.as_str() {
            "" => write!(f, "device {} ({})", self.number, self.path),
            uuid => write!(f, "device {} ({}, {uuid})", self.number, self.path),
        }
    }
}

/// A device as named by a user.
enum Wanted {
    Number(usize),
    Uuid(Uuid),
    /// Complete path or URI.
    Path(String),
}

impl Wanted {
    fn parse(text: &str) -> Result<Self, Error> {
        if let Ok(number) = text.parse::<u8>() {
            return Ok(Wanted::Number(number.into()));
        }
        match Uuid::try_parse(text) {
            // Other spellings of a UUID are more likely file names.
            Ok(uuid) if text.len() == 36 => Ok(Wanted::Uuid(uuid)),
            _ => Ok(Wanted::Path(modelled::full_name(text)?)),
        }
    }
}

/// Completes the name of a device for a process that may have another working directory. `config`
/// is the volume file. Numbers and UUIDs are unchanged.
pub(crate) fn complete(wanted: &str, config: &Config) -> Result<String, Error> {
    match Wanted::parse(wanted)? {
        Wanted::Path(full) => Ok(full),
        Wanted::Uuid(_) => Ok(wanted.into()),
        Wanted::Number(_) => {
            let full = modelled::full_name(wanted)?;
            if config.devices.iter().any(|name| is_same(name, &full)) {
                Err(device(
                    wanted,
                    format!("is a number and a file name; write ./{wanted} for the file"),
                ))
            } else {
                Ok(wanted.into())
            }
        }
    }
}

/// Finding at a path, regardless of the process that uses the device.
enum Found {
    /// Superblock of any volume.
    Superblock(Box<Superblock>),
    /// Device without a usable superblock.
    Other,
    /// Nothing readable, or a device type without superblocks.
    Absent,
}

/// Reads the superblock of a file or block device. NBD exports are skipped, because a server may
/// accept only one client at a time.
fn inspect_path(name: &str) -> Found {
    match modelled::backing(name).unwrap_or(name) {
        path if path.starts_with('/') || zoned_path(path).is_some() => open_and_inspect(name),
        _ => Found::Absent,
    }
}

fn open_and_inspect(name: &str) -> Found {
    if name == MISSING || Device::is_memory(name) {
        return Found::Absent;
    }
    let path = modelled::backing(name).unwrap_or(name);
    // Inspection needs no exclusive access: the device may be open in a server.
    let Ok(opened) = Device::open_as(path, Access::Inspect) else { return Found::Absent };
    let copies = copies(opened.bytes() / SECTOR as u64, |at| opened.read_page(at));
    match copies.map(|[(_, head), (_, tail)]| choose(head, tail)) {
        Ok(Ok(chosen)) => Found::Superblock(Box::new(chosen.superblock)),
        Ok(Err(_)) => Found::Other,
        Err(_) => Found::Absent,
    }
}

#[derive(Clone, Debug)]
struct Entry {
    name: String,
    uuid: [u8; 16],
    /// Whether the member is certainly at that path.
    is_known: bool,
}

/// Names of the members of a volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    volume: [u8; 16],
    entries: Vec<Entry>,
}

impl Names {
    /// Returns the names of a volume in memory, which only its file has.
    pub(crate) fn in_memory(config: &Config) -> Self {
        let entry = |name: &String| Entry { name: name.clone(), uuid: [0; 16], is_known: true };
        let entries = config.devices.iter().map(entry).collect();
        Names { volume: config.uuid.into_bytes(), entries }
    }

    /// Reads the superblocks of the devices that a volume file lists.
    pub(crate) fn read(config: &Config) -> Self {
        if config.is_memory() {
            return Names::in_memory(config);
        }
        let inspected = config.devices.iter().map(|name| (name.clone(), open_and_inspect(name)));
        Names::new(config.uuid.into_bytes(), inspected.collect())
    }

    /// Returns the names in a volume file's list, whose devices are open.
    pub(crate) fn opened(list: &[String], found: &Assembly) -> Self {
        let superblock = |name: &String| {
            let mut members = found.members.iter().flatten();
            let member = members.find(|it| it.device.name() == name).map(|it| it.superblock);
            let stale = found.stale.iter().find(|(stale, _)| stale == name).map(|(_, it)| *it);
            member.or(stale)
        };
        let find = |name: &String| match superblock(name) {
            Some(superblock) => (name.clone(), Found::Superblock(Box::new(superblock))),
            None => (name.clone(), inspect_path(name)),
        };
        Names::new(found.superblock.volume, list.iter().map(find).collect())
    }

    fn new(volume: [u8; 16], inspected: Vec<(String, Found)>) -> Self {
        let superblocks = inspected.iter().filter_map(|(_, found)| match found {
            Found::Superblock(superblock) if superblock.volume == volume => Some(superblock),
            _ => None,
        });
        let Some(newest) = superblocks.max_by_key(|it| it.generation).cloned() else {
            // No superblock was read: no path is certain.
            let entry = |(name, _)| Entry { name, uuid: [0; 16], is_known: false };
            return Names { volume, entries: inspected.into_iter().map(entry).collect() };
        };
        let listed = inspected.len();
        // An edited file may list more devices than the superblocks.
        let count = usize::from(newest.count).max(listed);
        let mut places: Vec<Option<(String, bool)>> = vec![None; count];
        let mut rest = Vec::new();
        for (at, (name, found)) in inspected.into_iter().enumerate() {
            let index = match &found {
                Found::Superblock(it) => member_at(at, it, &newest).map(usize::from),
                _ => None,
            };
            // A copy has the same member number: only the device that is listed first gets the
            // slot.
            match index.filter(|index| places[*index].is_none()) {
                Some(index) => places[index] = Some((name, true)),
                None => rest.push((at, name, matches!(found, Found::Absent))),
            }
        }
        place_rest(&mut places, rest, DeviceSet::from_bits(newest.removed));
        // After an interrupted `add` there are members that the file does not list yet.
        while places.len() > listed && places.last().is_some_and(Option::is_none) {
            places.pop();
        }
        let entry = |(index, place): (usize, Option<(String, bool)>)| {
            let (name, is_known) = place.unwrap_or_else(|| (MISSING.into(), false));
            let uuid = newest.members.get(index).copied().unwrap_or_default();
            Entry { name, uuid, is_known }
        };
        Names { volume, entries: places.into_iter().enumerate().map(entry).collect() }
    }

    /// Returns the names by member number.
    pub(crate) fn list(&self) -> Vec<String> {
        self.entries.iter().map(|entry| entry.name.clone()).collect()
    }

    /// Returns the identity of a member for replies.
    pub(crate) fn id(&self, index: u8) -> DeviceId {
        let entry = &self.entries[usize::from(index)];
        let uuid = match entry.uuid {
            [0, ..] if entry.uuid == [0; 16] => String::new(),
            // Volumes in memory have no UUIDs of devices.
            uuid => Uuid::from_bytes(uuid).to_string(),
        };
        DeviceId { number: index, uuid, path: entry.name.clone() }
    }

    /// Returns all members, by number.
    pub(crate) fn all(&self) -> Vec<DeviceId> {
        (0..self.entries.len() as u8).map(|index| self.id(index)).collect()
    }

    /// Records that another device is now member `index`.
    pub(crate) fn replace(&mut self, index: u8, name: &str, uuid: [u8; 16]) {
        let entry = Entry { name: name.into(), uuid, is_known: true };
        self.entries[usize::from(index)] = entry;
    }

    /// Takes a list that has grown or has other names. Paths of new members are certain.
    pub(crate) fn take_list(&mut self, list: &[String], members: &[[u8; 16]]) {
        for (index, name) in list.iter().enumerate() {
            let (uuid, was) = (members[index], self.entries.get(index));
            // A changed path of an existing member is unverified.
            let is_known = was.is_none_or(|was| was.is_known && was.name == *name);
            let entry = Entry { name: name.clone(), uuid, is_known };
            match self.entries.get_mut(index) {
                Some(place) => *place = entry,
                None => self.entries.push(entry),
            }
        }
    }

    /// Returns the member number for a name. Members of `open` are open in this process, so the
    /// current device at their paths matters only if it is another member.
    pub(crate) fn resolve(&self, wanted: &str, open: DeviceSet) -> Result<u8, AdminError> {
        let found = match Wanted::parse(wanted)? {
            Wanted::Number(number) => (number < self.entries.len()).then_some(number),
            Wanted::Uuid(uuid) => {
                self.entries.iter().position(|entry| entry.uuid == uuid.into_bytes())
            }
            Wanted::Path(path) => return self.resolve_path(&path, open),
        };
        found.map(|at| at as u8).ok_or_else(|| self.unknown(wanted))
    }

    fn resolve_path(&self, path: &str, open: DeviceSet) -> Result<u8, AdminError> {
        let named = self.entries.iter().enumerate();
        let named = named.filter(|(_, entry)| entry.name != MISSING && is_same(&entry.name, path));
        let named: Vec<u8> = named.map(|(index, _)| index as u8).collect();
        let by_number = "use the device number or UUID of `hostftl status`";
        let found = inspect_path(path);
        if let Found::Superblock(it) = &found
            && it.volume == self.volume
        {
            let uuid = Uuid::from_bytes(it.device);
            let is_member = self.entries.get(usize::from(it.index));
            // A replaced device keeps its number in its own superblock, so the UUID decides.
            if is_member.is_none_or(|entry| entry.uuid != it.device) {
                return Err(AdminError::refused(format!(
                    "{path} is a former member of the volume ({uuid}); {by_number}"
                )));
            }
            return match named.contains(&it.index) {
                true => Ok(it.index),
                false if named.is_empty() => Err(AdminError::refused(format!(
                    "{path} is {}, which has another path in the volume file; {by_number}",
                    self.id(it.index)
                ))),
                false => Err(AdminError::refused(format!(
                    "{path} is now device {} of the volume and was device {} before; {by_number}",
                    it.index, named[0]
                ))),
            };
        }
        // No superblock proves the path, so it must be listed exactly once.
        let [index] = named[..] else {
            return Err(if named.is_empty() {
                self.unknown(path)
            } else {
                AdminError::refused(format!("{path} is listed more than once; {by_number}"))
            });
        };
        let is_known = self.entries[usize::from(index)].is_known;
        match found {
            // This process holds the member, so the current state of the path does not matter.
            _ if is_known && open.contains(index) => Ok(index),
            Found::Absent if is_known => Ok(index),
            Found::Absent => Err(AdminError::refused(format!(
                "{path} cannot be read, and {}; {by_number}",
                self.without_path()
            ))),
            Found::Superblock(it) => {
                let (theirs, left) = (Uuid::from_bytes(it.volume), self.without_path());
                Err(AdminError::refused(format!(
                    "{path} is a device of another volume ({theirs}), and {left}; {by_number}"
                )))
            }
            Found::Other => Err(AdminError::refused(format!(
                "{path} has no superblock of this volume, and {}; {by_number}",
                self.without_path()
            ))),
        }
    }

    /// Lists the members whose path is not certain.
    fn without_path(&self) -> String {
        let unknown = self.entries.iter().enumerate().filter(|(_, entry)| !entry.is_known);
        let numbers: Vec<String> = unknown.map(|(index, _)| index.to_string()).collect();
        match numbers.len() {
            0 => "each device has another path".into(),
            1 => format!("device {} was not found", numbers[0]),
            _ => format!("devices {} were not found", numbers.join(", ")),
        }
    }

    fn unknown(&self, wanted: &str) -> AdminError {
        let list: Vec<String> = self.all().iter().map(ToString::to_string).collect();
        AdminError::refused(format!(
            "{wanted} is not a device of the volume; its devices are {}",
            list.join(", ")
        ))
    }
}

/// Assigns the names whose devices have no superblock to the remaining members, each to its own
/// position if that is free. If only one remains, the assignment is certain when its device is
/// absent.
fn place_rest(
    places: &mut [Option<(String, bool)>],
    rest: Vec<(usize, String, bool)>,
    removed: DeviceSet,
) {
    let free = places.iter().filter(|place| place.is_none()).count();
    let is_only = |name: &str, is_absent| free == 1 && name != MISSING && is_absent;
    let mut others = Vec::new();
    for (at, name, is_absent) in rest {
        match &mut places[at] {
            place @ None => *place = Some((name.clone(), is_only(&name, is_absent))),
            Some(_) => others.push((name, is_absent)),
        }
    }
    // `missing` most likely denotes a removed device, so it is assigned last and prefers that
    // position.
    others.sort_by_key(|(name, _)| name != MISSING);
    for (name, is_absent) in others {
        let mut left = (0..places.len()).filter(|at| places[*at].is_none());
        let first = left.clone().find(|at| name == MISSING && removed.contains(*at as u8));
        if let Some(at) = first.or_else(|| left.next()) {
            let is_known = is_only(&name, is_absent);
            places[at] = Some((name, is_known));
        }
    }
}
