//! Opening of a volume for exclusive use by this process, up to the layer.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hostftl_core::{DeviceSet, SECTOR};
use hostftl_format::roster::Record;
use hostftl_format::superblock::{Superblock, data_window};
use hostftl_io::{Access, Device, IoError, find_holder, zoned_path};
use hostftl_layers::{LayerConfig, Mode, Plan};
use uuid::Uuid;

use crate::metadata::config::Config;
use crate::metadata::journal;
use crate::metadata::modelled;
use crate::metadata::roster::Roster;
use crate::open::cut::InterruptedChange;
use crate::open::gather::{OpenOptions, gather, refusal};
use crate::open::machine::{as_members, infos, plan};
use crate::open::names::{DeviceId, Names};
use crate::open::refusal::degraded::{EXCLUDED, at_rest, spare_is_missing, without};
use crate::open::refusal::moved;
use crate::open::refusal::tier;
use crate::open::stack::{Assembly, Member, Redundancy, time};
use crate::util::error::{Error, device, file};

/// Note on a volume that is only read.
const READ_ONLY: &str = "read-only: devices are not written, recovery stays in memory";
/// Longest wait for a lock without a known holder.
const PATIENCE: Duration = Duration::from_secs(5);

/// A volume that this process has opened and not started yet.
#[derive(Debug)]
pub struct Volume {
    pub(crate) path: PathBuf,
    /// Content of the volume file, with the devices by member number.
    pub(crate) config: Config,
    pub(crate) names: Names,
    /// Whether the volume file lists the devices in another order.
    pub(crate) is_permuted: bool,
    /// Interrupted change of the members, if the volume file has one.
    pub(crate) cut: Option<InterruptedChange>,
    pub(crate) layer: LayerConfig,
    pub(crate) plan: Plan,
    pub(crate) devices: Vec<Device>,
    pub(crate) roster: Roster,
    pub(crate) mode: Mode,
    /// Whether anything may be written to the devices.
    pub(crate) access: Access,
    /// Notes for the operator: damaged copies, a slow engine, a volume that is only in memory.
    pub(crate) notes: Vec<String>,
    /// Lock on the volume file, held as long as the volume is open.
    pub(crate) lock: File,
}

/// Opens the volume whose file is `path`. All its members must be present.
///
/// # Errors
/// When it or a device is missing, in use, or contradicts the file.
pub fn open(path: &Path) -> Result<Volume, Error> {
    open_with(path, &OpenOptions::default())
}

/// Opens the volume whose file is `path`, possibly without some members.
///
/// # Errors
/// When it or a device is missing, in use, or contradicts the file; when an operator has to agree
/// to start without a member.
pub fn open_with(path: &Path, options: &OpenOptions) -> Result<Volume, Error> {
    let (config, layer, lock) = read(path, options)?;
    if config.is_memory() {
        return open_in_memory(path, (config, layer), options.access, lock);
    }
    Gathered::find(path, (config, layer), lock, options)?.open(DeviceSet::EMPTY, options)
}

/// Finds the devices of the volume whose file is `path`, and writes nothing.
pub(crate) fn find(path: &Path) -> Result<Gathered, Error> {
    let options = OpenOptions::default();
    let (config, layer, lock) = read(path, &options)?;
    if config.is_memory() {
        let why = "is in memory: there is no device to change while it is not served".into();
        return Err(Error::Config { path: path.into(), why });
    }
    Gathered::find(path, (config, layer), lock, &options)
}

/// Reads a volume file and locks it.
fn read(path: &Path, options: &OpenOptions) -> Result<(Config, LayerConfig, File), Error> {
    let mut config = Config::load(path)?;
    config
        .add_deadlines(&options.deadlines)
        .map_err(|why| Error::Asked(format!("{}: {why}", path.display())))?;
    // Locked before the devices are opened, so that of two starts only one touches them.
    let lock = lock(path)?;
    let layer = config.layer_config().map_err(|why| Error::Config { path: path.into(), why })?;
    Ok((config, layer, lock))
}

fn open_in_memory(
    path: &Path,
    (config, layer): (Config, LayerConfig),
    access: Access,
    lock: File,
) -> Result<Volume, Error> {
    if access == Access::ReadOnly {
        let why = "the volume is in memory and empty at each start";
        return Err(Error::Config { path: path.into(), why: why.into() });
    }
    let devices = open_memory(&config)?;
    let plan = plan(&layer, &infos(&devices))?;
    let notes =
        vec!["the volume is in memory: empty now, and lost at the end of this process".into()];
    let (path, mode, roster) = (path.into(), Mode::Format, Roster::default());
    let names = Names::in_memory(&config);
    Ok(Volume {
        path,
        config,
        names,
        is_permuted: false,
        cut: None,
        layer,
        plan,
        devices,
        roster,
        mode,
        access,
        notes,
        lock,
    })
}

/// Devices of a volume whose file is locked.
pub(crate) struct Gathered {
    path: PathBuf,
    /// Content of the volume file, with the members after an interrupted change.
    config: Config,
    layer: LayerConfig,
    found: Assembly,
    lock: File,
    /// Devices that the file lists as pending.
    pub pending: Vec<String>,
}

impl Gathered {
    fn find(
        path: &Path,
        (mut config, layer): (Config, LayerConfig),
        lock: File,
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        let found = gather((&config.devices, &config.pending), redundancy(&layer), options)
            .map_err(|error| moved::explain(path, &config, error))?;
        // `take_cut` changes the list, but the result of the change is reported by these names.
        let pending = config.pending.clone();
        if !pending.is_empty() {
            config.take_cut(&found);
        }
        verify(path, &config, &found)?;
        if layer.kind.registration().promises.knows_lost && !found.missing().is_empty() {
            return Err(tier::refusal(&found));
        }
        Ok(Gathered { path: path.into(), config, layer, found, lock, pending })
    }

    fn names(&self) -> Names {
        Names::opened(&self.config.devices, &self.found)
    }

    /// Returns the pending devices that became members before a change was interrupted.
    pub(crate) fn come(&self) -> Vec<DeviceId> {
        let names = self.names();
        self.found.cut.come.iter().map(|(_, index)| names.id(*index)).collect()
    }

    /// Returns the number of the named member.
    pub(crate) fn resolve(&self, wanted: &str) -> Result<u8, Error> {
        let found = self.names().resolve(wanted, DeviceSet::ALL - self.found.missing());
        found.map_err(|error| error.at(&self.path))
    }

    /// Returns the name of member `index`, and the names of the other new members whose data is
    /// incomplete.
    pub(crate) fn incomplete(&self, index: u8) -> (String, Vec<String>) {
        let others = DeviceSet::from_bits(self.found.superblock.fresh).without(index);
        let names = self.names();
        (names.id(index).path, others.iter().map(|at| names.id(at).path).collect())
    }

    /// Returns whether a member is missing.
    pub(crate) fn is_missing(&self, index: u8) -> bool {
        self.found.missing().contains(index)
    }

    /// Returns the exported capacity in sectors.
    pub(crate) fn exported(&self) -> u64 {
        self.found.superblock.exported
    }

    /// Opens the volume. Members of the set `replaced` may be missing without consent.
    pub(crate) fn open(
        mut self,
        replaced: DeviceSet,
        options: &OpenOptions,
    ) -> Result<Volume, Error> {
        if !self.found.unrecorded.is_within(replaced) && !options.degraded {
            // Consent is needed once. Afterwards the superblocks record the loss, and the member is
            // no longer unrecorded.
            let error = refusal(&self.path, &self.found, &self.config.devices, options.command);
            return Err(moved::explain(&self.path, &self.config, error));
        }
        let was_cut = !self.pending.is_empty();
        let cut = was_cut.then(|| std::mem::take(&mut self.found.cut));
        let parts = (self.config, self.layer);
        let volume = raise(&self.path, parts, self.found, options.access, self.lock)?;
        Ok(Volume { cut, ..volume })
    }
}

/// Returns the devices that may be absent when a volume is searched.
pub(crate) fn redundancy(layer: &LayerConfig) -> Redundancy {
    let knows_lost = layer.kind.registration().promises.knows_lost;
    // Such a layer cannot run without a device, but the search must succeed so that the error can
    // name the lost data.
    let devices = if knows_lost { 1 } else { layer.tolerates() };
    Redundancy { devices, journal: layer.log.journal }
}

/// Creates the volume over members that were found. `lock` is the lock on the volume file `path`.
pub(crate) fn raise(
    path: &Path,
    (mut config, layer): (Config, LayerConfig),
    found: Assembly,
    access: Access,
    lock: File,
) -> Result<Volume, Error> {
    let names = Names::opened(&config.devices, &found);
    let listed = std::mem::replace(&mut config.devices, names.list());
    let is_permuted = listed != config.devices;
    let mut layer = as_members(layer, found.missing(), &found.superblock);
    // Only the volume file has the devices that were taken offline by command; no spare may replace
    // them.
    layer.members.planned = config.planned(&found.superblock);
    let mut notes = degraded(&config, &layer, &found);
    notes.extend(found.members.iter().flatten().filter_map(|member| member.flaw.clone()));
    notes.extend((access == Access::ReadOnly).then(|| READ_ONLY.into()));
    let superblock = found.superblock;
    let (roster, devices) = split_members(found);
    config.set_deadlines(&devices, &mut layer);
    let plan = plan(&layer, &infos(&devices))?;
    // The layout is derived from the devices and parameters. A different capacity means a different
    // layout, in which the data would not be found.
    if superblock.exported != plan.limits.exported {
        let why =
            "this version uses another layout; use the version that created the volume".into();
        return Err(Error::Config { path: path.into(), why });
    }
    let (path, mode) = (path.into(), Mode::Open);
    Ok(Volume {
        path,
        config,
        names,
        is_permuted,
        cut: None,
        layer,
        plan,
        devices,
        roster,
        mode,
        access,
        notes,
        lock,
    })
}

/// Returns the notes on missing members: their names, the reasons, and the effects.
fn degraded(config: &Config, layer: &LayerConfig, found: &Assembly) -> Vec<String> {
    let journal = journal::set(layer, config.devices.len());
    let Superblock { removed, out, spare, .. } = found.superblock;
    let [removed, out, spare] = [removed, out, spare].map(DeviceSet::from_bits);
    let absent = found.missing() - removed;
    // Spares and devices whose data was rebuilt do not reduce the redundancy.
    let may_lose_more = (absent - journal - out - spare).len() < layer.tolerates();
    let note = |index| match (journal.contains(index), spare.contains(index)) {
        (true, _) => journal::AWAY.into(),
        (_, true) => spare_is_missing(index.into()),
        _ => format!(
            "{}of {}{}; {}",
            without(index.into()),
            config.devices.len(),
            time(found.superblock.lost[usize::from(index)])
                .map_or(String::new(), |since| format!(", which it lost at {since}")),
            at_rest((out | spare).contains(index), may_lose_more),
        ),
    };
    let mut notes: Vec<String> = absent.iter().map(note).collect();
    // The volume file may still list a removed device.
    let names = (0..).zip(&config.devices).filter(|(index, _)| removed.contains(*index));
    let both = |name: &String| [Some(name.clone()), zoned_path(name).and_then(Result::ok)];
    let gone: Vec<_> = names.flat_map(|(_, name)| both(name)).flatten().collect();
    let gone: Vec<_> = gone.into_iter().map(|name| format!("{name}:")).collect();
    let counts = |why: &&String| !gone.iter().any(|name| why.starts_with(name));
    notes.extend(found.excluded.iter().filter(counts).map(|why| format!("{EXCLUDED}{why}")));
    notes
}

/// Returns each member at its index; a device that always fails replaces an absent one.
pub(crate) fn split_members(found: Assembly) -> (Roster, Vec<Device>) {
    let lengths = found.superblock.lengths;
    let mut devices = Vec::new();
    let record = |member: &Member| Record { superblock: member.superblock, sound: member.sound };
    let records = found.members.iter().map(|member| member.as_ref().map(record)).collect();
    for (index, member) in found.members.into_iter().enumerate() {
        let absent = || Device::absent(&format!("missing device {index}"), lengths[index]);
        devices.push(member.map_or_else(absent, |member| member.device));
    }
    (Roster::new(records), devices)
}

/// Locks a volume file for this process.
pub(crate) fn lock(path: &Path) -> Result<File, Error> {
    use std::fs::TryLockError::{Error as Other, WouldBlock};
    let lock = File::open(path).map_err(file(path, "open the volume file"))?;
    let begun = Instant::now();
    loop {
        let holder = match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(Other(error)) => return Err(file(path, "lock the volume file")(error)),
            Err(WouldBlock) => find_holder(&lock),
        };
        // Without a known holder, the lock belongs to a process that is ending or starting: retry.
        if holder.as_ref().is_some_and(|it| !it.is_leaving) || begun.elapsed() > PATIENCE {
            let holder = holder.map_or_else(|| "another process".into(), |it| it.name);
            return Err(Error::Busy { path: path.into(), holder });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Opens the devices of a volume in memory, in their state after `create`.
pub(crate) fn open_memory(config: &Config) -> Result<Vec<Device>, Error> {
    config.devices.iter().map(|name| open_fresh(name)).collect()
}

/// Opens a device without superblocks, with its window at the future data.
pub(crate) fn open_fresh(name: &str) -> Result<Device, Error> {
    let mut opened = modelled::open(name)?;
    let (start, len) = data_window(opened.bytes() / SECTOR as u64);
    if len == 0 {
        let (name, bytes) = (name.into(), opened.bytes());
        return Err(IoError::Small { name, bytes, least: LEAST }.into());
    }
    opened.set_window(start, len);
    Ok(opened)
}

/// Minimum size of a device in bytes: 1 MiB of data between the reserved areas.
const LEAST: u64 = 3 << 20;

/// Checks that the volume file agrees with the superblocks.
pub(crate) fn verify(path: &Path, config: &Config, found: &Assembly) -> Result<(), Error> {
    let superblock = found.superblock;
    // Checked first: other differences are meaningless between two volumes.
    if *config.uuid.as_bytes() != superblock.volume {
        let (theirs, ours) = (Uuid::from_bytes(superblock.volume), config.uuid);
        let why = format!("holds volume {theirs}, but {} names volume {ours}", path.display());
        let member = found.members.iter().flatten().next();
        return Err(device(member.map_or("", |member| member.device.name()), why));
    }
    let same = config.layer == superblock.layer.as_str()
        && config.devices.len() == usize::from(superblock.count);
    if same {
        return Ok(());
    }
    let why = "does not match its devices; rewrite it with `hostftl import`".into();
    Err(Error::Config { path: path.into(), why })
}
