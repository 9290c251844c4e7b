//! Replacement of a layer in the same process: it is closed, and another one is opened over its
//! devices and new ones, while clients wait.
//!
//! # Invariants
//! - All requests in the layer are answered before it is closed; later ones wait in the port.
//! - Other threads see the last snapshot of the old layer until the new one is ready.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hostftl_core::{
    AdminCommand, AdminOutcome, Credits, DeviceSet, Event, Layer, Payload, Refusal, Reply, Scrub,
    TaskKind,
};
use hostftl_io::{Device, Driver, Host, Pull};
use hostftl_layers::{AnyLayer, LayerConfig, Mode, Plan};

use crate::metadata::config::Config;
use crate::metadata::roster::Roster;
use crate::open::machine::settle;
use crate::open::machine::{as_members, drive, infos, plan};
use crate::running::front::Port;
use crate::running::jobs::Jobs;
use crate::running::scrubbing::KnownDamage;
use crate::running::status_sources::StatusSources;
use crate::running::superblock_writer::SuperblockWriter;
use crate::util::error::Error;
use crate::util::lock;

/// Interval of checks whether all held answers were sent.
const PAUSE: Duration = Duration::from_millis(10);

/// State that a closed layer leaves.
pub(crate) struct ClosedLayer {
    /// Devices by index; an absent device replaces each of `lost`.
    pub devices: Vec<Device>,
    /// Superblocks of the devices.
    pub roster: Roster,
    /// Devices that are lost or were removed.
    pub lost: DeviceSet,
    /// Position of a scrub in progress, and whether it is paused.
    scrub: Option<(u64, bool)>,
    damage: KnownDamage,
}

/// A layer that was opened.
pub(crate) struct OpenedLayer {
    pub driver: Driver<AnyLayer>,
    pub layer: LayerConfig,
    pub plan: Plan,
}

/// Closes a layer: all its requests are answered, and everything is durable.
pub(crate) fn close(mut driver: Driver<AnyLayer>, jobs: &mut Jobs) -> Result<ClosedLayer, Error> {
    let tasks = driver.layer().tasks();
    let scrub = tasks.into_iter().find(|task| task.kind == TaskKind::Scrub);
    let scrub = scrub.map(|task| (task.place, task.is_paused));
    // The new layer starts with empty fault counters, so known damage is passed on explicitly.
    let damage = KnownDamage::from_gauges(driver.layer().gauges().as_ref());
    // Other threads keep the last snapshot; this driver updates another one from here on.
    driver.show_in(Arc::default());
    // Completes the requests in flight; the host accepts no new ones.
    driver.serve(&mut DrainHost(jobs))?;
    // Held answers wait for the superblock writer.
    while let Some(most) = jobs.keep(driver.layer()) {
        thread::sleep(most.min(PAUSE));
    }
    jobs.receivers().iter().for_each(|answers| answers.flush());
    driver.stop(&mut DrainHost(jobs))?;
    if driver.layer().has_failed() {
        return Err(Error::Failed("writes failed".into()));
    }
    let lost = driver.layer().members().lost() | driver.layer().members().removed();
    let roster = jobs.finish(driver.layer())?;
    let late = || Error::Failed("writing a superblock timed out".into());
    let roster = roster.ok_or_else(late)?;
    let mut devices = driver.into_devices()?;
    let length = |at: usize| roster.target().map_or(0, |recorded| recorded.lengths[at]);
    for index in lost {
        let at = usize::from(index);
        // The new layer must not reach a device that it considers lost.
        devices[at] = Device::absent(&format!("missing device {index}"), length(at));
    }
    Ok(ClosedLayer { devices, roster, lost, scrub, damage })
}

/// Opens a layer over the devices of a closed one, according to the superblocks.
pub(crate) fn open(
    closed: ClosedLayer,
    (config, layer): (&Config, LayerConfig),
    (port, sources): (&Port, &StatusSources),
    jobs: &mut Jobs,
) -> Result<OpenedLayer, Error> {
    let ClosedLayer { devices, mut roster, lost, scrub, damage } = closed;
    let target = roster.target().ok_or_else(|| Error::Failed("no superblock is left".into()))?;
    let mut layer = as_members(layer, lost, &target);
    layer.members.planned = config.planned(&target);
    config.set_deadlines(&devices, &mut layer);
    let plan = plan(&layer, &infos(&devices))?;
    let (arena, waker) = port.means();
    let mut driver = drive(&layer, &plan, (devices, Mode::Open), (arena, waker), None)?;
    driver.start(&mut DrainHost(jobs))?;
    // Recovery may have excluded a device; this must be durable before the first request.
    settle(&layer, Some(&mut roster), &driver)?;
    resume((scrub, damage), &mut driver, jobs);
    // Published only now, so that other threads never see the state of a recovery.
    driver.show_in(sources.samples.shown.clone());
    let fresh = layer.members.fresh;
    jobs.set_superblock_writer(SuperblockWriter::new(
        roster,
        &layer,
        &driver,
        fresh,
        waker.clone(),
        &sources.event_host,
    )?);
    jobs.reopened(fresh);
    let mut event_host = lock(&sources.event_host);
    // The error counts of the new driver start at 0, and the cleared counts are subtracted from
    // them.
    event_host.cleared_errors = [0; 16];
    drop(event_host);
    Ok(OpenedLayer { driver, layer, plan })
}

/// Passes known damage to the layer, and resumes a scrub.
fn resume(
    (scrub, damage): (Option<(u64, bool)>, KnownDamage),
    driver: &mut Driver<AnyLayer>,
    jobs: &mut Jobs,
) {
    let mut ask = |command| -> Result<AdminOutcome, Refusal> {
        driver.operate(command, &mut DrainHost(jobs))
    };
    damage.pass(&mut ask);
    let Some(place) = damage.scrub_from(scrub.map(|(place, _)| place)) else { return };
    // Only a layer that supports scrubs can have reported one, or damage.
    ask(AdminCommand::Scrub(Scrub::Start(place))).ok();
    if scrub.is_some_and(|(_, is_paused)| is_paused) {
        ask(AdminCommand::Scrub(Scrub::Pause)).ok();
    }
}

/// Host of a layer that accepts no more requests.
struct DrainHost<'a>(&'a mut Jobs);

impl Host for DrainHost<'_> {
    fn pull(&mut self, _credits: Credits) -> Pull {
        Pull::Over
    }

    fn has_work(&self) -> bool {
        false
    }

    fn answer(&mut self, reply: Reply) {
        self.0.answer(reply);
    }

    fn reclaim(&mut self, payload: Payload) {
        self.0.reclaim(payload);
    }

    fn event(&mut self, event: Event) {
        self.0.event(event);
    }
}
