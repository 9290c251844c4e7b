//! Creation of a volume.
//!
//! The order of the steps keeps a failure harmless: check everything and acquire everything that
//! needs no write; clear old superblocks; let the layer format the data; write the superblocks;
//! rename the volume file into place. A failure before the last step is undone: files that were
//! created are removed unless another process uses them, and blank devices become blank again.
//! Formatting cannot be undone on a device that held data, so that device is cleared and the error
//! reports it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hostftl_core::{Ack, SECTOR};
use hostftl_format::letters::is_unseen;
use hostftl_format::roster::Stamp;
use hostftl_format::superblock::{MAX_DEVICES, Superblock, Text, data_window};
use hostftl_io::{Device, Driver, IoError, cancel, zoned_path};
use hostftl_layers::{
    AnyLayer, LayerConfig, LayerKind, Mode, Plan, SpareRule, Usage, is_changed, notes,
    short_segments,
};
use uuid::Uuid;

use crate::metadata::claims;
use crate::metadata::config::{Config, Draft};
use crate::metadata::journal;
use crate::metadata::modelled;
use crate::metadata::roster::{clear_ends, stamp, write_ends};
use crate::metadata::storage;
use crate::open::event_host::EventHost;
use crate::open::machine::{assemble_machine, infos, plan};
use crate::open::take::created_files::CreatedFiles;
use crate::open::take::peer_geometry::PeerGeometry;
use crate::open::take::{content, make_file};
use crate::open::volume::open_fresh;
use crate::running::status::memory::Memory;
use crate::util::allocate::allocate;
use crate::util::error::{Error, device};

/// Parameters of a new volume.
#[derive(Clone, Debug)]
pub struct CreateSpec {
    /// Path of the volume file, which must not exist.
    pub path: PathBuf,
    /// Files, block devices, NBD exports, or `mem:SIZE`, in the order of the stack.
    pub devices: Vec<String>,
    /// Size in bytes of files that do not exist yet.
    pub size: Option<u64>,
    /// Allocates new files completely; otherwise they are sparse.
    pub allocate: bool,
    /// Layer and its parameters.
    pub layer: LayerConfig,
    /// Label chosen by the owner.
    pub label: String,
    /// Overwrites existing data on the devices. Devices in use are always refused.
    pub force: bool,
}

impl CreateSpec {
    /// Limits the export of the layer `log` so that redundancy returns after the loss of any one
    /// device without a new one (virtual hot capacity). Returns the export in bytes.
    ///
    /// # Errors
    /// When the layer has no redundancy, its spare is not fixed, or [`create()`] would refuse.
    pub fn reserve_device(&mut self) -> Result<u64, Error> {
        let refuse = |why: &str| Err(Error::Asked(format!("virtual hot capacity: {why}")));
        if self.layer.kind != LayerKind::Log || self.layer.log.parity == 0 {
            return refuse("only log with parity or a mirror has it");
        }
        if self.layer.log.spare == SpareRule::Auto {
            return refuse("spare=auto would take the space that a loss needs; state the spare");
        }
        self.layer.log.spare = SpareRule::Stated;
        let devices = infos(&rehearse(self)?);
        let mut layer = self.layer.clone();
        layer.choose(&devices, None);
        let sectors = layer.export_without_one(&devices);
        let bytes = match sectors {
            Ok(sectors) => sectors * SECTOR as u64,
            Err(why) => return refuse(&why.to_string()),
        };
        self.layer.log.logical_size = Some(bytes);
        Ok(bytes)
    }
}

/// Result of a creation. Lengths are in bytes.
#[derive(Clone, Debug)]
pub struct Created {
    /// Content of the volume file.
    pub config: Config,
    /// Exported capacity.
    pub exported_bytes: u64,
    /// Total capacity of the devices.
    pub device_bytes: u64,
    /// Part of `device_bytes` that stays unused because too few devices have this length.
    pub unused_bytes: u64,
    /// Host memory while the volume is served.
    pub memory: Memory,
    /// When writes are acknowledged.
    pub ack: Ack,
    /// Notes for the operator.
    pub notes: Vec<String>,
}

/// Everything that is acquired without writing to a device.
struct Prepared {
    config: Config,
    layer: LayerConfig,
    draft: Draft,
    undo: CreatedFiles,
    /// Devices, opened exclusively by this process.
    devices: Vec<Device>,
    plan: Plan,
    /// Existing content of each device; empty if all devices are in memory.
    held: Vec<Option<String>>,
    /// Notes for the operator.
    notes: Vec<String>,
}

/// Creates a volume.
///
/// # Errors
/// When a device or the volume file can't be used; everything is then unchanged. Only
/// [`Error::Formatting`] reports devices that lost their content.
pub fn create(spec: &CreateSpec) -> Result<Created, Error> {
    create_with(spec, &mut |_, _| ())
}

/// Creates a volume like [`create()`]. If the layer needs devices that read zeros, `progress` gets
/// the number of zeroed bytes of each device and their total.
///
/// # Errors
/// When a device or the volume file can't be used.
pub fn create_with(
    spec: &CreateSpec,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Created, Error> {
    let Prepared { config, layer, draft, mut undo, devices, plan, held, notes } = prepare(spec)?;
    let mut created = Created {
        exported_bytes: plan.limits.exported * SECTOR as u64,
        device_bytes: journal::others(&layer, &devices).map(Device::bytes).sum(),
        unused_bytes: unused(&layer, &devices),
        memory: Memory::from_plan(&plan),
        ack: plan.limits.ack,
        notes,
        config,
    };
    if created.config.devices.iter().any(|name| modelled::backing(name).is_some()) {
        let note = "drive model, for evaluation only; its delays are not simulated";
        created.notes.push(note.into());
    }
    if created.config.is_memory() {
        created.notes.push("in memory: empty at each start".into());
        draft.publish()?;
        return Ok(created);
    }
    // Before the devices are touched, because allocation fails if the file system is full.
    if spec.allocate {
        created.notes.extend(allocate_files(&created.config, &undo)?);
    }
    let superblocks = superblocks(spec, &created, &devices);
    // From here on devices are written to.
    cancel::check(&spec.path.display().to_string())?;
    let machine = assemble_machine(&layer, &plan, devices, Mode::Format, None)?;
    // From now on a created file may have superblocks of this volume, which identify it for the
    // undo.
    undo.formats(created.config.uuid);
    format(spec, machine.driver, draft, &superblocks, &held, progress)?;
    undo.keep();
    Ok(created)
}

/// Performs all checks of [`create()`] before its first write, and removes the files that it
/// created. Returns the devices, which stay open exclusively until they are dropped.
///
/// # Errors
/// When [`create()`] would refuse.
pub fn rehearse(spec: &CreateSpec) -> Result<Vec<Device>, Error> {
    Ok(prepare(spec)?.devices)
}

fn prepare(spec: &CreateSpec) -> Result<Prepared, Error> {
    let names = names(spec)?;
    let mut config = config(spec, names)?;
    let mut layer = config.layer_config().map_err(|why| asked(&spec.path, why))?;
    let mut undo = CreatedFiles::default();
    if !config.is_memory() {
        make_files(spec, &config, &mut undo)?;
    }
    let devices = config.devices.iter().map(|name| open_fresh(name));
    let devices = devices.collect::<Result<Vec<_>, _>>()?;
    // Report an unusable device before an existing volume file: otherwise a user might remove that
    // file, only to find that a device name is misspelt.
    Config::refuse_existing(&spec.path)?;
    // A part of a device may belong to a volume that is not served, so its lock does not protect
    // it.
    devices.iter().try_for_each(claims::refuse_taken)?;
    let usage = Usage { devices: &infos(&devices), study: None };
    let is_stated = |key: &str| is_changed(&layer, key);
    let mut unused = notes(&layer, &usage, is_stated).map_err(|why| asked(&spec.path, why))?;
    if !is_stated("reclaim-unit") {
        unused.extend(short_segments(&layer, &usage));
    }
    let wanted = layer.log.logical_size.map(|bytes| bytes / SECTOR as u64);
    let spare = layer.choose(&infos(&devices), wanted);
    // The choices must be recorded: another start could choose a different layout.
    config.layer = layer.to_text();
    // Write the draft now: a read-only folder must be detected before formatting.
    let draft = config.draft(&spec.path)?;
    let plan = plan(&layer, &infos(&devices))?;
    let held = if config.is_memory() {
        Vec::new()
    } else {
        devices.iter().map(|one| content(one, spec.force)).collect::<Result<_, _>>()?
    };
    let notes = spare.iter().map(ToString::to_string).chain(unused).collect();
    Ok(Prepared { config, layer, draft, undo, devices, plan, held, notes })
}

/// Returns the full names of the devices, without duplicates.
fn names(spec: &CreateSpec) -> Result<Vec<String>, Error> {
    if spec.devices.is_empty() || spec.devices.len() > usize::from(MAX_DEVICES) {
        let why = format!("a volume has 1 to {MAX_DEVICES} devices, not {}", spec.devices.len());
        return Err(Error::Asked(why));
    }
    let in_memory = spec.devices.iter().filter(|name| Device::is_memory(name)).count();
    if in_memory > 0 && in_memory < spec.devices.len() {
        let why = "cannot mix mem: and other devices; use mem: for all or none";
        return Err(Error::Asked(why.into()));
    }
    let mut names: Vec<String> = Vec::new();
    for name in &spec.devices {
        let full = modelled::full_name(name)?;
        if !Device::is_memory(name) && names.contains(&full) {
            return Err(Error::Asked(format!("{name} is given twice")));
        }
        // A partition and its disk, for example, would overwrite each other.
        if let Some(other) = names.iter().find(|other| storage::is_shared(other, &full)) {
            return Err(device(name, format!("shares storage with {other}")));
        }
        names.push(full);
    }
    Ok(names)
}

fn config(spec: &CreateSpec, devices: Vec<String>) -> Result<Config, Error> {
    let (label, layer) = (spec.label.clone(), spec.layer.to_text());
    if Text::<64>::new(&label).is_none() {
        return Err(asked(&spec.path, "the label is longer than 64 bytes".into()));
    }
    if label.chars().any(is_unseen) {
        return Err(asked(
            &spec.path,
            "the label has invisible or direction-changing characters".into(),
        ));
    }
    Ok(Config {
        uuid: Uuid::new_v4(),
        label,
        layer,
        devices,
        pending: Vec::new(),
        offline: BTreeSet::new(),
        deadlines: BTreeMap::new(),
        settings: BTreeMap::new(),
    })
}

fn asked(path: &Path, why: String) -> Error {
    Error::Asked(format!("{}: {why}", path.display()))
}

/// Creates missing files and checks the use of existing ones.
fn make_files(spec: &CreateSpec, config: &Config, undo: &mut CreatedFiles) -> Result<(), Error> {
    for name in &config.devices {
        if let (Some(made), Some(path)) = (modelled::make(name)?, modelled::backing(name)) {
            undo.add(name, Path::new(path), &made);
        }
    }
    for (index, (asked, name)) in spec.devices.iter().zip(&config.devices).enumerate() {
        let is_journal = journal::set(&spec.layer, config.devices.len()).contains(index as u8);
        // A journal needs only a small file, regardless of the requested size.
        let size = if is_journal { spec.size.map(|_| journal::FILE_BYTES) } else { spec.size };
        make_file((asked, name), &PeerGeometry { size, zones: None }, !is_journal, undo)?;
    }
    Ok(())
}

/// Allocates the new files, except those of drive models. Returns notes for the operator.
fn allocate_files(config: &Config, undo: &CreatedFiles) -> Result<Vec<String>, Error> {
    let mut notes = Vec::new();
    for name in &config.devices {
        let path = zoned_path(name).transpose()?.unwrap_or_else(|| name.clone());
        if let Some(path) = undo.paths().find(|made| *made == Path::new(&path)) {
            let instead = "use a smaller --size, another file system, or --sparse";
            notes.extend(allocate(path, instead)?);
        }
    }
    Ok(notes)
}

/// Performs all writes: the devices, then the volume file. `held` is the old content of each
/// device.
fn format(
    spec: &CreateSpec,
    mut driver: Driver<AnyLayer>,
    draft: Draft,
    superblocks: &[Superblock],
    held: &[Option<String>],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    let (mut touched, mut is_formatted) = (0, false);
    let finish = || -> Result<(), Error> {
        // Clear old superblocks first, so that a power cut leaves no old volume over new data.
        for (one, held) in driver.devices().iter().zip(held) {
            // Counted before the write, because a failed write may have destroyed the content too.
            touched += 1;
            if held.is_some() {
                clear_ends(one)?;
            }
        }
        // The check for blank devices reads samples only, so it does not prove that they read
        // zeros.
        if spec.layer.kind.registration().promises.reads_unwritten {
            driver.devices().iter().try_for_each(|one| zero(one, progress))?;
        }
        is_formatted = true;
        let mut host = EventHost::new(driver.devices());
        // A format is a start in which the layer finds no volume; the stop makes it durable.
        let formatted = driver.start(&mut host).and_then(|()| driver.stop(&mut host));
        if let Some(trouble) = host.events.notes().into_iter().next() {
            return Err(device(&spec.path.display().to_string(), trouble));
        }
        formatted?;
        // Superblocks follow the layer's data: a device with a superblock has been formatted
        // completely.
        driver.devices().iter().zip(superblocks).try_for_each(|(one, of)| claims::make(one, of))?;
        write_superblocks(driver.devices(), superblocks)?;
        // Last: without the volume file an interrupted `create` leaves no volume that a user could
        // open.
        draft.publish()
    };
    let finished = finish();
    finished.map_err(|error| take_back(error, (&driver.devices()[..touched], is_formatted), held))
}

/// Zeroes the window of a device, unless the process is to end before that.
pub(crate) fn zero(one: &Device, progress: &mut dyn FnMut(u64, u64)) -> Result<(), IoError> {
    one.clear_parts(&mut |done, all| {
        progress(done, all);
        cancel::check(one.name())
    })
}

/// Clears the devices after `error`, and adds the lost content to the error. Only formatting leaves
/// data of the volume in the window of a device.
fn take_back(
    error: Error,
    (devices, is_formatted): (&[Device], bool),
    held: &[Option<String>],
) -> Error {
    let mut lost = Vec::new();
    for (one, held) in devices.iter().zip(held) {
        let window = || if is_formatted { one.clear_window() } else { Ok(()) };
        // Clear blank devices too: their superblocks may have been written.
        let cleared = clear_ends(one).and_then(|()| window());
        let cleared = cleared.and_then(|()| claims::clear(one));
        let end = match cleared {
            Ok(()) => "was cleared",
            Err(_) => "could not be cleared",
        };
        match held {
            Some(held) => {
                lost.push(format!("{} lost its previous content ({held}) and {end}", one.name()))
            }
            None if cleared.is_err() => lost.push(format!("{} was blank and {end}", one.name())),
            None => {}
        }
    }
    if lost.is_empty() {
        error
    } else {
        Error::Formatting { source: Box::new(error), lost: lost.join(", ") }
    }
}

/// Returns the bytes of the longest devices that are unused because too few others are as long.
fn unused(layer: &LayerConfig, devices: &[Device]) -> u64 {
    let rows = journal::others(layer, devices);
    let mut lengths = rows.map(|one| one.info().sectors).collect::<Vec<_>>();
    lengths.sort_unstable_by_key(|length| Reverse(*length));
    let tolerated = layer.tolerates() as usize;
    let (true, Some(most)) = (layer.kind.registration().promises.changes(), lengths.get(tolerated))
    else {
        return 0;
    };
    // A stripe needs more devices than it tolerates losses, so length that only so few devices have
    // is unused.
    lengths[..tolerated].iter().map(|length| length - most).sum::<u64>() * SECTOR as u64
}

fn superblocks(spec: &CreateSpec, created: &Created, devices: &[Device]) -> Vec<Superblock> {
    let window = |one: &Device| data_window(one.bytes() / SECTOR as u64).1;
    let mut lengths = [0; MAX_DEVICES as usize];
    lengths.iter_mut().zip(devices).for_each(|(length, device)| *length = window(device));
    let mut members = [[0; 16]; MAX_DEVICES as usize];
    members.iter_mut().take(devices.len()).for_each(|uuid| *uuid = *Uuid::new_v4().as_bytes());
    let Stamp { change, at } = stamp();
    let of = |(index, one): (usize, &Device)| {
        let device_sectors = one.bytes() / SECTOR as u64;
        let (data_start, data_len) = data_window(device_sectors);
        Superblock {
            generation: 1,
            volume: *created.config.uuid.as_bytes(),
            device: members[index],
            index: index as u8,
            count: devices.len() as u8,
            layer_format: spec.layer.kind.format(),
            layer: Text::new(&created.config.layer).expect("the text of a layer is short"),
            data_start,
            data_len,
            device_sectors,
            exported: created.exported_bytes / SECTOR as u64,
            created: at,
            label: Text::new(&spec.label).expect("checked before"),
            change,
            changed: at,
            members,
            lengths,
            ..Superblock::default()
        }
    };
    devices.iter().enumerate().map(of).collect()
}

fn write_superblocks(devices: &[Device], superblocks: &[Superblock]) -> Result<(), Error> {
    for (one, superblock) in devices.iter().zip(superblocks) {
        write_ends(one, superblock.device_sectors, |at| superblock.emit(at))?;
    }
    Ok(())
}
