//! A thread that looks at a served volume again and again, for what only time shows: how fast the
//! work in the background goes.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hostftl_io::{IoError, Snapshot};

use crate::tasks::Meters;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(250);

/// What it looks at, and what it keeps of that.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// How the driver is.
    pub shown: Arc<Mutex<Snapshot>>,
    /// How fast the tasks go.
    pub meters: Arc<Mutex<Meters>>,
}

/// See the module text. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn begin(watched: Watched) -> Result<Self, IoError> {
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
            let shown = self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let tasks = shown.tasks.clone();
            drop(shown);
            let mut meters = self.meters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            meters.look(&tasks, Instant::now());
        }
    }
}
