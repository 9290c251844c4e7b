//! The server: accepts clients until it is told to stop.
//!
//! Invariants
//! - A connection is in the registry before the stop flag is looked at, and the flag is set before
//!   the registry is walked: no connection misses a stop.
//! - [`Server::run`] returns when every connection is closed and every answer has come.

use std::io::{self, Write};
use std::net::Shutdown;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

use crate::address::Address;
use crate::budget::Budget;
use crate::connection::Service;
use crate::error::ServeError;
use crate::listen::{Alarm, Listening};
use crate::piece::CONTEXTS;
use crate::registry::{HANDSHAKE, Registry};
use crate::tls::{Certificates, Secure};
use crate::witness::Witness;
use hostftl_core::{BLOCK, SECTOR};
use hostftl_nbd_proto::flags::{
    CAN_MULTI_CONN, HAS_FLAGS, READ_ONLY, SEND_CACHE, SEND_FAST_ZERO, SEND_FLUSH, SEND_FUA,
    SEND_TRIM, SEND_WRITE_ZEROES,
};
use hostftl_nbd_proto::{BlockSizes, Held, Offer, Tls};
use hostftl_volume::front::{CLIENTS_BYTES, Export, Port};
use hostftl_volume::{Events, Level};

/// How long clients may take to read their last replies after a stop.
const GRACE: Duration = Duration::from_secs(10);
/// How long to wait when the process is out of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// What is served, and where.
#[derive(Debug)]
pub struct Options {
    /// Where to listen.
    pub address: Address,
    /// The volume.
    pub port: Port,
    /// Whether clients must come under TLS, and with what.
    pub tls: Option<Certificates>,
    /// Sees every request that can be done.
    pub witness: Option<Arc<dyn Witness>>,
    /// Hears of clients that broke the protocol or were turned away.
    pub events: Events,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    options: Options,
    listening: Listening,
    secure: Option<Secure>,
    budget: Budget,
    stopper: Stopper,
}

/// What a server did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Clients that connected.
    pub connections: u64,
    /// Requests that they made.
    pub requests: u64,
}

/// Stops a server, from any thread. Clones stop the same one.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stopping: AtomicBool,
    registry: Registry,
    /// Wakes the thread that accepts.
    alarm: Alarm,
}

impl Stopper {
    /// Stops accepting and reading. What is in flight will be answered, then [`Server::run`] ends.
    pub fn stop(&self) {
        self.0.stopping.store(true, Ordering::SeqCst);
        self.0.alarm.ring();
        self.0.registry.shut(Shutdown::Read);
    }

    fn stopping(&self) -> bool {
        self.0.stopping.load(Ordering::SeqCst)
    }
}

impl Server {
    /// Listens. Clients may connect from now on; they are served by [`Server::run`].
    ///
    /// # Errors
    /// When the address is in use or can't be used, or a certificate can't.
    pub fn bind(options: Options) -> Result<Self, ServeError> {
        let secure = options.tls.clone().map(Secure::new).transpose()?;
        let listening = Listening::new(&options.address)?;
        let alarm = listening.alarm().map_err(|error| ServeError::Io {
            path: options.address.to_string().into(),
            doing: "can't share the socket",
            error,
        })?;
        let (stopping, budget) = (AtomicBool::new(false), Budget::new(CLIENTS_BYTES));
        let shared = Shared { stopping, registry: Registry::default(), alarm };
        Ok(Server { options, listening, secure, budget, stopper: Stopper(Arc::new(shared)) })
    }

    /// What reads the certificates again; none where nobody comes under TLS.
    pub fn secure(&self) -> Option<Secure> {
        self.secure.clone()
    }

    /// The handle that stops this server.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Writes the line `ready URI` to `ready` and serves until stopped. Then the socket is gone.
    ///
    /// # Errors
    /// When the line can't be written or the socket fails; clients are answered first all the same.
    pub fn run(self, ready: &mut dyn Write) -> Result<Served, ServeError> {
        let failed = |doing| {
            let path = self.options.address.to_string().into();
            move |error| ServeError::Io { path, doing, error }
        };
        let export = self.options.port.export();
        // Whoever uses the URI means this generation of the volume, and not an earlier one.
        let name = export.held.as_ref().map_or("", |_| &export.name);
        let uri = self.listening.uri(self.secure.is_some(), name);
        let announced = writeln!(ready, "ready {uri}");
        announced.and_then(|()| ready.flush()).map_err(failed("can't say that it is ready"))?;
        let offer = offer(self.options.port.export(), self.secure.is_some());
        let requests = AtomicU64::new(0);
        let registry = &self.stopper.0.registry;
        let accepted = thread::scope(|scope| {
            let watch = || {
                registry.watch(HANDSHAKE, |number| {
                    let seconds = HANDSHAKE.as_secs();
                    self.tell(format!("client {number}: no handshake within {seconds} s"));
                });
            };
            let watching = thread::Builder::new().name("handshakes".into());
            watching.spawn_scoped(scope, watch)?;
            let accepted = self.accept(scope, &offer, &requests);
            self.stopper.stop();
            registry.wait(GRACE);
            registry.shut(Shutdown::Both);
            registry.close();
            accepted
        });
        let connections = accepted.map_err(failed("can't accept clients"))?;
        Ok(Served { connections, requests: requests.into_inner() })
    }

    fn tell(&self, text: impl Into<String>) {
        self.options.events.tell(Level::Info, "client", text);
    }

    /// Gives every client a thread; returns how many there were when it is stopped.
    fn accept<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        offer: &'env Offer,
        requests: &'env AtomicU64,
    ) -> io::Result<u64> {
        let mut number = 0;
        let registry = &self.stopper.0.registry;
        loop {
            let stream = match self.listening.accept() {
                _ if self.stopper.stopping() => return Ok(number),
                Ok(stream) => Arc::new(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) if is_passing(&error) => {
                    self.tell(format!("a client could not connect: {error}"));
                    thread::sleep(PAUSE);
                    continue;
                }
                Err(error) => return Err(error),
            };
            number += 1;
            if let Some(oldest) = registry.insert(number, stream.clone()) {
                self.tell(format!("client {oldest}: too many others shake hands"));
            }
            if self.stopper.stopping() {
                registry.shut(Shutdown::Read);
            }
            let serve = move || {
                let service = Service {
                    port: &self.options.port,
                    offer,
                    secure: self.secure.as_ref().map(Secure::now),
                    allow: self.secure.as_ref().map_or(&[], Secure::allow),
                    stopping: &self.stopper.0.stopping,
                    witness: self.options.witness.as_deref(),
                    budget: &self.budget,
                    admit: &|| registry.promote(number),
                };
                // A panic here is the end of this client; one in the driver ends the process, to
                // which whoever runs the server sees.
                match catch_unwind(AssertUnwindSafe(|| service.serve(&stream))) {
                    Ok(Ok(taken)) => drop(requests.fetch_add(taken, Ordering::Relaxed)),
                    Ok(Err(error)) => self.tell(format!("client {number}: {error}")),
                    Err(_) => self.tell(format!("client {number}: cut off by a panic")),
                }
                stream.shutdown(Shutdown::Both).ok();
                registry.remove(number);
            };
            let client = thread::Builder::new().name("client".into());
            if let Err(error) = client.spawn_scoped(scope, serve) {
                // What the thread would have had is closed with it.
                registry.remove(number);
                self.tell(format!("client {number}: turned away, no thread can be made: {error}"));
            }
        }
    }
}

/// Whether accepting may work again in a moment.
fn is_passing(error: &io::Error) -> bool {
    const PASSING: [i32; 14] = [
        libc::EINTR,
        libc::EAGAIN,
        libc::ECONNABORTED,
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOBUFS,
        libc::ENOMEM,
        libc::EPERM,
        libc::EPROTO,
        // Errors of a connection that is not there yet, which accept(2) passes on.
        libc::ENETDOWN,
        libc::ENETUNREACH,
        libc::EHOSTDOWN,
        libc::EHOSTUNREACH,
        libc::EOPNOTSUPP,
    ];
    error.raw_os_error().is_some_and(|number| PASSING.contains(&number))
}

fn offer(export: &Export, secure: bool) -> Offer {
    let writes = match export.read_only {
        true => READ_ONLY,
        false => SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO,
    };
    let flags = HAS_FLAGS | writes | SEND_FLUSH | SEND_CACHE | CAN_MULTI_CONN;
    Offer {
        name: export.name.clone(),
        also: export.also.clone(),
        held: export.held.clone().map(|(name, why)| Held { name, why }),
        description: "HostFTL volume".into(),
        bytes: export.bytes,
        flags,
        block: BlockSizes { min: SECTOR as u32, preferred: BLOCK as u32, max: export.max_transfer },
        contexts: CONTEXTS.to_vec(),
        tls: if secure { Tls::Required } else { Tls::No },
    }
}
