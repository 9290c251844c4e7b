//! State of a served volume for other threads.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use hostftl_core::TaskKind;

use crate::open::event_host::Quiet;
use crate::running::copying::CopySlot;
use crate::running::device_view::Faces;
use crate::running::monitor::Watched;
use crate::running::status::Status;
use crate::running::status::latency::Latencies;
use crate::running::status::tasks::TaskStatus;
use crate::util::events::Event;

/// Sources of a running volume's status.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub faces: Arc<Mutex<Faces>>,
    pub news: Arc<Mutex<Quiet>>,
    latencies: Arc<Mutex<Latencies>>,
    pub watched: Watched,
    pub copy: CopySlot,
}

impl Live {
    pub(crate) fn new(
        faces: Arc<Mutex<Faces>>,
        news: Arc<Mutex<Quiet>>,
        latencies: Arc<Mutex<Latencies>>,
        watched: Watched,
    ) -> Self {
        Live { faces, news, latencies, watched, copy: CopySlot::default() }
    }

    /// Returns the current status.
    pub(crate) fn status(&self) -> Status {
        let snapshot =
            self.watched.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let news = self.news.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let latencies = self.latencies.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let faces = self.faces.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut status = faces.still.with(&snapshot, &news, &latencies);
        let unsaid = (news.unsaid, snapshot.members.removed().to_bits() & !news.gone);
        drop((news, latencies));
        let meters = self.watched.meters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        status.tasks = meters.tell(&snapshot.tasks);
        drop(meters);
        hold_back(&mut status, unsaid);
        let filling = self.watched.filling.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(space) = &mut status.space {
            let full_in = |most| filling.full_in(space.physical_bytes, most, Instant::now());
            space.full_in_seconds = space.capacity_bytes.and_then(full_in);
        }
        drop(filling);
        status.problems.extend(self.watched.unkept.why());
        status.problems.extend(self.watched.events.trouble());
        status.need_room();
        faces.tell(&mut status);
        let copy = self.copy.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        copy.iter().for_each(|copy| copy.show(&mut status));
        // The state depends on the space and the tasks, so it comes last.
        status.set_state(snapshot.failed && !status.read_only);
        status
    }

    /// Returns the retained events, oldest first.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.watched.events.all()
    }

    /// Returns the reason why the volume accepts no writes any more; `None` while it does.
    pub(crate) fn failure(&self) -> Option<String> {
        let shown = self.watched.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let failed = shown.failed;
        drop(shown);
        let why = || {
            let events = self.watched.events.since(0);
            let last = events.iter().rev().find(|event| event.kind.starts_with("device-"));
            match last {
                Some(last) => format!("writes fail: {}", last.text),
                None => "writes fail".into(),
            }
        };
        // A failure of writes does not matter to a read-only volume.
        let faces = self.faces.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        (failed && !faces.still.read_only).then(why)
    }
}

/// Hides the end of tasks, and the redundancy that it restores, until all superblocks record it: a
/// power cut could revert it. `rebuilt` and `removed` are the devices concerned.
fn hold_back(status: &mut Status, (rebuilt, removed): (u16, u16)) {
    for (set, task) in [(rebuilt, TaskKind::Rebuild), (removed, TaskKind::Evacuate)] {
        let task = task.name();
        if set != 0 && status.tasks.iter().all(|other| other.task != task) {
            status.tasks.push(TaskStatus { task: task.into(), ..TaskStatus::default() });
        }
    }
    if let Some(space) = &mut status.space {
        space.failures_tolerated = space.failures_tolerated.saturating_sub(rebuilt.count_ones());
    }
}
