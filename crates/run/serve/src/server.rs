//! NBD server: accepts clients until it is stopped.
//!
//! Invariants
//! - A connection is registered before the stop flag is checked, and the flag is set before the
//!   registry is walked; so no connection misses a stop.
//! - [`Server::run`] returns when every connection is closed and every request is answered.

use std::collections::BTreeSet;
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
use crate::limit::{Limits, Throttle};
use crate::listen::{Alarm, Listening};
use crate::registry::{HANDSHAKE, Registry};
use crate::reply_part::CONTEXTS;
use crate::socket::SocketOwner;
use crate::tls::{Certificates, Secure};
use crate::witness::RequestObserver;
use hostftl_core::{BLOCK, SECTOR};
use hostftl_nbd_proto::flags::{
    CAN_MULTI_CONN, HAS_FLAGS, READ_ONLY, SEND_CACHE, SEND_FAST_ZERO, SEND_FLUSH, SEND_FUA,
    SEND_TRIM, SEND_WRITE_ZEROES,
};
use hostftl_nbd_proto::{BlockSizes, HeldName, Offer, Tls};
use hostftl_volume::front::{CLIENTS_BYTES, Export, Port};
use hostftl_volume::{Events, Level};

/// Time for clients to receive their last replies after a stop.
const GRACE: Duration = Duration::from_secs(10);
/// Pause when the process is out of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Options of a server.
#[derive(Debug)]
pub struct Options {
    /// Address to listen on.
    pub address: Address,
    /// Mode and group of a unix socket that the server creates.
    pub owner: SocketOwner,
    /// Certificates, if clients must use TLS.
    pub tls: Option<Certificates>,
    /// Volumes with different names. Events about clients that have not chosen an export are
    /// recorded with the first volume.
    pub exports: Vec<Exported>,
}

/// Volume that is served.
#[derive(Debug)]
pub struct Exported {
    /// Port of the volume.
    pub port: Port,
    /// Observer of every accepted request.
    pub witness: Option<Arc<dyn RequestObserver>>,
    /// Receives events about clients that broke the protocol or were refused.
    pub events: Events,
    /// Rate limits of its clients.
    pub limits: Limits,
}

/// Volume with the state shared by its clients.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) exported: Exported,
    /// Memory shared by all clients, in addition to the volume's buffers.
    pub(crate) budget: Budget,
    pub(crate) throttle: Throttle,
}

impl Options {
    /// Creates options for one volume, with default permissions and without TLS.
    pub fn new(address: Address, port: Port) -> Self {
        let exports = vec![Exported::new(port)];
        Options { address, owner: SocketOwner::default(), tls: None, exports }
    }
}

impl Exported {
    /// Creates an export without limits, whose events are not recorded.
    pub fn new(port: Port) -> Self {
        let (events, limits) = (Events::default(), Limits::default());
        Exported { port, witness: None, events, limits }
    }
}

/// Listening server.
#[derive(Debug)]
pub struct Server {
    address: Address,
    exports: Vec<Open>,
    listening: Listening,
    secure: Option<Secure>,
    stopper: Stopper,
}

/// Totals of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Number of clients that connected.
    pub connections: u64,
    /// Number of their requests.
    pub requests: u64,
}

/// Handle that stops a server from any thread; clones stop the same server.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stopping: AtomicBool,
    registry: Registry,
    /// Wakes the accepting thread.
    alarm: Alarm,
}

impl Stopper {
    /// Stops accepting and reading. Requests in flight are still answered, then [`Server::run`]
    /// returns.
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
    /// Starts listening. Clients may connect from now on; [`Server::run`] serves them.
    ///
    /// # Errors
    /// When the address is in use or cannot be used, or a certificate cannot be used.
    pub fn bind(options: Options) -> Result<Self, ServeError> {
        let Options { address, owner, tls, exports } = options;
        refuse_alike(&exports)?;
        let secure = tls.map(Secure::new).transpose()?;
        let listening = Listening::new(&address, &owner)?;
        let alarm = listening.alarm().map_err(|error| ServeError::Io {
            path: address.to_string().into(),
            doing: "cannot share the socket",
            error,
        })?;
        let open = |exported: Exported| {
            let throttle = Throttle::new(exported.limits);
            Open { exported, budget: Budget::new(CLIENTS_BYTES), throttle }
        };
        let exports: Vec<_> = exports.into_iter().map(open).collect();
        let (stopping, registry) = (AtomicBool::new(false), Registry::default());
        let stopper = Stopper(Arc::new(Shared { stopping, registry, alarm }));
        Ok(Server { address, exports, listening, secure, stopper })
    }

    /// Returns the handle that reloads the certificates; `None` without TLS.
    pub fn secure(&self) -> Option<Secure> {
        self.secure.clone()
    }

    /// Returns the handle that stops this server.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Writes a line `ready URI` for each volume to `ready` and serves until stopped. The socket is
    /// removed on return.
    ///
    /// # Errors
    /// When the line cannot be written or the socket fails. Clients are answered first in both
    /// cases.
    pub fn run(self, ready: &mut dyn Write) -> Result<Served, ServeError> {
        let failed = |doing| {
            let path = self.address.to_string().into();
            move |error| ServeError::Io { path, doing, error }
        };
        let mut uris = self.uris().into_iter();
        let announced = uris.try_for_each(|uri| writeln!(ready, "ready {uri}"));
        announced.and_then(|()| ready.flush()).map_err(failed("cannot print the ready line"))?;
        let requests = AtomicU64::new(0);
        let registry = &self.stopper.0.registry;
        let accepted = thread::scope(|scope| {
            let watch = || {
                registry.watch(HANDSHAKE, |number| {
                    let seconds = HANDSHAKE.as_secs();
                    self.report(format!("client {number}: no handshake within {seconds} s"));
                });
            };
            let watching = thread::Builder::new().name("handshakes".into());
            watching.spawn_scoped(scope, watch)?;
            let accepted = self.accept(scope, &requests);
            self.stopper.stop();
            registry.wait(GRACE);
            registry.shut(Shutdown::Both);
            registry.close();
            accepted
        });
        let connections = accepted.map_err(failed("cannot accept clients"))?;
        Ok(Served { connections, requests: requests.into_inner() })
    }

    /// Returns the URIs of the volumes.
    fn uris(&self) -> Vec<String> {
        let alone = self.exports.len() == 1;
        let uri = |open: &Open| {
            let export = open.exported.port.export();
            // With a held name the URI must name this generation of the volume; the plain name
            // would be refused.
            let name = if alone && export.held.is_none() { "" } else { &export.name };
            self.listening.uri(self.secure.is_some(), name)
        };
        self.exports.iter().map(uri).collect()
    }

    fn offer(&self, open: &Open) -> Offer {
        offer(&open.exported.port.export(), self.secure.is_some())
    }

    fn report(&self, text: impl Into<String>) {
        self.report_to(0, text);
    }

    fn report_to(&self, export: usize, text: impl Into<String>) {
        self.exports[export].exported.events.report(Level::Info, "client", text);
    }

    /// Starts a thread for every client until the server is stopped; returns the number of clients.
    fn accept<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
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
                    self.report(format!("a client could not connect: {error}"));
                    thread::sleep(PAUSE);
                    continue;
                }
                Err(error) => return Err(error),
            };
            number += 1;
            if let Some(oldest) = registry.insert(number, stream.clone()) {
                self.report(format!("client {oldest}: too many handshakes"));
            }
            // The stop may have walked the registry just before this client was inserted.
            if self.stopper.stopping() {
                registry.shut(Shutdown::Read);
            }
            let serve = move || {
                // Offers are made for each client, because volumes change while they are served.
                let offers: Vec<_> = self.exports.iter().map(|it| self.offer(it)).collect();
                let service = Service {
                    exports: &self.exports,
                    offers: &offers,
                    secure: self.secure.as_ref().map(Secure::now),
                    allow: self.secure.as_ref().map_or(&[], Secure::allow),
                    stopping: &self.stopper.0.stopping,
                    admit: &|export| registry.promote(number, export),
                };
                // A panic in this thread ends only this client. A panic in the driver ends the
                // process, which is handled where the server is started.
                let mut chosen = 0;
                let served = || service.serve(&stream, &mut chosen);
                match catch_unwind(AssertUnwindSafe(served)) {
                    Ok(Ok(taken)) => drop(requests.fetch_add(taken, Ordering::Relaxed)),
                    Ok(Err(error)) => self.report_to(chosen, format!("client {number}: {error}")),
                    Err(_) => self.report_to(
                        chosen,
                        format!(
                            "client {number}: disconnected by a \
                                                            panic"
                        ),
                    ),
                }
                stream.shutdown(Shutdown::Both).ok();
                registry.remove(number);
            };
            let client = thread::Builder::new().name("client".into());
            if let Err(error) = client.spawn_scoped(scope, serve) {
                // The resources of the closure are released with it.
                registry.remove(number);
                self.report(format!("client {number}: rejected, cannot start a thread: {error}"));
            }
        }
    }
}

/// Refuses volumes with the same name, because clients select a volume by its name.
fn refuse_alike(exports: &[Exported]) -> Result<(), ServeError> {
    assert!(!exports.is_empty(), "a server serves something");
    let names = |one: &Exported| {
        let export = one.port.export();
        let held = export.held.iter().map(|(name, _)| name.clone());
        held.chain(export.also.clone()).chain([export.name.clone()]).collect::<Vec<_>>()
    };
    let mut seen = BTreeSet::new();
    for name in exports.iter().flat_map(names) {
        if !seen.insert(name.clone()) {
            return Err(ServeError::Alike(name));
        }
    }
    Ok(())
}

/// Returns whether accepting may succeed again soon.
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
        // Errors of the incoming connection that accept(2) passes on.
        libc::ENETDOWN,
        libc::ENETUNREACH,
        libc::EHOSTDOWN,
        libc::EHOSTUNREACH,
        libc::EOPNOTSUPP,
    ];
    error.raw_os_error().is_some_and(|number| PASSING.contains(&number))
}

fn offer(export: &Export, secure: bool) -> Offer {
    let writes = if export.read_only {
        READ_ONLY
    } else {
        SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO
    };
    let flags = HAS_FLAGS | writes | SEND_FLUSH | SEND_CACHE | CAN_MULTI_CONN;
    Offer {
        name: export.name.clone(),
        also: export.also.clone(),
        held: export.held.clone().map(|(name, why)| HeldName { name, why }),
        description: "HostFTL volume".into(),
        bytes: export.bytes,
        flags,
        block: BlockSizes { min: SECTOR as u32, preferred: BLOCK as u32, max: export.max_transfer },
        contexts: CONTEXTS.to_vec(),
        tls: if secure { Tls::Required } else { Tls::No },
    }
}
