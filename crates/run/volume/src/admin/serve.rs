//! A served volume: the driver's thread, the port for jobs, and the end of the session.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hostftl_core::{Gauges, Layer, SECTOR};
use hostftl_io::{Access, Driver, IoError, Tap};
use hostftl_layers::AnyLayer;

use crate::admin::control::server::Control;
use crate::admin::request::Admin;
use crate::change::changer::Changer;
use crate::metadata::config::Config;
use crate::metadata::record::Recording;
use crate::open::event_host::EventHost;
use crate::open::machine::assemble_machine;
use crate::open::options::StartOptions;
use crate::open::refusal::degraded::redundancy_note;
use crate::open::session::ack_log::AckLog;
use crate::open::session::previous_run::{begin, make_ack_log, take_up};
use crate::open::session::{self, ServedNames, Session};
use crate::open::volume::Volume;
use crate::running::device_view::DeviceViews;
use crate::running::engine::Engine;
use crate::running::front::Port;
use crate::running::front::job::Export;
use crate::running::jobs::Jobs;
use crate::running::monitor::{Monitor, Samples};
use crate::running::scrubbing::{KnownDamage, Scrubbing};
use crate::running::status::Status;
use crate::running::status::latency::Latencies;
use crate::running::status::shadow::ShadowStatus;
use crate::running::status_sources::StatusSources;
use crate::running::superblock_writer::SuperblockWriter;
use crate::util::counted::counted;
use crate::util::error::Error;
use crate::util::events::{Events, Level};
use crate::util::volume_lock::VolumeLock;

/// A volume that accepts jobs. [`Running::stop`] stops it and reports errors; dropping it stops it
/// without a report.
#[derive(Debug)]
pub struct Running {
    port: Port,
    thread: Option<JoinHandle<Result<(), IoError>>>,
    /// `None` in a rehearsal.
    control: Option<Control>,
    admin: Arc<Admin>,
    /// Dropped together with the volume.
    _monitor: Monitor,
    sources: StatusSources,
    recording: Option<Recording>,
    /// Whether a thread panicked in the driver.
    broken: Arc<AtomicBool>,
    /// Held until the driver's thread has ended.
    _lock: std::fs::File,
    /// Lock that all copies and mirror halves of the volume share.
    _volume_lock: VolumeLock,
}

/// Handle for the status of a running volume. Any thread may use it, also after the volume stopped.
#[derive(Clone, Debug)]
pub struct StatusHandle(StatusSources);

impl StatusHandle {
    /// Returns the current status, or the last one if the volume was stopped.
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// Returns the events of the volume.
    pub fn events(&self) -> Events {
        self.0.samples.events.clone()
    }

    /// Adds the figures of a shadow to the status, in place of the former ones.
    pub fn set_shadow(&self, figures: ShadowStatus) {
        self.0.set_shadow(figures);
    }
}

impl Volume {
    /// Recovers the volume and starts to accept jobs.
    ///
    /// # Errors
    /// When the layer can't recover the volume, or the recording can't be created.
    pub fn start(self, options: &StartOptions) -> Result<(Running, Port), Error> {
        self.run(options, false)
    }

    /// Recovers the volume in memory to test a change of its members. Nothing is written, and no
    /// other process can reach the volume.
    pub(crate) fn rehearse(self) -> Result<Running, Error> {
        self.run(&StartOptions::default(), true).map(|(running, _)| running)
    }

    /// Recovers and starts the volume. The order of the steps matters:
    ///
    /// - The lock of the UUID comes before any write, because a copy of the volume may be served.
    /// - The acknowledgement log of the last run is applied before clients can send requests.
    /// - The serving mark is durable before the first client is accepted. It follows the steps that
    ///   are likely to fail, because a start that fails after it counts as an unclean end.
    fn run(mut self, options: &StartOptions, rehearses: bool) -> Result<(Running, Port), Error> {
        let reads = rehearses || self.access == Access::ReadOnly;
        let rehearsal = self.roster.target().filter(|_| rehearses);
        let _volume_lock = VolumeLock::take(self.config.uuid, &self.path)?;
        let events = self.events(rehearses)?;
        let (recording, note) = (self.recording(options, &events)?, self.write_file(reads)?);
        let tap = recording.as_ref().map(|recording| Box::new(recording.tap()) as Box<dyn Tap>);
        let mut views = DeviceViews::new(&self.devices, self.names);
        let machine = assemble_machine(&self.layer, &self.plan, self.devices, self.mode, tap)?;
        let (mut driver, mut notes) = (machine.driver, self.notes);
        notes.extend(machine.note.into_iter().chain(note));
        let mut fixed = Status::new(&self.path, &self.config, &self.layer, &self.plan, &driver);
        options.start_progress.recovers(driver.shown());
        let mut recovery = recover(&mut driver, (reads, KnownDamage::saved(&self.path)), &events)?;
        views.report_reconnects(&self.config.devices, &events);
        let (fresh, out) = (self.layer.members.fresh, self.roster.rebuilt());
        let roster = (!reads).then_some(&mut self.roster);
        let (of, means) = ((&self.config, &self.layer, roster), (&machine.arena, &mut recovery));
        let (session, lost) = take_up(options, of, &mut driver, means)?;
        let (host, name) = (Arc::new(Mutex::new(recovery)), export_name(&self.path, &self.config));
        notes.extend(session.as_ref().and_then(|session| session.note(&name)));
        fixed.unclean_shutdown = session.as_ref().is_some_and(Session::is_unclean);
        let plain = make_export(&self.config, name, driver.layer(), machine.arena.longest(), reads);
        let export = session.iter().fold(plain, served_as);
        let (port, inbox) = Port::new(export, machine.arena, machine.waker.clone());
        let (latencies, waker) = (Arc::<Mutex<Latencies>>::default(), machine.waker.clone());
        let mut jobs = Jobs::new(inbox, host.clone(), latencies.clone());
        if !reads {
            let it = SuperblockWriter::new(self.roster, &self.layer, &driver, fresh, waker, &host)?;
            jobs.set_superblock_writer(it);
        }
        jobs.set_standing(&self.layer.members, out, reads);
        jobs.keep(driver.layer());
        jobs.set_acks(options.acks, make_ack_log(options, &self.config, session.as_ref())?);
        fixed.set_service(options, &port.export());
        fixed.notes.clone_from(&notes);
        report_notes(&events, notes, driver.layer().gauges());
        views.fixed = fixed;
        let (samples, views) = (Samples::new(driver.shown(), events), Arc::new(Mutex::new(views)));
        let sources = StatusSources::new(views, host, latencies, samples.clone());
        // A session that writes nothing leaves the session marks unchanged.
        let session = session.filter(|_| !reads);
        let (of, how) = ((&self.config, self.layer), (session.clone(), rehearsal));
        let admin = Admin::new(Changer::new(&self.path, port.clone(), &sources, of, how));
        let admin = Arc::new(admin);
        let listen = || Control::listen(self.config.uuid, sources.clone(), admin.clone());
        let control = (!rehearses).then(listen).transpose()?;
        let (of, events) = ((options, &self.config), &sources.samples.events);
        let serving = |it: &Session| begin(it, of, driver.devices(), lost, events);
        session.iter().try_for_each(serving)?;
        let engine = Engine::new(driver, jobs, port.queue().clone());
        port.set_engine(&engine);
        let (broken, _lock) = (engine.broken(), self.lock);
        let thread = Some(spawn(engine, session, reads)?);
        let resume = || Scrubbing::resume(&self.path, options.scrub_every, port.clone());
        let _monitor = Monitor::begin(samples, (!reads).then(resume))?;
        let running = Running {
            port: port.clone(),
            thread,
            control,
            admin,
            _monitor,
            sources,
            recording,
            broken,
            _lock,
            _volume_lock,
        };
        Ok((running, port))
    }
}

impl Volume {
    /// Makes the volume file list the members by number, unless the volume is only read. Returns a
    /// note if it did not.
    fn write_file(&self, reads: bool) -> Result<Option<String>, Error> {
        Ok(match &self.cut {
            Some(cut) if reads => Some(cut.note()),
            Some(cut) => Some(cut.settle(&self.path, &self.config.devices)?),
            None => put_in_order(&self.path, &self.config, self.is_permuted && !reads),
        })
    }

    /// Opens the event history. A rehearsal keeps its events in memory.
    fn events(&self, rehearses: bool) -> Result<Events, Error> {
        let kept = || Events::kept(&self.path, self.config.uuid).map_err(IoError::Start);
        Ok(if rehearses { Events::default() } else { kept()? })
    }

    /// Creates the recording of the layer's inputs, if one was requested.
    fn recording(
        &self,
        options: &StartOptions,
        events: &Events,
    ) -> Result<Option<Recording>, Error> {
        let infos = crate::open::machine::infos(&self.devices);
        let record = |to| Recording::new(to, events, &self.layer, &infos, self.mode);
        options.record.as_ref().map(record).transpose()
    }
}

/// Lists the devices by member number in the volume file if `is_wanted`. Returns a note on the
/// result.
fn put_in_order(path: &Path, config: &Config, is_wanted: bool) -> Option<String> {
    is_wanted.then(|| match Config::put_in_order(path, &config.devices) {
        Ok(()) => "volume file rewritten: devices are now listed by number".into(),
        Err(error) => format!(
            "cannot rewrite the volume file, which lists the devices out of order: {error}; the \
             superblocks take precedence"
        ),
    })
}

/// Returns the block device that a layer exports; no buffer is longer than `longest` bytes.
fn make_export(
    config: &Config,
    name: String,
    layer: &AnyLayer,
    longest: u32,
    reads: bool,
) -> Export {
    let limits = layer.limits();
    Export {
        volume: config.uuid.into_bytes(),
        lasts: !config.is_memory(),
        name,
        also: None,
        held: None,
        bytes: limits.exported * SECTOR as u64,
        max_transfer: limits.max_transfer.saturating_mul(SECTOR as u32).min(longest),
        align: limits.align * SECTOR as u32,
        fast_zeroes: layer.has_fast_zeroes(),
        forgot: false,
        read_only: reads,
    }
}

/// Returns the export with the names of the volume in this session.
fn served_as(export: Export, session: &Session) -> Export {
    let ServedNames { name, also, held, forgot } = session.names(&export.name);
    Export { name, also, held, forgot, ..export }
}

/// Reports the notes of the start as events, with the effect of missing members on the data.
fn report_notes(events: &Events, mut notes: Vec<String>, gauges: Option<Gauges>) {
    gauges.iter().for_each(|it| redundancy_note(&mut notes, it));
    for note in notes {
        let (level, kind) = match &note {
            note if note.starts_with("DEGRADED") => (Level::Warning, "degraded"),
            note if note.starts_with(session::UNCLEAN) => (Level::Warning, "unclean-shutdown"),
            _ => (Level::Info, "note"),
        };
        events.report(level, kind, note.as_str());
    }
}

/// Recovers the layer and passes known damage to it. If it only `reads`, its writes go to memory
/// from now on.
fn recover(
    driver: &mut Driver<AnyLayer>,
    (reads, damage): (bool, KnownDamage),
    events: &Events,
) -> Result<EventHost, Error> {
    if reads {
        // Recovery itself writes, so its writes are redirected before it starts.
        driver.discard_writes(true);
    }
    let begun = Instant::now();
    let mut recovery = EventHost::with_events(driver.devices(), events.clone());
    driver.start(&mut recovery).map_err(|error| recovery.explain(error))?;
    // Before clients connect: until then a damaged device counts as sound.
    damage.pass(|command| driver.operate(command, &mut recovery));
    recovery.events.report(Level::Info, "started", started(&recovery, begun.elapsed()));
    Ok(recovery)
}

/// Describes the recovery.
fn started(recovery: &EventHost, took: Duration) -> String {
    let ms = took.as_millis();
    let replayed = counted(recovery.replayed, "log write");
    match (recovery.replayed, recovery.dropped) {
        (0, 0) => format!("ready after {ms} ms; nothing to recover"),
        (_, 0) => format!("ready after {ms} ms; recovery replayed {replayed}"),
        (_, dropped) => format!(
            "ready after {ms} ms; recovery replayed {replayed}, and ignored {} at the end",
            counted(dropped, "incomplete one")
        ),
    }
}

/// Returns the label, or else the stem of the volume file's name.
fn export_name(path: &Path, config: &Config) -> String {
    let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if config.label.is_empty() { stem() } else { config.label.clone() }
}

/// Starts the driver's thread. At its end it marks a clean stop on the devices if there was no
/// failure. A layer that only `reads` has nothing to close.
fn spawn(
    engine: Arc<Engine>,
    session: Option<Session>,
    reads: bool,
) -> Result<JoinHandle<Result<(), IoError>>, IoError> {
    let run = move || {
        let (mut driver, mut jobs) = engine.run()?;
        if reads {
            return driver.close();
        }
        driver.stop(&mut jobs)?;
        // Losses must be recorded before the mark of a clean stop, which the next start trusts.
        jobs.finish(driver.layer())?;
        if let Some(session) = session.filter(|_| !driver.layer().has_failed()) {
            session.stopped(driver.devices(), driver.layer().members().lost())?;
            // After the durable mark: until then the next start may need the log.
            jobs.take_ack_log().into_iter().for_each(AckLog::remove);
        }
        driver.close()
    };
    thread::Builder::new().name("driver".into()).spawn(run).map_err(IoError::Start)
}

impl Running {
    /// Returns the executor of operator requests.
    pub(crate) fn admin(&self) -> &Admin {
        &self.admin
    }

    /// Returns the events since the start, such as damaged copies, a slow engine or a failing
    /// device.
    pub fn events(&self) -> Events {
        self.sources.samples.events.clone()
    }

    /// Returns the current status.
    pub fn status(&self) -> Status {
        self.sources.status()
    }

    /// Returns a handle for the status that outlives the volume.
    pub fn status_handle(&self) -> StatusHandle {
        StatusHandle(self.sources.clone())
    }

    /// Returns whether the driver's thread still runs; if not, [`Running::stop`] returns the error.
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Returns whether a thread panicked in the driver: requests are no longer answered, and the
    /// process must end.
    pub fn has_panicked(&self) -> bool {
        self.broken.load(SeqCst)
    }

    /// Requests a turn of the driver, and returns the number of turns so far. If two calls return
    /// the same number, the driver is stuck; a slow device is no reason for that.
    pub fn pulse(&self) -> u64 {
        self.port.pulse()
    }

    /// Returns the reason why the volume accepts no writes until it is reopened; `None` if there is
    /// none.
    pub fn failure(&self) -> Option<String> {
        self.sources.failure()
    }

    /// Completes the queued jobs, makes everything durable and closes the layer. Returns the last
    /// status.
    ///
    /// # Errors
    /// When the driver failed, the recording could not be written, or writes to the devices failed,
    /// also during the stop. The volume is closed then, but data that was not flushed is not
    /// durable.
    pub fn stop(mut self) -> Result<Status, Error> {
        self.join()?;
        if let Some(recording) = self.recording.take() {
            recording.finish()?;
        }
        match self.sources.failure() {
            Some(why) => Err(Error::Failed(why)),
            None => Ok(self.sources.status()),
        }
    }

    fn join(&mut self) -> Result<(), Error> {
        self.admin.end_copy();
        self.port.close();
        self.control.iter_mut().for_each(Control::close);
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => {
                // The status has the reason already if the events can't be written.
                self.sources.samples.events.sync().ok();
                Ok(result?)
            }
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.admin.end_copy();
        self.port.close();
        self.control.iter_mut().for_each(Control::close);
        if let Some(thread) = self.thread.take() {
            // Dropping ignores the result; `stop` returns it.
            thread.join().ok();
        }
    }
}
