//! Thread of an NBD device. It owns the connections, and reconnects when they break.
//!
//! Invariants
//! - Every order is answered once, even if the server never returns or the device is closed.
//! - After the thread ends, the memory of orders is no longer used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hostftl_core::{DeviceError, Page};
use hostftl_nbd_proto::{Command, Negotiated, Request};

use super::dial::{Dialing, HANDSHAKE};
use super::flow::{DisconnectReason, Flow};
use super::item::{Item, Origin};
use super::line::Line;
use super::remote::Shared;
use super::uri::Uri;
use crate::transfer::Transfer;

/// First and longest pause between attempts to reconnect.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Interval between checks for late commands.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// State of the connection.
#[derive(Debug)]
enum State {
    Up,
    /// Disconnected since `since`. A dial is in progress, or starts at `next`.
    Down {
        since: Instant,
        next: Instant,
        pause: Duration,
        dialing: Option<Dialing>,
    },
    /// The server lost data or has a different export. All commands fail.
    Failed,
}

#[derive(Debug)]
pub(super) struct Client {
    uri: Uri,
    shared: Arc<Shared>,
    /// Properties of the export at the first connection.
    export: Negotiated,
    flow: Flow,
    lines: Vec<Line>,
    state: State,
    checked_at: Instant,
}

impl Client {
    pub(super) fn new(uri: Uri, shared: Arc<Shared>, lines: Vec<Line>, export: Negotiated) -> Self {
        let flow = Flow::new(&export, uri.timeout);
        let checked_at = Instant::now();
        Client { uri, shared, export, flow, lines, state: State::Up, checked_at }
    }

    /// Serves orders until the device is closed.
    pub(super) fn run(mut self) {
        while let Some(orders) = self.shared.take_orders() {
            self.flow.set_timeout(self.shared.patience().unwrap_or(self.uri.timeout));
            orders.into_iter().for_each(|(transfer, origin)| self.flow.put(transfer, origin));
            self.turn();
            self.deliver();
            self.sleep();
        }
        self.hang_up();
    }

    fn turn(&mut self) {
        let now = Instant::now();
        self.connect_again(now);
        match self.state {
            State::Up => {}
            State::Failed => self.flow.fail_waiting(None, DeviceError::Removed),
            State::Down { since, .. } => {
                // This also applies while a slow connection attempt is in progress.
                if now - since >= self.uri.timeout {
                    self.flow.fail_waiting(None, DeviceError::Media);
                }
            }
        }
        if matches!(self.state, State::Up) {
            self.flow.start(&mut self.lines);
            if let Err(error) = self.lines.iter_mut().try_for_each(Line::send) {
                self.lose(&error.to_string());
            }
        }
        if now - self.checked_at >= CHECK_INTERVAL {
            self.checked_at = now;
            if self.flow.is_late(now) {
                self.lose("timed out");
            }
            // Commands that could not be sent in time fail, also while connected.
            self.flow.fail_waiting(Some(now), DeviceError::Media);
        }
    }

    /// Drops the connections and prepares a reconnect.
    fn lose(&mut self, why: &str) {
        self.shared.report(format!("connection lost: {why}; reconnecting"));
        self.lines.clear();
        // Commands that were in progress are sent again after the reconnect.
        self.flow.land();
        let now = Instant::now();
        self.state = State::Down { since: now, next: now, pause: FIRST_PAUSE, dialing: None };
    }

    /// Reconnects in another thread, so that orders still end in time.
    fn connect_again(&mut self, now: Instant) {
        let State::Down { since, next, pause, dialing } = &mut self.state else { return };
        if dialing.is_none() && now >= *next {
            let shared = self.shared.clone();
            let most = self.uri.timeout.min(HANDSHAKE);
            match Dialing::begin(self.uri.clone(), most, move || shared.ring()) {
                Ok(begun) => *dialing = Some(begun),
                // The system may have a free thread at the next attempt.
                Err(error) => {
                    self.shared.report(format!("connection lost: {error}; reconnecting"));
                    *next = now + LONGEST_PAUSE;
                }
            }
        }
        let Some(ended) = dialing.as_mut().and_then(Dialing::end) else { return };
        match ended {
            Ok((lines, export, head, _)) => {
                let since = *since;
                // Repeated writes would overwrite another export.
                if let Some(why) = self.differs(&export, &head) {
                    return self.fail(why);
                }
                self.flow.learn(&export);
                self.shared.record_reconnect(since.elapsed());
                (self.lines, self.state) = (lines, State::Up);
            }
            Err(error) => {
                self.shared.report(format!("connection lost: {error}; reconnecting"));
                (*dialing, *next) = (None, now + *pause);
                *pause = (2 * *pause).min(LONGEST_PAUSE);
            }
        }
    }

    /// Returns the reason why the export cannot be the same as before, if there is one.
    fn differs(&self, export: &Negotiated, head: &Page) -> Option<&'static str> {
        if export.bytes < self.export.bytes {
            return Some("the export has shrunk");
        }
        let same = head.0 == self.shared.head().0;
        (!same).then_some("the server has another export there, or lost its data")
    }

    fn fail(&mut self, why: &str) {
        self.shared.report(format!("{why}; reopen the device"));
        self.lines.clear();
        self.flow.land();
        self.state = State::Failed;
    }

    /// Delivers completed orders.
    fn deliver(&mut self) {
        self.shared.deliver(&mut self.flow.over);
    }

    /// Waits for orders or replies, and processes the replies.
    fn sleep(&mut self) {
        let wait = match self.state {
            _ if !self.flow.over.is_empty() => Duration::ZERO,
            // The end of a dial wakes this thread.
            State::Down { since, dialing: Some(_), .. } => {
                let left = self.uri.timeout.saturating_sub(since.elapsed());
                if left.is_zero() { CHECK_INTERVAL } else { left.min(CHECK_INTERVAL) }
            }
            State::Down { next, .. } => next.saturating_duration_since(Instant::now()),
            _ if self.flow.is_busy() => CHECK_INTERVAL,
            _ => Duration::MAX,
        };
        let (mut ready, lines) = (Vec::new(), self.lines.iter());
        let sockets: Vec<_> = lines.map(|line| (line.fd(), line.has_more())).collect();
        self.shared.sleep(wait, &sockets, &mut ready);
        for number in ready {
            if let Err((trouble, why)) = self.listen(number) {
                return match trouble {
                    DisconnectReason::Leaving => self.lose(&why),
                    DisconnectReason::Lost => self.fail(&why),
                };
            }
        }
    }

    /// Receives and processes the replies on a connection.
    fn listen(&mut self, number: usize) -> Result<(), (DisconnectReason, String)> {
        let mut replies = Vec::new();
        let received = self.lines[number].receive(&mut self.flow.flying, &mut replies);
        for (cookie, result) in replies {
            let answered = self.flow.answer(cookie, result, &mut self.lines);
            answered.map_err(|trouble| {
                let why = match trouble {
                    DisconnectReason::Leaving => "the server is shutting down",
                    DisconnectReason::Lost => "the server lost writes and rejects them now",
                };
                (trouble, why.to_owned())
            })?;
        }
        received.map_err(|error| (DisconnectReason::Leaving, error.to_string()))
    }

    /// Closes the connections and fails all orders.
    fn hang_up(&mut self) {
        let cookie = u64::MAX;
        let bye = Request { flags: 0, command: Command::Disconnect, cookie, offset: 0, length: 0 };
        for line in &mut self.lines {
            // A request cannot be sent in the middle of another one.
            if !line.has_more() {
                line.bid(&bye);
                // An error is ignored: the connection may already be broken.
                line.send().ok();
                line.end();
            }
        }
        self.lines.clear();
        self.flow.land();
        let last = self.shared.take_last_orders();
        last.into_iter().for_each(|(transfer, origin)| self.flow.put(transfer, origin));
        self.flow.fail_waiting(None, DeviceError::Removed);
        self.deliver();
    }
}

/// Transfer, and the receiver of its result.
pub(super) type Order = (Transfer, Origin);

/// Result of an order.
pub(super) type Outcome = (Item, Result<(), DeviceError>);
