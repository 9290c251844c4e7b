//! A thread that looks at a served volume again and again, for what only time shows: how fast the
//! work in the background goes, where a scrub is and when the next is due, how the volume fills.

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

/// How often it looks.
const EVERY: Duration = Duration::from_millis(250);

/// What it looks at, and what it keeps of that.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// How the driver is.
    pub shown: Arc<Mutex<Snapshot>>,
    /// How fast the tasks go.
    pub meters: Arc<Mutex<Meters>>,
    /// How it fills.
    pub filling: Arc<Mutex<Filling>>,
    /// Who hears of that.
    pub events: Events,
    /// Where a scrub is; none until the volume takes verbs, or when it is only read.
    scrubbing: Arc<Mutex<Option<Scrubbing>>>,
    /// Why that can't be kept.
    pub unkept: Unkept,
}

impl Watched {
    /// What there is to see of a driver, whose news go to `events`.
    pub(crate) fn new(shown: Arc<Mutex<Snapshot>>, events: Events) -> Self {
        let (meters, filling, scrubbing) = (Arc::default(), Arc::default(), Arc::default());
        Watched { shown, meters, filling, events, scrubbing, unkept: Unkept::default() }
    }
}

/// See the module text. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins, with the scrubs of a volume that is written.
    ///
    /// # Errors
    /// When the system gives no thread.
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
        // The volume is closed: that is how it ended.
        self.look();
        self.scrubbing().iter_mut().for_each(Scrubbing::write);
    }

    fn scrubbing(&self) -> MutexGuard<'_, Option<Scrubbing>> {
        self.scrubbing.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Looks now: what was begun or ended since the last time is kept when this returns.
    pub(crate) fn look(&self) {
        let shown = self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (tasks, gauges) = (shown.tasks.clone(), shown.gauges);
        drop(shown);
        gauges.iter().for_each(|gauges| self.fill(gauges));
        let mut meters = self.meters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        meters.look(&tasks, Instant::now());
        drop(meters);
        self.scrubbing().iter_mut().for_each(|it| it.look(&tasks, gauges.as_ref()));
        self.events.save_rest();
    }

    /// Tells when a threshold is passed.
    fn fill(&self, gauges: &Gauges) {
        let mut filling = self.filling.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let passed = filling.look(gauges.live, gauges.most_live, Instant::now());
        drop(filling);
        if let Some(used) = passed {
            let text = format!(
                "{used} % of the room is used, {} of {} bytes: trim, or writes will be refused",
                gauges.live, gauges.most_live
            );
            self.events.tell(Level::Warning, "space-low", text);
        }
    }
}
