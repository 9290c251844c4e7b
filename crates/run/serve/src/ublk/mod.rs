//! A volume as a ublk block device. The device is created or taken over from a server that died,
//! served by one thread per queue, and at the end deleted or left for the next server.
//!
//! Invariants
//! - A device with recovery belongs to a volume whose acknowledged writes outlive the process, so
//!   its users do not notice the death of a server.
//! - A device is served only by the threads of one [`Disk`], which end before it is deleted.

mod completions;
mod find;
mod lane;
mod length;
mod link;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hostftl_core::SECTOR;
use hostftl_io::Waker;
use hostftl_io::ublk::{Attributes, Control, DeviceInfo, Features, Kernel, Known, Spec, UblkError};
use hostftl_volume::Level;
use hostftl_volume::front::Export;

use crate::server::Exported;

use self::lane::Lane;
use self::length::DeviceLength;
use self::link::DeviceLink;

use self::find::volume_mark;
pub use self::find::{BlockDevice, delete, list, refuse_beside_waiting};

/// Requests in flight per queue.
const DEPTH: u16 = 128;
/// Time limit for the device nodes to appear.
const NODES: Duration = Duration::from_secs(10);
/// Polling interval.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// Features of a device with recovery.
const RECOVERS: Features = Features::RECOVERY.and(Features::REISSUE);
const NEEDED: Features = Features::USER_COPY.and(Features::IOCTL_ENCODE);

/// Options of a block device.
#[derive(Clone, Copy, Debug)]
pub struct DiskOptions {
    /// Maximum number of queues.
    pub queues: u16,
    /// Whether the device of a persistent volume waits for the next server when this process dies.
    /// Only allowed if acknowledged writes survive the process.
    pub recovers: bool,
    /// Continue on a kernel with known defects.
    pub force: bool,
}

/// Expected properties of the volume's device.
#[derive(Clone, Copy, Debug)]
struct ExpectedDevice {
    /// Mark of the volume.
    mark: u64,
    recovers: bool,
    /// Whether writes that the last server acknowledged may be lost.
    forgot: bool,
    attributes: Attributes,
}

/// Block device in service.
#[derive(Debug)]
pub struct Disk {
    control: Control,
    info: DeviceInfo,
    recovers: bool,
    taken_over: bool,
    length: DeviceLength,
    lanes: Vec<JoinHandle<u64>>,
    wakers: Vec<Arc<Waker>>,
    quit: Arc<AtomicBool>,
    /// Whether a thread panicked.
    broken: Arc<AtomicBool>,
    link: Option<DeviceLink>,
}

/// State in which a device was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detached {
    /// The device is deleted.
    Deleted,
    /// The device is in use and waits for the next server of its volume.
    Waits,
}

impl Disk {
    /// Creates or takes over the block device of a volume. The device node exists on return.
    ///
    /// # Errors
    /// When the kernel lacks ublk or a needed feature, has known defects, or refuses; or when a
    /// device of the volume waits for a server and this one cannot take it over.
    pub fn attach(exported: &Exported, options: &DiskOptions) -> Result<Disk, UblkError> {
        judge(&Kernel::running(), options.force, exported)?;
        let control = Control::open()?;
        let features = control.features()?;
        if !features.has(NEEDED) {
            return Err(UblkError::Lacks("user copy"));
        }
        let export = exported.port.export();
        let recovers = options.recovers && export.lasts;
        if recovers && !features.has(RECOVERS) {
            return Err(UblkError::Lacks("recovery"));
        }
        let (mark, forgot) = (volume_mark(export.volume), export.forgot);
        let wanted = ExpectedDevice { mark, recovers, forgot, attributes: attributes(&export) };
        let (info, taken_over, sectors) = match find::waiting(&control, &wanted)? {
            Some((info, sectors)) => (info, true, sectors),
            None => (add(&control, options.queues, &wanted)?, false, wanted.attributes.sectors),
        };
        let length = DeviceLength::new(exported, features, sectors);
        let mut disk = Disk {
            control,
            info,
            recovers,
            taken_over,
            length,
            lanes: Vec::new(),
            wakers: Vec::new(),
            quit: Arc::default(),
            broken: Arc::default(),
            link: None,
        };
        match disk.begin(exported) {
            Ok(()) => Ok(disk),
            Err(error) => {
                disk.undo();
                Err(error)
            }
        }
    }

    /// Returns the path of the block device.
    pub fn path(&self) -> String {
        self.info.path()
    }

    /// Returns the persistent name, if it could be created.
    pub fn link(&self) -> Option<PathBuf> {
        self.link.as_ref().map(|link| link.path().into())
    }

    /// Returns whether the device existed and waited for a server.
    pub fn was_taken_over(&self) -> bool {
        self.taken_over
    }

    /// Updates the length of the device when that of the volume has changed.
    pub fn follow_length(&self) {
        self.length.follow(|sectors| self.control.set_length(self.info.id, sectors), &self.path());
    }

    /// Returns whether the device was deleted by another process.
    pub fn is_over(&self) -> bool {
        self.lanes.iter().any(JoinHandle::is_finished)
    }

    /// Returns whether one of its threads panicked. Its requests are no longer answered, and only
    /// the end of the process lets another server take them over.
    pub fn has_panicked(&self) -> bool {
        self.broken.load(SeqCst)
    }

    /// Ends the service after the requests in flight and deletes the device. A device with recovery
    /// that is mounted or otherwise claimed waits for the next server instead. Returns how the
    /// device was left, and the number of requests.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn detach(mut self) -> Result<(Detached, u64), UblkError> {
        if self.recovers && !self.is_over() && is_claimed(&self.path()) {
            let requests = self.quit();
            return Ok((Detached::Waits, requests));
        }
        // Stopping a device with recovery fails the writes in the kernel's cache, so they are
        // flushed first.
        File::open(self.path()).and_then(|device| device.sync_all()).ok();
        self.control.stop(self.info.id)?;
        let requests = self.join();
        self.control.delete(self.info.id)?;
        self.link.take().map_or(Ok(()), DeviceLink::remove).ok();
        Ok((Detached::Deleted, requests))
    }

    /// Starts the threads, then the device.
    fn begin(&mut self, exported: &Exported) -> Result<(), UblkError> {
        let id = self.info.id;
        if self.taken_over {
            find::begin_recovery(&self.control, id)?;
        }
        let path = format!("/dev/ublkc{id}");
        let node = open_soon(&path, OpenOptions::new().read(true).write(true));
        let node = Arc::new(node.map_err(system(&path, "open it"))?);
        for number in 0..self.info.queues {
            self.start_lane(&node, number, exported).map_err(system(&path, "serve it"))?;
        }
        if self.taken_over {
            self.control.end_recovery(id)?
        } else {
            self.control.start(id)?
        }
        let path = self.path();
        open_soon(&path, OpenOptions::new().read(true)).map_err(system(&path, "open it"))?;
        self.name(exported);
        Ok(())
    }

    /// Creates the persistent name. When another device has it, the beginning of the volume's UUID
    /// is appended.
    fn name(&mut self, exported: &Exported) {
        let (path, export) = (self.path(), exported.port.export());
        let (name, folder) = (&export.name, link::FOLDER);
        let [a, b, c, d, ..] = export.volume;
        let other = format!("{name}-{:08x}", u32::from_be_bytes([a, b, c, d]));
        let taken = || format!("{folder}/{name} is a link to another device in use");
        let text = match DeviceLink::make(name, &path) {
            Ok(Some(link)) => {
                self.link = Some(link);
                return;
            }
            Ok(None) => match DeviceLink::make(&other, &path) {
                Ok(Some(link)) => {
                    self.link = Some(link);
                    let then = "change the label of one of the volumes";
                    format!("{path} is {folder}/{other}: {}; {then}", taken())
                }
                Ok(None) => format!("{path} has no name in {folder}: {}", taken()),
                Err(error) => format!("{path} has no name in {folder}: {error}"),
            },
            Err(error) => format!("{path} has no name in {folder}: {error}"),
        };
        exported.events.report(Level::Warning, "note", text);
    }

    /// Starts the thread of queue `number`. On return its tags are registered with the kernel.
    fn start_lane(&mut self, node: &Arc<File>, number: u16, exported: &Exported) -> io::Result<()> {
        let waker = Arc::new(Waker::new()?);
        let (node, depth, their_waker) = (node.clone(), self.info.depth, waker.clone());
        let (port, witness) = (exported.port.clone(), exported.witness.clone());
        let (quit, (begun, begins)) = (self.quit.clone(), channel());
        let broken = self.broken.clone();
        let run = move || {
            let _guard = BrokenOnDrop(broken);
            match Lane::new(node, number, depth, their_waker, port, witness, quit) {
                Ok(lane) => {
                    begun.send(Ok(())).ok();
                    lane.run()
                }
                Err(error) => {
                    begun.send(Err(error)).ok();
                    0
                }
            }
        };
        let lane = thread::Builder::new().name(format!("ublk {number}")).spawn(run)?;
        self.wakers.push(waker);
        self.lanes.push(lane);
        begins.recv().unwrap_or_else(|_| Err(io::Error::other("its thread failed")))
    }

    /// Ends the threads without answers to the requests in flight; returns the number of requests.
    fn quit(&mut self) -> u64 {
        self.quit.store(true, SeqCst);
        self.wakers.iter().for_each(|waker| waker.ring());
        self.join()
    }

    fn join(&mut self) -> u64 {
        let joined = |lane: JoinHandle<u64>| match lane.join() {
            Ok(requests) => requests,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        self.lanes.drain(..).map(joined).sum()
    }

    /// Deletes a device that could not be started. A device that was to be taken over continues to
    /// wait.
    fn undo(mut self) {
        if !self.taken_over {
            self.control.stop(self.info.id).ok();
        }
        self.quit();
        if !self.taken_over {
            self.control.delete(self.info.id).ok();
        }
    }
}

/// Records a panic of the thread that holds it.
struct BrokenOnDrop(Arc<AtomicBool>);

impl Drop for BrokenOnDrop {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, SeqCst);
        }
    }
}

/// Warns about known defects of the kernel, or refuses it.
fn judge(kernel: &Kernel, force: bool, exported: &Exported) -> Result<(), UblkError> {
    let release = kernel.release();
    let why = match kernel.known() {
        Known::Nothing => return Ok(()),
        Known::Bad(why) if !force => {
            return Err(UblkError::Known { release: release.into(), why });
        }
        Known::Bad(why) | Known::Doubtful(why) => why,
    };
    exported.events.report(Level::Warning, "note", format!("Linux {release}: {why}"));
    Ok(())
}

/// Returns the properties of the volume that users of the device see.
fn attributes(export: &Export) -> Attributes {
    let longest = export.max_transfer;
    // The kernel accepts only powers of two. The largest one that divides the alignment is used.
    let best = 1 << export.align.max(SECTOR as u32).trailing_zeros();
    let (sectors, read_only) = (export.bytes / SECTOR as u64, export.read_only);
    Attributes { sectors, longest, best, read_only }
}

fn add(control: &Control, queues: u16, wanted: &ExpectedDevice) -> Result<DeviceInfo, UblkError> {
    let features = if wanted.recovers { NEEDED.and(RECOVERS) } else { NEEDED };
    let (longest, mark) = (wanted.attributes.longest, wanted.mark);
    let info = control.add(&Spec { queues, depth: DEPTH, longest, features, mark })?;
    match control.set_attributes(info.id, &wanted.attributes) {
        Ok(()) => Ok(info),
        Err(error) => {
            control.delete(info.id).ok();
            Err(error)
        }
    }
}

/// Returns whether a file system, a mapping or the like has claimed the block device.
fn is_claimed(path: &str) -> bool {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(path);
    opened.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

/// Opens a device node that is about to appear with its permissions from udev.
fn open_soon(path: &str, how: &OpenOptions) -> io::Result<File> {
    let until = Instant::now() + NODES;
    loop {
        match how.open(path) {
            Err(error) if is_soon(&error) && Instant::now() < until => {
                thread::sleep(CHECK_INTERVAL)
            }
            opened => return opened,
        }
    }
}

fn is_soon(error: &io::Error) -> bool {
    const SOON: [i32; 4] = [libc::ENOENT, libc::EACCES, libc::EBUSY, libc::ENXIO];
    error.raw_os_error().is_some_and(|number| SOON.contains(&number))
}

fn system(path: &str, action: &'static str) -> impl Fn(io::Error) -> UblkError {
    move |source| UblkError::System { name: path.into(), action, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_volume::front::Port;

    fn exported() -> Exported {
        Exported::new(hostftl_volume::ram_port("ram", 1 << 20))
    }

    #[test]
    fn faulty_kernels_need_force_and_doubtful_ones_a_warning() {
        let exported = exported();
        let refused = judge(&Kernel::from_release("6.18.4-arch1"), false, &exported).unwrap_err();
        assert!(refused.to_string().contains("6.18.4-arch1"), "{refused}");
        assert!(exported.events.since(0).is_empty());
        for (release, notes) in [("6.18.4-arch1", 1), ("6.17.9-generic", 2), ("6.12.57", 2)] {
            judge(&Kernel::from_release(release), true, &exported).unwrap();
            assert_eq!(exported.events.since(0).len(), notes, "{release}");
        }
    }

    #[test]
    fn the_optimal_size_is_a_power_of_two_divisor() {
        let port: Port = hostftl_volume::ram_port("ram", 1 << 20);
        for (align, best) in [(4096, 4096), (192 << 10, 64 << 10), (512, 512)] {
            let export = Export { align, ..(*port.export()).clone() };
            let attributes = attributes(&export);
            assert_eq!(
                (attributes.best, attributes.sectors, attributes.longest),
                (best, 2048, 1 << 20)
            );
        }
    }
}
