//! Handle of a device for its NBD server: orders go in, and their results come out.
//!
//! Invariants
//! - A thread that adds an order wakes the client's thread, which wakes the driver when orders end.
//! - The memory of an order stays valid until it ends, or the remote is dropped.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hostftl_core::{DeviceError, Page, Verdict};

use super::claim::ExportClaim;
use super::client::{Client, Order, Outcome};
use super::dial::{Dialing, HANDSHAKE};
use super::item::Origin;
use super::uri::Uri;
use crate::cancel;
use crate::error::IoError;
use crate::pool::Finished;
use crate::transfer::Transfer;
use crate::waker::Waker;

#[derive(Debug)]
pub(crate) struct Remote {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    bytes: u64,
    _claim: ExportClaim,
}

/// State shared by the client's thread and the users of the device.
#[derive(Debug)]
pub(crate) struct Shared {
    orders: Mutex<Orders>,
    waker: Waker,
    finished: Mutex<Vec<Finished>>,
    driver: OnceLock<Arc<Waker>>,
    /// First block of the export, which identifies it after a reconnect.
    head: Mutex<Page>,
    link: Mutex<Link>,
    /// Callback for reconnects.
    follower: Follower,
    /// Timeout of a command in ms; 0 means that of the URI.
    patience: AtomicU64,
}

/// Callback that receives the length of an outage.
#[derive(Default)]
struct Follower(OnceLock<Box<dyn Fn(Duration) + Send + Sync>>);

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Follower({})", self.0.get().is_some())
    }
}

#[derive(Debug, Default)]
struct Orders {
    list: Vec<Order>,
    closed: bool,
}

/// Observer of a device's connection, usable from any thread.
#[derive(Clone, Debug)]
pub struct LinkWatch(Arc<Shared>);

impl LinkWatch {
    /// Returns the current state of the connection.
    pub fn link(&self) -> Link {
        lock(&self.0.link).clone()
    }

    /// Calls `report` after each reconnect with the length of the outage. The client's thread calls
    /// it, so it must not block. Only the first callback is used.
    pub fn follow(&self, report: impl Fn(Duration) + Send + Sync + 'static) {
        self.0.follower.0.set(Box::new(report)).ok();
    }
}

/// State of the connection to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Number of reconnects.
    pub reconnects: u64,
    /// Current problem, if any.
    pub trouble: Option<String>,
}

impl Remote {
    /// Connects to the server.
    pub(crate) fn open(name: &str, uri: Uri) -> Result<Self, IoError> {
        let system = |action| {
            let name = name.to_owned();
            move |source| IoError::System { name, action, source }
        };
        let dialing = Dialing::begin(uri.clone(), uri.timeout.min(HANDSHAKE), || {});
        let dialed = dialing.and_then(Dialing::wait);
        // A dial that a signal interrupted does not mean that the server is unavailable.
        cancel::check(name)?;
        let (lines, export, head, place) = dialed.map_err(system("use the NBD server"))?;
        // The claim needs the address and the canonical name from the handshake.
        let claim = ExportClaim::new(name, &uri, (place, export.name.as_deref()))?;
        let shared = Arc::new(Shared {
            orders: Mutex::default(),
            waker: Waker::new().map_err(system("wake its thread"))?,
            finished: Mutex::default(),
            driver: OnceLock::new(),
            head: Mutex::new(head),
            follower: Follower::default(),
            link: Mutex::default(),
            patience: AtomicU64::new(0),
        });
        let bytes = export.bytes;
        let client = Client::new(uri, shared.clone(), lines, export);
        let builder = thread::Builder::new().name("nbd-client".into());
        let thread = builder.spawn(move || client.run()).map_err(system("start its thread"))?;
        Ok(Remote { shared, thread: Some(thread), bytes, _claim: claim })
    }

    /// Returns the length of the export in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Wakes `driver` from now on when one of its transfers ends.
    pub(crate) fn listen(&self, driver: Arc<Waker>) {
        let first = self.shared.driver.get_or_init(|| driver.clone());
        assert!(Arc::ptr_eq(first, &driver), "the same waker wakes all drivers of a device");
    }

    /// Starts a transfer for the driver.
    pub(crate) fn put(&self, transfer: Transfer) {
        self.shared.order(transfer, Origin::Driver);
    }

    /// Moves completed transfers to the end of `list`.
    pub(crate) fn collect(&self, list: &mut VecDeque<Finished>) {
        list.extend(lock(&self.shared.finished).drain(..));
    }

    /// Returns whether a transfer has completed.
    pub(crate) fn has_finished(&self) -> bool {
        !lock(&self.shared.finished).is_empty()
    }

    /// Executes a transfer and waits for its end.
    pub(crate) fn run(&self, transfer: Transfer) -> io::Result<()> {
        self.shared.run(transfer)
    }

    /// Sets the content of the first block that is expected after a reconnect.
    pub(crate) fn set_head(&self, page: &Page) {
        self.shared.set_head(page);
    }

    /// Sets the timeout of commands.
    pub(crate) fn set_deadline(&self, most: Duration) {
        self.shared.patience.store(most.as_millis() as u64, Relaxed);
    }

    /// Returns the shared state for other threads. It may outlive the remote.
    pub(crate) fn share(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Returns an observer of the connection.
    pub(crate) fn watch(&self) -> LinkWatch {
        LinkWatch(self.shared.clone())
    }

    /// Closes the connections; commands in flight end with an error.
    pub(crate) fn close(&self) {
        lock(&self.shared.orders).closed = true;
        self.shared.waker.wake();
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Shared {
    /// Executes a transfer and waits for its end.
    pub(crate) fn run(&self, transfer: Transfer) -> io::Result<()> {
        let (sender, answer) = channel();
        self.order(transfer, Origin::Caller(sender));
        let result = answer.recv().expect("every command is answered");
        result.map_err(|error| match lock(&self.link).trouble.clone() {
            Some(trouble) => io::Error::other(format!("{error} ({trouble})")),
            None => io::Error::other(error.to_string()),
        })
    }

    /// Sets the content of the first block that is expected after a reconnect.
    pub(crate) fn set_head(&self, page: &Page) {
        *lock(&self.head) = page.clone();
    }

    fn order(&self, transfer: Transfer, origin: Origin) {
        let mut orders = lock(&self.orders);
        if orders.closed {
            drop(orders);
            let mut finished = lock(&self.finished);
            end(&mut finished, transfer.slot, origin, Err(DeviceError::Removed));
            drop(finished);
            return self.wake_driver();
        }
        orders.list.push((transfer, origin));
        drop(orders);
        self.waker.wake();
    }

    /// Returns the orders since the last call; `None` when the device is closed.
    pub(crate) fn take_orders(&self) -> Option<Vec<Order>> {
        let mut orders = lock(&self.orders);
        (!orders.closed).then(|| std::mem::take(&mut orders.list))
    }

    /// Returns the orders that were not taken before the device was closed.
    pub(crate) fn take_last_orders(&self) -> Vec<Order> {
        std::mem::take(&mut lock(&self.orders).list)
    }

    fn has_orders(&self) -> bool {
        let orders = lock(&self.orders);
        orders.closed || !orders.list.is_empty()
    }

    /// Delivers results to the threads that wait for them.
    pub(crate) fn deliver(&self, over: &mut Vec<Outcome>) {
        if over.is_empty() {
            return;
        }
        let mut finished = lock(&self.finished);
        for (item, result) in over.drain(..) {
            end(&mut finished, item.transfer.slot, item.origin, result);
        }
        drop(finished);
        self.wake_driver();
    }

    /// Wakes the client's thread; if it does not sleep, its next sleep ends at once.
    pub(crate) fn ring(&self) {
        self.waker.ring();
    }

    fn wake_driver(&self) {
        if let Some(driver) = self.driver.get() {
            driver.ring();
        }
    }

    /// Returns the timeout of commands if it differs from that of the URI.
    pub(crate) fn patience(&self) -> Option<Duration> {
        match self.patience.load(Relaxed) {
            0 => None,
            millis => Some(Duration::from_millis(millis)),
        }
    }

    /// Returns the expected content of the first block.
    pub(crate) fn head(&self) -> Page {
        lock(&self.head).clone()
    }

    /// Records a problem of the connection.
    pub(crate) fn report(&self, trouble: String) {
        lock(&self.link).trouble = Some(trouble);
    }

    /// Records a reconnect after an outage.
    pub(crate) fn record_reconnect(&self, away: Duration) {
        let mut link = lock(&self.link);
        link.reconnects += 1;
        link.trouble = None;
        drop(link);
        if let Some(report) = self.follower.0.get() {
            report(away);
        }
    }

    /// Sleeps until an order arrives, a socket is readable or (if requested) writable, or `most`
    /// has passed. Adds the indices of readable sockets to `ready`.
    pub(crate) fn sleep(&self, most: Duration, sockets: &[(RawFd, bool)], ready: &mut Vec<usize>) {
        let poll = |fd, more: bool| {
            let events = libc::POLLIN | if more { libc::POLLOUT } else { 0 };
            libc::pollfd { fd, events, revents: 0 }
        };
        let mut polls: Vec<_> = sockets.iter().map(|(fd, more)| poll(*fd, *more)).collect();
        polls.push(poll(self.waker.fd(), false));
        self.waker.fall_asleep();
        // Orders that arrived before the registration as a sleeper caused no wake.
        let most = if self.has_orders() { Duration::ZERO } else { most };
        let millis = match most {
            Duration::MAX => -1,
            most => most.as_micros().div_ceil(1000).min(60_000) as i32,
        };
        // SAFETY: valid pollfds; a poll that ends early is an ordinary wake-up.
        unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, millis) };
        self.waker.get_up();
        let spoke = |poll: &libc::pollfd| poll.revents & !libc::POLLOUT != 0;
        let sockets = polls.iter().take(sockets.len()).enumerate();
        ready.extend(sockets.filter(|(_, poll)| spoke(poll)).map(|(number, _)| number));
    }
}

/// Delivers the result of an order.
fn end(finished: &mut Vec<Finished>, slot: u32, origin: Origin, result: Result<(), DeviceError>) {
    match origin {
        // The caller may no longer exist, so an error is ignored.
        Origin::Caller(sender) => drop(sender.send(result)),
        Origin::Driver => {
            let result = result.map(|()| Verdict::default());
            finished.push(Finished { slot, result });
        }
        _ => unreachable!("the client has no waiter for its own transfers"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
