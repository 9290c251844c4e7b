//! A layer is closed, and another one is opened over its devices and others in the same process,
//! while clients wait.
//!
//! Invariants
//! - What the layer was asked is answered before it is closed; what comes later waits in the port.
//! - Other threads see the last picture of the layer before until the next one is ready.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hostftl_core::{
    Answer, Credits, DeviceSet, Event, Layer, Payload, Refusal, Reply, Scrub, TaskKind, Verb,
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
use crate::running::superblock_writer::Keeper;
use crate::util::error::Error;

/// How often to look whether what was promised is known to all.
const PAUSE: Duration = Duration::from_millis(10);

/// What a layer leaves that was closed.
pub(crate) struct Rest {
    /// The devices, in their places; an absent one in that of each of `lost`.
    pub devices: Vec<Device>,
    /// What their superblocks say.
    pub roster: Roster,
    /// The devices that are lost, or were removed.
    pub lost: u16,
    /// Where a scrub is that is under way, and whether it rests.
    scrub: Option<(u64, bool)>,
}

/// A layer that was opened.
pub(crate) struct Opened {
    pub driver: Driver<AnyLayer>,
    pub layer: LayerConfig,
    pub plan: Plan,
}

/// Closes a layer: everything that it was asked is answered, and all of it durable.
///
/// # Errors
/// When it can't be closed clean. The volume is over then.
pub(crate) fn close(mut driver: Driver<AnyLayer>, jobs: &mut Jobs) -> Result<Rest, Error> {
    let tasks = driver.layer().tasks();
    let scrub = tasks.into_iter().find(|task| task.kind == TaskKind::Scrub);
    let scrub = scrub.map(|task| (task.place, task.is_paused));
    driver.show_in(Arc::default());
    driver.serve(&mut Answering(jobs))?;
    while let Some(most) = jobs.keep(driver.layer()) {
        thread::sleep(most.min(PAUSE));
    }
    jobs.told().iter().for_each(|answers| answers.flush());
    driver.stop(&mut Answering(jobs))?;
    if driver.layer().has_failed() {
        return Err(Error::Failed("nothing could be written any more".into()));
    }
    let lost = (driver.layer().members().lost() | driver.layer().members().removed()).to_bits();
    let roster = jobs.finish(driver.layer())?;
    let late = || Error::Failed("a superblock could not be written in time".into());
    let roster = roster.ok_or_else(late)?;
    let mut devices = driver.into_devices()?;
    let length = |at: usize| roster.target().map_or(0, |said| said.lengths[at]);
    for (index, device) in devices.iter_mut().enumerate() {
        if lost >> index & 1 == 1 {
            *device = Device::absent(&format!("missing device {index}"), length(index));
        }
    }
    Ok(Rest { devices, roster, lost, scrub })
}

/// Opens a layer over what another one left, as the superblocks say.
///
/// # Errors
/// When it can't be opened. The volume is over then.
pub(crate) fn open(
    rest: Rest,
    (config, layer): (&Config, LayerConfig),
    (port, live): (&Port, &Live),
    jobs: &mut Jobs,
) -> Result<Opened, Error> {
    let Rest { devices, mut roster, lost, scrub } = rest;
    let target = roster.target().ok_or_else(|| Error::Failed("no superblock is left".into()))?;
    let mut layer = as_members(layer, lost, &target);
    layer.members.planned = DeviceSet::from_bits(config.planned(&target));
    config.set_deadlines(&devices, &mut layer);
    let plan = plan(&layer, &infos(&devices))?;
    let (arena, waker) = port.means();
    let mut driver = drive(&layer, &plan, (devices, Mode::Open), (arena, waker), None)?;
    driver.start(&mut Answering(jobs))?;
    settle(&layer, Some(&mut roster), &driver)?;
    resume(scrub, &mut driver, jobs);
    driver.show_in(live.watched.shown.clone());
    let fresh = layer.members.fresh;
    jobs.set_keeper(Keeper::new(roster, &layer, &driver, fresh, waker.clone(), &live.news)?);
    jobs.reopened(fresh);
    let mut news = live.news.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    news.cleared_errors = [0; 16];
    drop(news);
    Ok(Opened { driver, layer, plan })
}

/// Goes on with a scrub where it was.
fn resume(scrub: Option<(u64, bool)>, driver: &mut Driver<AnyLayer>, jobs: &mut Jobs) {
    let Some((place, is_paused)) = scrub else { return };
    let mut ask = |verb| -> Result<Answer, Refusal> { driver.operate(verb, &mut Answering(jobs)) };
    // A layer that can't will not have been asked before.
    ask(Verb::Scrub(Scrub::Start(place))).ok();
    if is_paused {
        ask(Verb::Scrub(Scrub::Pause)).ok();
    }
}

/// The host of a layer that takes no more requests.
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
