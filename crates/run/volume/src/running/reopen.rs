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
use crate::running::live::Live;
use crate::running::scrubbing::Damage;
use crate::running::superblock_writer::Keeper;
use crate::util::error::Error;

/// Interval of checks whether all held answers were sent.
const PAUSE: Duration = Duration::from_millis(10);

/// State that a closed layer leaves.
pub(crate) struct Rest {
    /// Devices by index; an absent device replaces each of `lost`.
    pub devices: Vec<Device>,
    /// Superblocks of the devices.
    pub roster: Roster,
    /// Devices that are lost or were removed.
    pub lost: u16,
    /// Position of a scrub in progress, and whether it is paused.
    scrub: Option<(u64, bool)>,
    damage: Damage,
}

/// A layer that was opened.
pub(crate) struct Opened {
    pub driver: Driver<AnyLayer>,
    pub layer: LayerConfig,
    pub plan: Plan,
}

/// Closes a layer: all its requests are answered, and everything is durable.
pub(crate) fn close(mut driver: Driver<AnyLayer>, jobs: &mut Jobs) -> Result<Rest, Error> {
    let tasks = driver.layer().tasks();
    let scrub = tasks.into_iter().find(|task| task.kind == TaskKind::Scrub);
    let scrub = scrub.map(|task| (task.place, task.is_paused));
    let damage = Damage::of(driver.layer().gauges().as_ref());
    // Other threads keep the last snapshot; this driver updates another one from here on.
    driver.show_in(Arc::default());
    // Completes the requests in flight; the host accepts no new ones.
    driver.serve(&mut Answering(jobs))?;
    // Held answers wait for the superblock writer.
    while let Some(most) = jobs.keep(driver.layer()) {
        thread::sleep(most.min(PAUSE));
    }
    jobs.told().iter().for_each(|answers| answers.flush());
    driver.stop(&mut Answering(jobs))?;
    if driver.layer().has_failed() {
        return Err(Error::Failed("writes failed".into()));
    }
    let lost = (driver.layer().members().lost() | driver.layer().members().removed()).to_bits();
    let roster = jobs.finish(driver.layer())?;
    let late = || Error::Failed("writing a superblock timed out".into());
    let roster = roster.ok_or_else(late)?;
    let mut devices = driver.into_devices()?;
    let length = |at: usize| roster.target().map_or(0, |said| said.lengths[at]);
    for (index, device) in devices.iter_mut().enumerate() {
        if lost >> index & 1 == 1 {
            *device = Device::absent(&format!("missing device {index}"), length(index));
        }
    }
    Ok(Rest { devices, roster, lost, scrub, damage })
}

/// Opens a layer over the devices of a closed one, according to the superblocks.
pub(crate) fn open(
    rest: Rest,
    (config, layer): (&Config, LayerConfig),
    (port, live): (&Port, &Live),
    jobs: &mut Jobs,
) -> Result<Opened, Error> {
    let Rest { devices, mut roster, lost, scrub, damage } = rest;
    let target = roster.target().ok_or_else(|| Error::Failed("no superblock is left".into()))?;
    let mut layer = as_members(layer, lost, &target);
    layer.members.planned = DeviceSet::from_bits(config.planned(&target));
    config.set_deadlines(&devices, &mut layer);
    let plan = plan(&layer, &infos(&devices))?;
    let (arena, waker) = port.means();
    let mut driver = drive(&layer, &plan, (devices, Mode::Open), (arena, waker), None)?;
    driver.start(&mut Answering(jobs))?;
    settle(&layer, Some(&mut roster), &driver)?;
    resume((scrub, damage), &mut driver, jobs);
    driver.show_in(live.watched.shown.clone());
    let fresh = layer.members.fresh;
    jobs.set_keeper(Keeper::new(roster, &layer, &driver, fresh, waker.clone(), &live.news)?);
    jobs.reopened(fresh);
    let mut news = live.news.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    news.cleared_errors = [0; 16];
    drop(news);
    Ok(Opened { driver, layer, plan })
}

/// Passes known damage to the layer, and resumes a scrub.
fn resume(
    (scrub, damage): (Option<(u64, bool)>, Damage),
    driver: &mut Driver<AnyLayer>,
    jobs: &mut Jobs,
) {
    let mut ask = |command| -> Result<AdminOutcome, Refusal> {
        driver.operate(command, &mut Answering(jobs))
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
struct Answering<'a>(&'a mut Jobs);

impl Host for Answering<'_> {
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
