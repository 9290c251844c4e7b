//! What a device holds of a server: orders go in, their ends come out.
//!
//! Invariants
//! - Whoever adds an order wakes the client's thread; it wakes the driver when orders are over.
//! - The memory of an order stays until it is over, or the remote is dropped.

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

use super::claim::Claim;
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
    _claim: Claim,
}

/// What the thread and the others share.
#[derive(Debug)]
pub(crate) struct Shared {
    orders: Mutex<Orders>,
    waker: Waker,
    finished: Mutex<Vec<Finished>>,
    driver: OnceLock<Arc<Waker>>,
    /// The first block of the export, by which it is known again.
    head: Mutex<Page>,
    link: Mutex<Link>,
    /// Who wants to know that the server is there again.
    follower: Follower,
    /// How long a command may take, in ms; 0 = as the URI says.
    patience: AtomicU64,
}

/// Who is told of a server that is there again, after so long a time.
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

/// Tells how a device's connection is, from any thread.
#[derive(Clone, Debug)]
pub struct LinkWatch(Arc<Shared>);

impl LinkWatch {
    /// How it is now.
    pub fn link(&self) -> Link {
        lock(&self.0.link).clone()
    }

    /// Calls `tell` whenever the connection was made again, with the time that it was away. It is
    /// called by the client's thread, and must not block. Only the first follower counts.
    pub fn follow(&self, tell: impl Fn(Duration) + Send + Sync + 'static) {
        self.0.follower.0.set(Box::new(tell)).ok();
    }
}

/// How the connection to a server is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// How often it broke and was made again.
    pub reconnects: u64,
    /// What is wrong with it now.
    pub trouble: Option<String>,
}

impl Remote {
    /// Calls the server.
    pub(crate) fn open(name: &str, uri: Uri) -> Result<Self, IoError> {
        let system = |what| {
            let name = name.to_owned();
            move |source| IoError::System { name, what, source }
        };
        let dialing = Dialing::begin(uri.clone(), uri.timeout.min(HANDSHAKE), || {});
        let dialed = dialing.and_then(Dialing::wait);
        // A server that was given up because of a signal is not one that is gone.
        cancel::check(name)?;
        let (lines, export, head, place) = dialed.map_err(system("use the NBD server"))?;
        let claim = Claim::new(name, &uri, (place, export.name.as_deref()))?;
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

    /// The length of the export in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// From now on `driver` is woken when a transfer that was put in is over.
    pub(crate) fn listen(&self, driver: Arc<Waker>) {
        let first = self.shared.driver.get_or_init(|| driver.clone());
        assert!(Arc::ptr_eq(first, &driver), "the same waker wakes all drivers of a device");
    }

    /// Begins a transfer for the driver.
    pub(crate) fn put(&self, transfer: Transfer) {
        self.shared.order(transfer, Origin::Driver);
    }

    /// Moves what is over to the end of `list`.
    pub(crate) fn collect(&self, list: &mut VecDeque<Finished>) {
        list.extend(lock(&self.shared.finished).drain(..));
    }

    /// Whether something is over.
    pub(crate) fn has_finished(&self) -> bool {
        !lock(&self.shared.finished).is_empty()
    }

    /// Does a transfer, and waits for its end.
    pub(crate) fn run(&self, transfer: Transfer) -> io::Result<()> {
        self.shared.run(transfer)
    }

    /// The first block of the export is this now.
    pub(crate) fn set_head(&self, page: &Page) {
        self.shared.set_head(page);
    }

    /// From now on a command may take so long.
    pub(crate) fn set_deadline(&self, most: Duration) {
        self.shared.patience.store(most.as_millis() as u64, Relaxed);
    }

    /// What other threads may use, also when the remote is gone.
    pub(crate) fn share(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Tells how the connection is.
    pub(crate) fn watch(&self) -> LinkWatch {
        LinkWatch(self.shared.clone())
    }

    /// Hangs up: what is under way ends with an error.
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
    /// Does a transfer, and waits for its end.
    pub(crate) fn run(&self, transfer: Transfer) -> io::Result<()> {
        let (sender, answer) = channel();
        self.order(transfer, Origin::Caller(sender));
        let result = answer.recv().expect("every order is answered");
        result.map_err(|error| match lock(&self.link).trouble.clone() {
            Some(trouble) => io::Error::other(format!("{error} ({trouble})")),
            None => io::Error::other(error.to_string()),
        })
    }

    /// The first block of the export is this now.
    pub(crate) fn set_head(&self, page: &Page) {
        *lock(&self.head) = page.clone();
    }

    fn order(&self, transfer: Transfer, origin: Origin) {
        let mut orders = lock(&self.orders);
        if orders.closed {
            drop(orders);
            let mut finished = lock(&self.finished);
            end(&mut finished, transfer.slot, origin, Err(DeviceError::Gone));
            drop(finished);
            return self.wake_driver();
        }
        orders.list.push((transfer, origin));
        drop(orders);
        self.waker.wake();
    }

    /// The orders that came since the last call; `None` when the device is closed.
    pub(crate) fn take_orders(&self) -> Option<Vec<Order>> {
        let mut orders = lock(&self.orders);
        (!orders.closed).then(|| std::mem::take(&mut orders.list))
    }

    /// The orders that nobody took before the device was closed.
    pub(crate) fn take_last_orders(&self) -> Vec<Order> {
        std::mem::take(&mut lock(&self.orders).list)
    }

    fn has_orders(&self) -> bool {
        let orders = lock(&self.orders);
        orders.closed || !orders.list.is_empty()
    }

    /// Tells those who wait what came of their orders.
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

    /// Wakes the client's thread, or its next sleep ends at once.
    pub(crate) fn ring(&self) {
        self.waker.ring();
    }

    fn wake_driver(&self) {
        if let Some(driver) = self.driver.get() {
            driver.ring();
        }
    }

    /// How long a command may take, if not as long as the URI says.
    pub(crate) fn patience(&self) -> Option<Duration> {
        match self.patience.load(Relaxed) {
            0 => None,
            millis => Some(Duration::from_millis(millis)),
        }
    }

    /// The first block of the export, as it should be.
    pub(crate) fn head(&self) -> Page {
        lock(&self.head).clone()
    }

    /// What is wrong now.
    pub(crate) fn tell(&self, trouble: String) {
        lock(&self.link).trouble = Some(trouble);
    }

    /// The server is there again, after so long a time.
    pub(crate) fn found_again(&self, away: Duration) {
        let mut link = lock(&self.link);
        link.reconnects += 1;
        link.trouble = None;
        drop(link);
        if let Some(tell) = self.follower.0.get() {
            tell(away);
        }
    }

    /// Sleeps until orders come, a socket has something or can take more, or `most` is over. The
    /// places of sockets with something go to `ready`.
    pub(crate) fn sleep(&self, most: Duration, sockets: &[(RawFd, bool)], ready: &mut Vec<usize>) {
        let poll = |fd, more: bool| {
            let events = libc::POLLIN | if more { libc::POLLOUT } else { 0 };
            libc::pollfd { fd, events, revents: 0 }
        };
        let mut polls: Vec<_> = sockets.iter().map(|(fd, more)| poll(*fd, *more)).collect();
        polls.push(poll(self.waker.fd(), false));
        self.waker.fall_asleep();
        let most = if self.has_orders() { Duration::ZERO } else { most };
        let millis = match most {
            Duration::MAX => -1,
            most => most.as_micros().div_ceil(1000).min(60_000) as i32,
        };
        // SAFETY: valid pollfds; a poll that ends early is a wake-up like any other.
        unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, millis) };
        self.waker.get_up();
        let spoke = |poll: &libc::pollfd| poll.revents & !libc::POLLOUT != 0;
        let sockets = polls.iter().take(sockets.len()).enumerate();
        ready.extend(sockets.filter(|(_, poll)| spoke(poll)).map(|(number, _)| number));
    }
}

/// Tells whoever waits for an order what came of it.
fn end(finished: &mut Vec<Finished>, slot: u32, origin: Origin, result: Result<(), DeviceError>) {
    match origin {
        // A caller that is gone does not need to know.
        Origin::Caller(sender) => drop(sender.send(result)),
        Origin::Driver => {
            let result = result.map(|()| Verdict::default());
            finished.push(Finished { slot, result });
        }
        _ => unreachable!("nobody waits for the client's own"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
