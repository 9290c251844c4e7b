//! Thread that samples a served volume periodically: the rates of background work, the position of
//! a scrub and the time of the next one, and the fill level.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hostftl_core::Gauges;
use hostftl_io::{IoError, Snapshot};

use crate::running::scrubbing::{SaveError, Scrubbing};
use crate::running::status::space::FillLevel;
use crate::running::status::tasks::Meters;
use crate::util::events::{Events, Level};
use crate::util::lock;

/// Sampling interval.
const EVERY: Duration = Duration::from_millis(250);

/// Sampled state and its results.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    /// State of the driver.
    pub shown: Arc<Mutex<Snapshot>>,
    /// Rates of the tasks.
    pub meters: Arc<Mutex<Meters>>,
    /// Fill level and its growth.
    pub fill_level: Arc<Mutex<FillLevel>>,
    /// Receiver of the events.
    pub events: Events,
    /// Position of a scrub; `None` until the volume accepts commands, or when it is read-only.
    scrubbing: Arc<Mutex<Option<Scrubbing>>>,
    /// Reason why the position can't be saved.
    pub save_error: SaveError,
}

impl Samples {
    /// Creates the state for a driver whose events go to `events`.
    pub(crate) fn new(shown: Arc<Mutex<Snapshot>>, events: Events) -> Self {
        let (meters, fill_level, scrubbing) = (Arc::default(), Arc::default(), Arc::default());
        Samples { shown, meters, fill_level, events, scrubbing, save_error: SaveError::default() }
    }
}

/// The monitor thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Monitor {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Starts the thread, with the scrubs of a writable volume.
    pub(crate) fn begin(samples: Samples, scrubbing: Option<Scrubbing>) -> Result<Self, IoError> {
        let with_events = |it: Scrubbing| it.with_events(&samples.events, &samples.save_error);
        *samples.scrubbing() = scrubbing.map(with_events);
        let (end, over) = channel();
        let run = move || samples.run(&over);
        let thread = thread::Builder::new().name("watch".into()).spawn(run);
        Ok(Monitor { end: Some(end), thread: Some(thread.map_err(IoError::Start)?) })
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Samples {
    fn run(&self, over: &Receiver<()>) {
        while over.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            self.sample();
        }
        // The volume is closed: record the final state.
        self.sample();
        self.scrubbing().iter_mut().for_each(Scrubbing::write);
    }

    fn scrubbing(&self) -> MutexGuard<'_, Option<Scrubbing>> {
        lock(&self.scrubbing)
    }

    /// Samples now. Tasks that started or ended since the last sample are recorded on return.
    pub(crate) fn sample(&self) {
        let shown = lock(&self.shown);
        let (tasks, gauges) = (shown.tasks.clone(), shown.gauges);
        // The driver updates the snapshot under this lock, so hold it only briefly.
        drop(shown);
        gauges.iter().for_each(|gauges| self.fill(gauges));
        let mut meters = lock(&self.meters);
        meters.sample(&tasks, Instant::now());
        drop(meters);
        self.scrubbing().iter_mut().for_each(|it| it.sample(&tasks, gauges.as_ref()));
        self.events.save_rest();
    }

    /// Reports an event when a threshold is passed.
    fn fill(&self, gauges: &Gauges) {
        let mut fill_level = lock(&self.fill_level);
        let passed = fill_level.sample(gauges.valid, gauges.valid_limit, Instant::now());
        drop(fill_level);
        if let Some(used) = passed {
            let text = format!(
                "{used} % of the capacity is used ({} of {} bytes); trim, or add a device",
                gauges.valid, gauges.valid_limit
            );
            self.events.report(Level::Warning, "space-low", text);
        }
    }
}
