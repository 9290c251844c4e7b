//! How the service manager hears of a serving process: each step of the start, that clients can
//! connect, that the volume still works, and the stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hostftl_volume::{Recovering, StartProgress, Status};

use crate::ending;
use crate::notify::{Notify, manager};
use crate::units::bytes;

use super::volumes::Live;

/// How often the status of a start is told.
const STEP: Duration = Duration::from_secs(1);
/// How much longer a start may take each time that recovery went on: more than the two minutes
/// that a device has for a command.
const MORE: Duration = Duration::from_secs(300);
/// How often the status of a volume that is served is told when it changes.
const LOOK: Duration = Duration::from_secs(5);

/// Tells of a start under way until it is dropped.
pub(super) struct Start {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Start {
    /// `name` is started, whose devices are waited for `wait` at the longest.
    pub(super) fn tell(name: String, wait: Duration, start_progress: StartProgress) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let tell = move || {
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
        // Nobody hears it without a manager, and a start without a thread is only a silent one.
        let builder = thread::Builder::new().name("start".into());
        let thread = manager().is_heard().then(|| builder.spawn(tell).ok()).flatten();
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
        0 => format!("{name}: recovers, {seconds} s, {read} read"),
        sent => format!("{name}: recovers, {seconds} s, {read} read, {} written", bytes(sent)),
    }
}

/// Tells that the volumes work for as long as all of them do.
pub(super) struct Pulse<'a> {
    live: &'a [Live],
    notify: &'static Notify,
    /// How often, and when next.
    every: Option<Duration>,
    next: Instant,
    /// The turns of each at the last look.
    turns: Vec<u64>,
    looked: Instant,
    /// What was said last.
    said: String,
}

impl<'a> Pulse<'a> {
    pub(super) fn of(live: &'a [Live]) -> Self {
        let (notify, now) = (manager(), Instant::now());
        // Three lost datagrams are no reason to kill the process.
        let every = notify.watchdog().map(|most| most / 4);
        Pulse {
            live,
            notify,
            every,
            next: now,
            turns: Vec::new(),
            looked: now,
            said: String::new(),
        }
    }

    /// Tells what is to be told now.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        if let Some(every) = self.every.filter(|_| now >= self.next) {
            let turns: Vec<_> = self.live.iter().map(|one| one.running.pulse()).collect();
            let before = std::mem::replace(&mut self.turns, turns);
            let all = before.iter().zip(&self.turns).all(|(before, now)| before != now);
            if all && !before.is_empty() {
                self.notify.alive();
            }
            self.next = now + every;
        }
        if self.notify.is_heard() && now >= self.looked {
            self.looked = now + LOOK;
            let text = serving(self.live);
            if text != self.said {
                self.notify.status(&text);
                self.said = text;
            }
        }
    }
}

/// What is served, and what somebody should do about it.
pub(super) fn serving(live: &[Live]) -> String {
    let texts: Vec<_> = live.iter().map(|one| serving_one(&one.running.status())).collect();
    // Whoever needs a hand comes first, where there is no room for all.
    let (bad, good): (Vec<_>, Vec<_>) = texts.into_iter().partition(|text| text.1);
    let texts: Vec<_> = bad.into_iter().chain(good).map(|text| text.0).collect();
    format!("serves {}", texts.join("; "))
}

/// The same of one volume, and whether it needs a hand.
fn serving_one(status: &Status) -> (String, bool) {
    let size = bytes(status.exported_bytes);
    let state = match status.problems.first() {
        Some(first) => format!("NEEDS A HAND: {first}"),
        None if status.degraded => "DEGRADED".into(),
        None if status.read_only => "read-only".into(),
        None => "online".into(),
    };
    let text = format!("{} ({}, {size}): {state}", status.export, status.layer);
    (text, !status.problems.is_empty())
}

/// The process ends from now on.
pub(super) fn stopping() {
    manager().stopping("stopping: completing requests and making data durable", ending::LIMIT);
}
