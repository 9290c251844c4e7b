//! Thread that samples a served volume periodically: the rates of background work, the position of
//! a scrub and the time of the next one, and the fill level.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hostftl_core::Gauges;
use hostftl_io::{IoError, Snapshot};

use crate::running::scrubbing::{Scrubbing, Unkept};
use crate::running::status::space::Filling;
use crate::running::status::tasks::Meters;
use crate::util::events::{Events, Level};

/// Sampling interval.
const EVERY: Duration = Duration::from_millis(250);

/// Sampled state and its results.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// State of the driver.
    pub shown: Arc<Mutex<Snapshot>>,
    /// Rates of the tasks.
    pub meters: Arc<Mutex<Meters>>,
    /// Fill level and its growth.
    pub filling: Arc<Mutex<Filling>>,
    /// Receiver of the events.
    pub events: Events,
    /// Position of a scrub; `None` until the volume accepts commands, or when it is read-only.
    scrubbing: Arc<Mutex<Option<Scrubbing>>>,
    /// Reason why the position can't be saved.
    pub unkept: Unkept,
}

impl Watched {
    /// Creates the state for a driver whose events go to `events`.
    pub(crate) fn new(shown: Arc<Mutex<Snapshot>>, events: Events) -> Self {
        let (meters, filling, scrubbing) = (Arc::default(), Arc::default(), Arc::default());
        Watched { shown, meters, filling, events, scrubbing, unkept: Unkept::default() }
    }
}

/// The monitor thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts the thread, with the scrubs of a writable volume.
    pub(crate) fn begin(watched: Watched, scrubbing: Option<Scrubbing>) -> Result<Self, IoError> {
        let telling = |it: Scrubbing| it.telling(&watched.events, &watched.unkept);
        *watched.scrubbing() = scrubbing.map(telling);
        let (end, over) = channel();
        let run = move || watched.run(&over);
        let thread = thread::Builder::new().name("watch".into()).spawn(run);
        Ok(Watch { end: Some(end), thread: Some(thread.map_err(IoError::Start)?) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Watched {
    fn run(&self, over: &Receiver<()>) {
        while over.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            self.look();
        }
        // The volume is closed: record the final state.
        self.look();
        self.scrubbing().iter_mut().for_each(Scrubbing::write);
    }

    fn scrubbing(&self) -> MutexGuard<'_, Option<Scrubbing>> {
        self.scrubbing.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Samples now. Tasks that started or ended since the last sample are recorded on return.
    pub(crate) fn look(&self) {
        let shown = self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (tasks, gauges) = (shown.tasks.clone(), shown.gauges);
        // The driver updates the snapshot under this lock, so hold it only briefly.
        drop(shown);
        gauges.iter().for_each(|gauges| self.fill(gauges));
        let mut meters = self.meters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        meters.look(&tasks, Instant::now());
        drop(meters);
        self.scrubbing().iter_mut().for_each(|it| it.look(&tasks, gauges.as_ref()));
        self.events.save_rest();
    }

    /// Reports an event when a threshold is passed.
    fn fill(&self, gauges: &Gauges) {
        let mut filling = self.filling.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let passed = filling.look(gauges.valid, gauges.valid_limit, Instant::now());
        drop(filling);
        if let Some(used) = passed {
            let text = format!(
                "{used} % of the capacity is used ({} of {} bytes); trim, or add a device",
                gauges.valid, gauges.valid_limit
            );
            self.events.tell(Level::Warning, "space-low", text);
        }
    }
}
