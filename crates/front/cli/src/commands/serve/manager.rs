//! Notifications of `serve` to the service manager: progress of the start, status, watchdog and
//! stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hostftl_volume::{Recovering, StartProgress, Status};

use crate::ending;
use crate::notify::{Notify, manager};
use crate::units::bytes;

use super::volumes::ServedVolume;

/// Interval between notifications during a start.
const STEP: Duration = Duration::from_secs(1);
/// Timeout of the start after each progress of recovery. It must exceed the command timeout of a
/// device, 120 s by default.
const MORE: Duration = Duration::from_secs(300);
/// Minimum interval between status notifications while serving.
const STATUS: Duration = Duration::from_secs(5);

/// Thread that reports the progress of a start, until it is dropped.
pub(super) struct Start {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Start {
    /// Starts to report the start of `name`, which waits at most `wait` for its devices. Does
    /// nothing without a service manager.
    pub(super) fn report(name: String, wait: Duration, start_progress: StartProgress) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let report = move || {
            manager().working(&format!("{name}: waiting for devices"), wait + MORE);
            let (begun, mut last) = (Instant::now(), None);
            while !ended.load(Ordering::SeqCst) {
                thread::park_timeout(STEP);
                let now = start_progress.recovering();
                if now != last {
                    let text = now.map(|now| recovering(&name, begun.elapsed(), now));
                    text.iter().for_each(|text| manager().working(text, MORE));
                    last = now;
                }
            }
        };
        // The start works without these notifications, so a failure to start the thread is ignored.
        let builder = thread::Builder::new().name("start".into());
        let thread = manager().is_connected().then(|| builder.spawn(report).ok()).flatten();
        Start { over, thread }
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().ok();
        }
    }
}

fn recovering(name: &str, since: Duration, now: Recovering) -> String {
    let (seconds, read) = (since.as_secs(), bytes(now.read_bytes));
    match now.sent_bytes {
        0 => format!("{name}: recovering, {seconds} s, {read} read"),
        sent => format!("{name}: recovering, {seconds} s, {read} read, {} written", bytes(sent)),
    }
}

/// Sends watchdog notifications while all drivers make progress, and status changes.
pub(super) struct Pulse<'a> {
    all: &'a [ServedVolume],
    notify: &'static Notify,
    /// Interval between watchdog notifications; `None` without a watchdog.
    every: Option<Duration>,
    /// Time of the next watchdog notification.
    next: Instant,
    /// Number of turns of each driver at the last check.
    turns: Vec<u64>,
    /// Time of the next status.
    status_due: Instant,
    /// Last status that was sent.
    last: String,
}

impl<'a> Pulse<'a> {
    pub(super) fn new(all: &'a [ServedVolume]) -> Self {
        let (notify, now) = (manager(), Instant::now());
        // Three notifications may be lost before the manager kills the process.
        let every = notify.watchdog().map(|most| most / 4);
        Pulse {
            all,
            notify,
            every,
            next: now,
            turns: Vec::new(),
            status_due: now,
            last: String::new(),
        }
    }

    /// Sends the notifications that are due.
    pub(super) fn send(&mut self) {
        let now = Instant::now();
        if let Some(every) = self.every.filter(|_| now >= self.next) {
            let turns: Vec<_> = self.all.iter().map(|one| one.running.pulse()).collect();
            let before = std::mem::replace(&mut self.turns, turns);
            let is_alive = before.iter().zip(&self.turns).all(|(before, now)| before != now);
            if is_alive && !before.is_empty() {
                self.notify.alive();
            }
            self.next = now + every;
        }
        if self.notify.is_connected() && now >= self.status_due {
            self.status_due = now + STATUS;
            let text = serving(self.all);
            if text != self.last {
                self.notify.status(&text);
                self.last = text;
            }
        }
    }
}

/// Returns the status of all volumes as one line.
pub(super) fn serving(all: &[ServedVolume]) -> String {
    let texts: Vec<_> = all.iter().map(|one| serving_one(&one.running.status())).collect();
    // Volumes with a problem come first, because a long status is cut.
    let (bad, good): (Vec<_>, Vec<_>) = texts.into_iter().partition(|text| text.1);
    let texts: Vec<_> = bad.into_iter().chain(good).map(|text| text.0).collect();
    format!("serves {}", texts.join("; "))
}

/// Returns the status of one volume, and whether it has a problem.
fn serving_one(status: &Status) -> (String, bool) {
    let size = bytes(status.exported_bytes);
    let state = match status.problems.first() {
        Some(first) => format!("NEEDS ATTENTION: {first}"),
        None if status.degraded => "DEGRADED".into(),
        None if status.read_only => "read-only".into(),
        None => "online".into(),
    };
    let text = format!("{} ({}, {size}): {state}", status.export, status.layer);
    (text, !status.problems.is_empty())
}

/// Reports that the process stops.
pub(super) fn stopping() {
    manager().stopping("stopping: completing requests and making data durable", ending::LIMIT);
}
