//! TLS over a socket that one thread reads and another writes.
//!
//! Invariants
//! - A thread never waits for the socket while it holds the session lock, so requests of a client
//!   that does not read its replies can still be received.
//! - Records are sent in the order in which the session created them.

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

/// Size of the receive buffer in bytes.
const AHEAD: usize = 64 << 10;

/// Location of the certificates, with the file names of nbdkit and qemu.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// Directory with `server-cert.pem` and `server-key.pem`, and `ca-cert.pem` to verify clients.
    pub folder: PathBuf,
    /// Whether clients need a certificate signed by `ca-cert.pem`.
    pub verify_peer: bool,
    /// Permitted common names or DNS names of client certificates; empty permits any name.
    pub allow: Vec<String>,
}

impl Certificates {
    /// Reads the certificates.
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

/// Certificates that can be reloaded while they are used; clones share them.
#[derive(Clone, Debug)]
pub struct Secure(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    certificates: Certificates,
    now: Mutex<Arc<ServerConfig>>,
}

impl Secure {
    /// Reads the certificates.
    pub(crate) fn new(certificates: Certificates) -> Result<Self, ServeError> {
        let now = Mutex::new(certificates.load()?);
        Ok(Secure(Arc::new(Shared { certificates, now })))
    }

    /// Reads the certificates again, for clients that connect from now on.
    ///
    /// # Errors
    /// When they cannot be used; the previous ones then stay in use.
    pub fn reload(&self) -> Result<(), ServeError> {
        let new = self.0.certificates.load()?;
        *lock(&self.0.now) = new;
        Ok(())
    }

    /// Returns the permitted names of client certificates.
    pub(crate) fn allow(&self) -> &[String] {
        &self.0.certificates.allow
    }

    /// Returns the configuration for the next client.
    pub(crate) fn now(&self) -> Arc<ServerConfig> {
        lock(&self.0.now).clone()
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let found = CertificateDer::pem_slice_iter(&read(path)?).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(bad(path))?;
    if found.is_empty() { Err(bad(path)("it has no certificate")) } else { Ok(found) }
}

fn read(path: &Path) -> Result<Vec<u8>, ServeError> {
    read_whole(path, MAX_TEXT).map_err(bad(path))
}

fn bad<E: ToString>(path: &Path) -> impl Fn(E) -> ServeError {
    let path = path.to_owned();
    move |why| ServeError::Certificate { path: path.clone(), why: why.to_string() }
}

/// Returns the common names and DNS names of a certificate.
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

/// Checks that the certificate of a session's client has one of the names in `allow`, if there are
/// any.
pub(crate) fn check_names(session: &ServerConnection, allow: &[String]) -> io::Result<()> {
    if allow.is_empty() {
        return Ok(());
    }
    let own = session.peer_certificates().and_then(|chain| chain.first());
    let names = own.map(|certificate| names(certificate)).unwrap_or_default();
    if names.iter().any(|name| allow.contains(name)) {
        return Ok(());
    }
    let names = names.join(", ");
    let why = format!("rejected: its certificate is for {names:?}, which is not allowed");
    Err(io::Error::new(ErrorKind::PermissionDenied, why))
}

/// TLS session of one client.
#[derive(Debug)]
pub(crate) struct Tls<'a> {
    socket: &'a Socket,
    session: Mutex<ServerConnection>,
    /// Received records that are not processed yet; used only by the reading thread.
    received: Mutex<Received>,
    /// Encrypted records that are not sent yet.
    unsent: Mutex<Vec<u8>>,
}

#[derive(Debug)]
struct Received {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
}

impl<'a> Tls<'a> {
    /// Performs the handshake.
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

    /// Checks that the client's certificate has one of the names in `allow`, if there are any.
    pub(crate) fn check_names(&self, allow: &[String]) -> io::Result<()> {
        check_names(&lock(&self.session), allow)
    }

    /// Sends the close notification of TLS.
    pub(crate) fn end(&self) {
        lock(&self.session).send_close_notify();
        // The client may have disconnected already.
        self.flush().ok();
    }

    /// Receives into `into`; returns 0 at the end.
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
                // At the end of the stream, the session checks whether the client closed it
                // properly.
                lock(&self.session).read_tls(&mut io::empty())?;
            }
        }
    }

    /// Accepts part of `from`. Accepted bytes are sent now or by the next call.
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

    /// Sends the remaining records.
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

/// Moves the records that the session wants to send to `unsent`.
fn drain(session: &mut ServerConnection, unsent: &mut Vec<u8>) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(unsent)?;
    }
    Ok(())
}

/// Returns whether the error means that the client is slow, not disconnected.
pub(crate) fn is_slow(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
