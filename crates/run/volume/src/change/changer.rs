//! Access of membership changes to the members of a volume that is open in this process.
//!
//! Invariants
//! - One change runs at a time.
//! - A device is exchanged only when its predecessor has no command in flight.

use std::path::{Path, PathBuf};
use std::slice;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use hostftl_core::{AdminCommand, AdminOutcome, DeviceInfo, DeviceSet, Layer, Refusal};
use hostftl_format::superblock::{Superblock, places};
use hostftl_io::{Backing, Device, Driver};
use hostftl_layers::{AnyLayer, LayerConfig};
use uuid::Uuid;

use crate::metadata::config::Config;
use crate::metadata::journal;
use crate::open::machine::as_members;
use crate::open::names::DeviceId;
use crate::open::session::{self, Session};
use crate::open::take::peer_geometry::PeerGeometry;
use crate::running::front::Port;
use crate::running::jobs::Jobs;
use crate::running::status_sources::StatusSources;
use crate::running::superblock_writer::{DeviceContent, NewDevice};
use crate::util::error::{AdminError, AdminErrorKind};
use crate::util::lock;

/// Timeout for commands of the old device, and for recording its exclusion on the other devices.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Interval at which this is checked.
pub(super) const PAUSE: Duration = Duration::from_millis(10);
/// Reason for a refusal where superblocks never change.
const NO_SUPERBLOCKS: &str =
    "its devices have no superblocks, because the volume is in memory or read-only";
/// Reason for a refusal when the driver has stopped.
pub(super) const CLOSED: &str = "the volume is being closed";

#[derive(Debug)]
pub(crate) struct Changer {
    /// The volume file.
    path: PathBuf,
    pub(super) port: Port,
    pub(super) sources: StatusSources,
    /// Contents of the volume file.
    config: Mutex<Config>,
    /// The layer as it was last opened.
    layer: Mutex<LayerConfig>,
    /// The session, if the volume is served.
    pub(super) session: Option<Session>,
    /// The newest superblock at the open, in a rehearsal.
    rehearsal: Option<Superblock>,
    /// Locked during a change, except while a device is copied.
    changes: Mutex<()>,
    /// Name of the current step.
    pub(super) step: Mutex<&'static str>,
}

/// State of a member and of the other devices before a change.
pub(super) struct Finding {
    pub index: u8,
    pub was_lost: bool,
    /// The newest superblock.
    pub newest: Superblock,
    pub infos: Vec<DeviceInfo>,
    /// Geometry that a new device must have.
    pub peers: PeerGeometry,
    /// Devices with missing chunks.
    pub lacking: DeviceSet,
}

impl Finding {
    /// Returns the sectors of data on the device.
    pub(super) fn length(&self) -> u64 {
        self.newest.lengths[usize::from(self.index)]
    }

    /// Returns the UUID of the device.
    pub(super) fn uuid(&self) -> [u8; 16] {
        self.newest.members[usize::from(self.index)]
    }
}

impl Changer {
    /// Creates the changer of the volume with file `path`, whose driver takes jobs at `port`.
    pub(crate) fn new(
        path: &Path,
        port: Port,
        sources: &StatusSources,
        (config, layer): (&Config, LayerConfig),
        (session, rehearsal): (Option<Session>, Option<Superblock>),
    ) -> Self {
        let (config, changes) = (Mutex::new(config.clone()), Mutex::new(()));
        let layer = Mutex::new(layer);
        let (path, sources) = (path.into(), sources.clone());
        let step = Mutex::new("");
        Changer { path, port, sources, config, layer, session, rehearsal, changes, step }
    }

    /// The volume file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Contents of the volume file.
    pub(crate) fn config(&self) -> Config {
        lock(&self.config).clone()
    }

    /// Returns the member number of a device given by path, number or UUID.
    pub(crate) fn find(&self, wanted: &str) -> Result<u8, AdminError> {
        let open = |driver: &mut Driver<AnyLayer>, _: &mut Jobs| {
            let devices = (0..).zip(driver.devices());
            let open = devices.filter(|(_, device)| device.backing() != Backing::Absent);
            open.map(|(index, _)| index).collect()
        };
        let open = self.port.between(open).ok_or(CLOSED)?;
        let names = lock(&self.sources.device_views).names.clone();
        names.resolve(wanted, open)
    }

    /// Returns the ID of a device for replies.
    pub(crate) fn id(&self, index: u8) -> DeviceId {
        lock(&self.sources.device_views).names.id(index)
    }

    /// Returns a warning if a device that is to be excluded is healthy. The warning names the
    /// unhealthy ones.
    pub(crate) fn notes_on(&self, index: u8) -> Vec<String> {
        self.sources.status().note_if_healthy(index).into_iter().collect()
    }

    /// Returns the newest superblock.
    pub(super) fn recorded(&self) -> Result<Superblock, AdminError> {
        match self.rehearsal {
            Some(recorded) => Ok(recorded),
            None => self
                .port
                .between(|_, jobs| jobs.recorded())
                .ok_or(CLOSED)?
                .ok_or(NO_SUPERBLOCKS.into()),
        }
    }

    /// The layer as it was last opened.
    pub(super) fn layer(&self) -> LayerConfig {
        lock(&self.layer).clone()
    }

    /// Sends an administrative command to the layer.
    pub(crate) fn ask(&self, command: AdminCommand) -> Result<AdminOutcome, AdminError> {
        match self.port.operate(command) {
            Ok(answer) => {
                // Records tasks that the command started or ended, so that they continue after a
                // crash.
                self.sources.samples.sample();
                Ok(answer)
            }
            Err(Refusal::Unable) => Err(AdminError::refused(format!(
                "layer {} does not support this",
                self.layer().kind
            ))),
            Err(Refusal::Because(why)) => Err(why.into()),
            Err(Refusal::Full(bytes)) => Err(AdminError::refused(format!(
                "{bytes} bytes of valid data do not fit on the other devices; trim them, or add a \
                 device first"
            ))),
            Err(Refusal::Damaged(damaged)) => Err(self.needed_for(damaged)),
        }
    }

    /// Returns the error for a device that is needed to repair the `damaged` devices.
    fn needed_for(&self, damaged: DeviceSet) -> AdminError {
        let named =
            damaged.iter().map(|device| format!("device {device} ({})", self.id(device).path));
        let named = match named.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "a stripe".into(),
            named => named,
        };
        AdminError::refused(format!(
            "{named} has damaged data, and this device is needed to rebuild it; wait for the \
             repairs (`hostftl wait {}`), or replace the damaged device first",
            self.path.display()
        ))
    }

    /// Returns whether this is a rehearsal, which writes nothing.
    pub(super) fn is_rehearsal(&self) -> bool {
        self.rehearsal.is_some()
    }

    /// Records that the layer was reopened with these devices.
    pub(super) fn reopened(&self, layer: LayerConfig, config: Config) {
        *lock(&self.layer) = layer;
        *lock(&self.config) = config;
    }

    /// Changes the name of member `index`.
    pub(super) fn rename(&self, index: u8, name: &str) {
        lock(&self.sources.event_host).rename(index, name.to_owned());
        let mut config = lock(&self.config);
        config.devices[usize::from(index)] = name.into();
        let Config { devices, deadlines, .. } = &mut *config;
        // A deadline for an unlisted device would make the volume file invalid.
        deadlines.retain(|name, _| devices.contains(name));
    }

    /// Records whether a device was taken offline by the administrator.
    pub(super) fn keep_offline(&self, device: Uuid, is_out: bool) {
        let offline = &mut lock(&self.config).offline;
        if is_out {
            offline.insert(device)
        } else {
            offline.remove(&device)
        };
    }

    /// Refuses another change of the devices while one is copied.
    pub(crate) fn refuse_while_copying(&self) -> Result<(), AdminError> {
        match &*lock(&self.sources.copy) {
            None => Ok(()),
            Some(copy) => Err(AdminError::refused(format!(
                "device {} is being copied to {}; wait for the copy (`hostftl wait`), or cancel it \
                 (`hostftl device online {} {}`)",
                copy.index,
                copy.new,
                self.path.display(),
                copy.index
            ))),
        }
    }

    /// Begins a change, or refuses it if another one is running.
    pub(super) fn begin(&self) -> Result<MutexGuard<'_, ()>, AdminError> {
        self.refuse_while_copying()?;
        match self.changes.try_lock() {
            Ok(changes) => Ok(changes),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let step = *lock(&self.step);
                let text =
                    format!("another change of devices is in progress ({step}); try again later");
                Err(AdminError::refused(text))
            }
        }
    }

    /// Ends the installation of a device if it failed, so that the layer's view of this member
    /// counts again.
    pub(super) fn end(&self, index: u8, done: Result<(), AdminError>) -> Result<(), AdminError> {
        // Without this the loss of the old device would remain unrecorded.
        if done.is_err() {
            self.port.between(|_, jobs| jobs.end_install(index, false));
        }
        done
    }

    /// Returns the layer with the current members.
    pub(super) fn layer_now(&self, finding: &Finding) -> LayerConfig {
        let missing = DeviceSet::from_bits(finding.newest.missing);
        let mut layer = as_members(self.layer(), missing, &finding.newest);
        layer.members.fresh = DeviceSet::EMPTY;
        layer
    }

    /// Checks whether member `index` may be replaced, and returns its state.
    pub(super) fn examine(&self, index: u8) -> Result<Finding, AdminError> {
        if self.layer().tolerates() == 0 {
            let text = format!("layer {} has no redundancy to rebuild a device", self.layer().kind);
            return Err(text.into());
        }
        let finding = self.find_member(index)?;
        match self.ask(AdminCommand::MayReplace(index)) {
            Ok(_) => Ok(finding),
            Err(why) => {
                let Superblock { fresh, missing, .. } = finding.newest;
                let lacking = DeviceSet::from_bits(fresh) | finding.lacking;
                let lacking = (lacking - DeviceSet::from_bits(missing)).without(index);
                Err(if lacking.is_empty() { why } else { self.needed_by(index, lacking) })
            }
        }
    }

    /// Returns the error for member `index`, from which the `lacking` devices are rebuilt.
    pub(super) fn needed_by(&self, index: u8, lacking: DeviceSet) -> AdminError {
        let others = lacking.iter().map(|at| self.id(at).path);
        AdminError::refused(is_needed(&self.id(index).path, &others.collect::<Vec<_>>()))
    }

    /// Returns whether member `index` is the journal device.
    pub(super) fn is_journal(&self, index: u8) -> bool {
        journal::set(&self.layer(), self.config().devices.len()).contains(index)
    }

    /// Returns the state of member `index` and of the other devices.
    pub(super) fn find_member(&self, index: u8) -> Result<Finding, AdminError> {
        let newest = self.recorded()?;
        let finding = self.port.between(|driver, _| {
            let (devices, lost) = (driver.devices(), driver.layer().members().lost());
            let was_lost = lost.contains(index);
            // A new device must match its predecessor, or the others if the predecessor is lost.
            let is_like = |at: usize| (at == usize::from(index)) != was_lost;
            let there = devices
                .iter()
                .enumerate()
                .filter(|(at, device)| is_like(*at) && device.backing() != Backing::Absent);
            let peers = PeerGeometry::from_devices(there.map(|(_, device)| device));
            let infos = devices.iter().map(Device::info).collect();
            let lacking = driver.layer().gauges().map_or(DeviceSet::EMPTY, |gauges| gauges.lacking);
            Finding { index, was_lost, newest, infos, peers, lacking }
        });
        finding.ok_or_else(|| CLOSED.into())
    }

    /// Excludes the old device. Waits until the others record this and it has no command in flight.
    pub(super) fn detach(&self, finding: &Finding) -> Result<(), AdminError> {
        if !finding.was_lost {
            self.offline(finding.index)?;
        }
        let begun = Instant::now();
        loop {
            // The layer allows a replacement only after a durable root excludes the old device.
            let is_known =
                self.ask(AdminCommand::MayReplace(finding.index))? == AdminOutcome::Started;
            let (busy, is_recorded) = self
                .port
                .between(|driver, jobs| {
                    let missing = |it: Superblock| DeviceSet::from_bits(it.missing);
                    let says = |recorded| missing(recorded).contains(finding.index);
                    (driver.is_busy(finding.index), jobs.recorded().is_none_or(says))
                })
                .ok_or(CLOSED)?;
            if is_known && is_recorded && !busy {
                return Ok(());
            }
            // A hanging device may keep its commands forever, and their buffers must not be reused.
            if begun.elapsed() > PATIENCE {
                let why = if busy {
                    "its commands did not complete"
                } else {
                    "its exclusion is not recorded on all other devices yet"
                };
                return Err(AdminError::refused(format!(
                    "cannot replace device {} now: {why}",
                    finding.index
                )));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Shows the new device as member `index` in the status.
    pub(super) fn show_device(&self, index: u8, device: &Device) {
        device.set_deadline(Duration::from_nanos(self.layer().deadline));
        let uuid = self.recorded().map_or([0; 16], |recorded| recorded.members[usize::from(index)]);
        lock(&self.sources.device_views).replace(index, device, uuid, &self.sources.samples.events);
    }

    /// Gives the device to the layer.
    pub(super) fn exchange(
        &self,
        index: u8,
        device: Device,
        command: AdminCommand,
    ) -> Result<(), AdminError> {
        self.show_device(index, &device);
        let old = self.port.between(|driver, jobs| {
            let old = put(driver, index, device)?;
            // In the same pause of the driver: the layer must not use the device before it knows
            // its state.
            let answer = driver.operate(command, jobs);
            answer.map_err(|why| format!("the layer refuses the device: {why:?}"))?;
            jobs.end_install(index, true);
            Ok::<_, AdminError>(old)
        });
        // The old device is closed here because closing may block, and the layer must not wait for
        // it.
        old.ok_or(CLOSED)?.map(drop)
    }

    /// Requests the superblocks that make the device, with this content, member `index`. Returns
    /// the receiver of the result.
    pub(super) fn order_install(
        &self,
        index: u8,
        device: &Device,
        content: DeviceContent,
    ) -> Result<Receiver<Result<(), AdminError>>, AdminError> {
        // The new device gets the session mark too: otherwise the mark would be lost once all
        // devices are replaced.
        match &self.session {
            Some(session) => session.serving(slice::from_ref(device), DeviceSet::EMPTY)?,
            None => {
                let volume = self.config().uuid;
                let carry = |driver: &mut Driver<AnyLayer>, _: &mut Jobs| {
                    session::carry_over(volume, driver.devices(), device)
                };
                self.port.between(carry).ok_or(CLOSED)??;
            }
        }
        let places = places(content.sectors());
        // A second handle: the writer's thread may block on a slow device while the driver
        // continues.
        let reserve = device.reserve(places)?;
        let new_device = NewDevice { index, content, reserve };
        let receiver = self.port.between(|_, jobs| jobs.begin_install(new_device)).ok_or(CLOSED)?;
        receiver.ok_or_else(|| "the devices of this volume cannot change".into())
    }

    /// Writes superblocks on all devices that make the device, with this content, member `index`.
    pub(super) fn write_superblocks(
        &self,
        index: u8,
        device: &Device,
        content: DeviceContent,
    ) -> Result<(), AdminError> {
        let receiver = self.order_install(index, device, content)?;
        let late = || AdminError::new(AdminErrorKind::Failed, "cannot write the superblocks");
        receiver.recv_timeout(PATIENCE).map_err(|_| late())?
    }
}

/// Returns the refusal for device `name`, from which `others` are rebuilt.
pub(crate) fn is_needed(name: &str, others: &[String]) -> String {
    format!(
        "{name} is needed: {} joined later, and their missing data is rebuilt from the others; run \
         `hostftl serve` and `hostftl wait`, then replace {name}. If {name} is broken, `hostftl \
         serve --degraded` abandons the data that is lost with it, and then it can be replaced",
        others.join(", ")
    )
}

/// Replaces a lost device in the driver. Refuses if its data was meanwhile rebuilt onto a spare and
/// it is no longer a member.
pub(super) fn put(
    driver: &mut Driver<AnyLayer>,
    index: u8,
    device: Device,
) -> Result<Device, AdminError> {
    if !driver.layer().members().lost().contains(index) {
        return Err(AdminError::refused(format!(
            "device {index} was removed meanwhile; add another device instead"
        )));
    }
    driver.replace(index, device).map_err(AdminError::from)
}
