//! State of a served volume for other threads.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use hostftl_core::{DeviceSet, TaskKind};

use crate::open::event_host::EventHost;
use crate::running::copying::CopySlot;
use crate::running::device_view::DeviceViews;
use crate::running::monitor::Samples;
use crate::running::status::Status;
use crate::running::status::latency::Latencies;
use crate::running::status::shadow::ShadowStatus;
use crate::running::status::tasks::TaskStatus;
use crate::util::events::Event;
use crate::util::lock;

/// Sources of a running volume's status.
#[derive(Clone, Debug)]
pub(crate) struct StatusSources {
    pub device_views: Arc<Mutex<DeviceViews>>,
    pub event_host: Arc<Mutex<EventHost>>,
    latencies: Arc<Mutex<Latencies>>,
    pub samples: Samples,
    pub copy: CopySlot,
    /// Figures of the shadow, if there is one.
    shadow: Arc<Mutex<Option<ShadowStatus>>>,
}

impl StatusSources {
    pub(crate) fn new(
        device_views: Arc<Mutex<DeviceViews>>,
        event_host: Arc<Mutex<EventHost>>,
        latencies: Arc<Mutex<Latencies>>,
        samples: Samples,
    ) -> Self {
        let (copy, shadow) = (CopySlot::default(), Arc::default());
        StatusSources { device_views, event_host, latencies, samples, copy, shadow }
    }

    /// Returns the current status.
    pub(crate) fn status(&self) -> Status {
        let snapshot = lock(&self.samples.shown).clone();
        let event_host = lock(&self.event_host);
        let latencies = lock(&self.latencies);
        let device_views = lock(&self.device_views);
        let mut status = device_views.fixed.with(&snapshot, &event_host, &latencies);
        let unrecorded = (event_host.unrecorded, snapshot.members.removed() - event_host.removed);
        // The driver takes these locks in each turn, so they are released early.
        drop((event_host, latencies));
        let meters = lock(&self.samples.meters);
        status.tasks = meters.statuses(&snapshot.tasks);
        drop(meters);
        hold_back(&mut status, unrecorded);
        let fill_level = lock(&self.samples.fill_level);
        if let Some(space) = &mut status.space {
            let full_in = |most| fill_level.full_in(space.physical_bytes, most, Instant::now());
            space.full_in_seconds = space.capacity_bytes.and_then(full_in);
        }
        drop(fill_level);
        status.problems.extend(self.samples.save_error.why());
        status.problems.extend(self.samples.events.trouble());
        // After the tasks and the space, on which it depends.
        status.need_room();
        device_views.add_to(&mut status);
        let copy = lock(&self.copy);
        copy.iter().for_each(|copy| copy.show(&mut status));
        drop(copy);
        status.shadow.clone_from(&lock(&self.shadow));
        // The state depends on the space and the tasks, so it comes last.
        status.set_state(snapshot.failed && !status.read_only);
        status
    }

    /// Sets the figures of the shadow.
    pub(crate) fn set_shadow(&self, figures: ShadowStatus) {
        *lock(&self.shadow) = Some(figures);
    }

    /// Returns the retained events, oldest first.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.samples.events.all()
    }

    /// Returns the reason why the volume accepts no writes any more; `None` while it does.
    pub(crate) fn failure(&self) -> Option<String> {
        let shown = lock(&self.samples.shown);
        let failed = shown.failed;
        drop(shown);
        let why = || {
            let events = self.samples.events.since(0);
            // The layer only reports that it failed; the last event of a device is usually the
            // cause.
            let last = events.iter().rev().find(|event| event.kind.starts_with("device-"));
            match last {
                Some(last) => format!("writes fail: {}", last.text),
                None => "writes fail".into(),
            }
        };
        // A failure of writes does not matter to a read-only volume.
        let device_views = lock(&self.device_views);
        (failed && !device_views.fixed.read_only).then(why)
    }
}

/// Hides the end of tasks, and the redundancy that it restores, until all superblocks record it: a
/// power cut could revert it. `rebuilt` and `removed` are the devices concerned.
fn hold_back(status: &mut Status, (rebuilt, removed): (DeviceSet, DeviceSet)) {
    for (set, task) in [(rebuilt, TaskKind::Rebuild), (removed, TaskKind::Evacuate)] {
        let task = task.name();
        if !set.is_empty() && status.tasks.iter().all(|other| other.task != task) {
            status.tasks.push(TaskStatus { task: task.into(), ..TaskStatus::default() });
        }
    }
    if let Some(space) = &mut status.space {
        // The layer already counts these devices as rebuilt.
        space.failures_tolerated = space.failures_tolerated.saturating_sub(rebuilt.len());
    }
}
