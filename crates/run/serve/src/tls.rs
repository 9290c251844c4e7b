//! TLS over a socket that one thread reads and another writes.
//!
//! Invariants
//! - Nobody waits for the socket while it has the session: a client that does not read its replies
//!   can still be read from.
//! - Records go out in the order in which the session made them.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use hostftl_core::files::{MAX_TEXT, read_whole};
use hostftl_io::read_secret;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use x509_parser::extensions::GeneralName;

use crate::channel::Socket;
use crate::error::ServeError;

/// How much is received at once, in bytes.
const AHEAD: usize = 64 << 10;

/// Where the certificates are, with the names that nbdkit and qemu give them.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The folder with `server-cert.pem` and `server-key.pem`, and `ca-cert.pem` for clients.
    pub folder: PathBuf,
    /// Whether a client needs a certificate that `ca-cert.pem` signed.
    pub verify_peer: bool,
    /// The names of which such a certificate must have one, as its common name or a DNS name; any
    /// name will do when there are none.
    pub allow: Vec<String>,
}

impl Certificates {
    /// Reads them.
    ///
    /// # Errors
    /// When a file is missing, or not what it should be.
    pub(crate) fn load(&self) -> Result<Arc<ServerConfig>, ServeError> {
        let (cert, key) = (self.folder.join("server-cert.pem"), self.folder.join("server-key.pem"));
        let chain = certificates(&cert)?;
        let secret = read_secret(&key).map_err(bad(&key))?;
        let secret = PrivateKeyDer::from_pem_slice(&secret).map_err(bad(&key))?;
        let config = ServerConfig::builder();
        let config = if self.verify_peer {
            let ca = self.folder.join("ca-cert.pem");
            let mut roots = RootCertStore::empty();
            for root in certificates(&ca)? {
                roots.add(root).map_err(bad(&ca))?;
            }
            let verifier = WebPkiClientVerifier::builder(roots.into()).build().map_err(bad(&ca))?;
            config.with_client_cert_verifier(verifier)
        } else {
            config.with_no_client_auth()
        };
        Ok(Arc::new(config.with_single_cert(chain, secret).map_err(bad(&cert))?))
    }
}

/// Certificates that can be read again while they are used. Clones share them.
#[derive(Clone, Debug)]
pub struct Secure(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    certificates: Certificates,
    now: Mutex<Arc<ServerConfig>>,
}

impl Secure {
    /// Reads the certificates.
    ///
    /// # Errors
    /// When a file is missing, or not what it should be.
    pub(crate) fn new(certificates: Certificates) -> Result<Self, ServeError> {
        let now = Mutex::new(certificates.load()?);
        Ok(Secure(Arc::new(Shared { certificates, now })))
    }

    /// Reads them again, for clients that come from now on.
    ///
    /// # Errors
    /// When they can't be used; then those of before stay.
    pub fn reload(&self) -> Result<(), ServeError> {
        let new = self.0.certificates.load()?;
        *lock(&self.0.now) = new;
        Ok(())
    }

    /// The names that a client's certificate may have.
    pub(crate) fn allow(&self) -> &[String] {
        &self.0.certificates.allow
    }

    /// What the next client gets.
    pub(crate) fn now(&self) -> Arc<ServerConfig> {
        lock(&self.0.now).clone()
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let found = CertificateDer::pem_slice_iter(&read(path)?).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(bad(path))?;
    if found.is_empty() { Err(bad(path)("there is no certificate in it")) } else { Ok(found) }
}

fn read(path: &Path) -> Result<Vec<u8>, ServeError> {
    read_whole(path, MAX_TEXT).map_err(bad(path))
}

fn bad<E: ToString>(path: &Path) -> impl Fn(E) -> ServeError {
    let path = path.to_owned();
    move |why| ServeError::Certificate { path: path.clone(), why: why.to_string() }
}

/// The common names of a certificate's subject, and its DNS names.
fn names(certificate: &[u8]) -> Vec<String> {
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(certificate) else {
        return Vec::new();
    };
    let common = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let mut all: Vec<String> = common.map(str::to_owned).collect();
    if let Ok(Some(others)) = parsed.subject_alternative_name() {
        all.extend(others.value.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        }));
    }
    all
}

/// See the module text.
#[derive(Debug)]
pub(crate) struct Tls<'a> {
    socket: &'a Socket,
    session: Mutex<ServerConnection>,
    /// Records that were received and not yet understood; only the reading thread has it.
    received: Mutex<Received>,
    /// Records that are not sent yet.
    unsent: Mutex<Vec<u8>>,
}

#[derive(Debug)]
struct Received {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
}

impl<'a> Tls<'a> {
    /// Shakes hands.
    ///
    /// # Errors
    /// When the client and this server can't agree, or the connection breaks.
    pub(crate) fn begin(socket: &'a Socket, config: &Arc<ServerConfig>) -> io::Result<Self> {
        let mut session = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        let mut both = socket;
        while session.is_handshaking() {
            session.complete_io(&mut both)?;
        }
        let received = Received { bytes: vec![0; AHEAD].into(), from: 0, to: 0 };
        Ok(Tls {
            socket,
            session: Mutex::new(session),
            received: Mutex::new(received),
            unsent: Mutex::new(Vec::new()),
        })
    }

    pub(crate) fn socket(&self) -> &'a Socket {
        self.socket
    }

    /// Whether the client's certificate has one of the names `allow`, if there are any.
    ///
    /// # Errors
    /// When it has none of them.
    pub(crate) fn check_names(&self, allow: &[String]) -> io::Result<()> {
        if allow.is_empty() {
            return Ok(());
        }
        let session = lock(&self.session);
        let own = session.peer_certificates().and_then(|chain| chain.first());
        let names = own.map(|certificate| names(certificate)).unwrap_or_default();
        if names.iter().any(|name| allow.contains(name)) {
            return Ok(());
        }
        let names = names.join(", ");
        let why = format!("turned away: its certificate is for {names:?}, which is not allowed");
        Err(io::Error::new(ErrorKind::PermissionDenied, why))
    }

    /// Tells the client that this was all.
    pub(crate) fn end(&self) {
        lock(&self.session).send_close_notify();
        // A client that has hung up already does not need to know.
        self.flush().ok();
    }

    /// Receives into `into`; 0 at the end.
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut received = lock(&self.received);
        loop {
            let mut session = lock(&self.session);
            match session.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            let Received { bytes, from, to } = &mut *received;
            if from < to {
                *from += session.read_tls(&mut &bytes[*from..*to])?;
                session.process_new_packets().map_err(io::Error::other)?;
                continue;
            }
            drop(session);
            let mut socket = self.socket;
            (*from, *to) = (0, socket.read(bytes)?);
            if *to == 0 {
                // The session tells whether the client said goodbye before.
                lock(&self.session).read_tls(&mut io::empty())?;
            }
        }
    }

    /// Takes some of `from`; what it took is sent now or by the next call.
    pub(crate) fn write_vectored(&self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut unsent = lock(&self.unsent);
        self.send(&mut unsent)?;
        let mut session = lock(&self.session);
        let taken = session.writer().write_vectored(from)?;
        drain(&mut session, &mut unsent)?;
        drop(session);
        match self.send(&mut unsent) {
            Err(error) if !is_slow(&error) => Err(error),
            _ => Ok(taken),
        }
    }

    /// Sends what is left.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut unsent = lock(&self.unsent);
        drain(&mut lock(&self.session), &mut unsent)?;
        self.send(&mut unsent)
    }

    fn send(&self, unsent: &mut Vec<u8>) -> io::Result<()> {
        let mut socket = self.socket;
        while !unsent.is_empty() {
            match socket.write(unsent) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => drop(unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Takes the records that a session wants to send.
fn drain(session: &mut ServerConnection, unsent: &mut Vec<u8>) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(unsent)?;
    }
    Ok(())
}

/// Whether a client only takes its time.
pub(crate) fn is_slow(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
