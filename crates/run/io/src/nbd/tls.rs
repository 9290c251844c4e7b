//! TLS to a server: certificates, and a session over a non-blocking socket.
//!
//! Invariant: encrypted data that the socket has not accepted is sent before any other data.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::path::Path;
use std::sync::Arc;

use hostftl_core::files::{MAX_TEXT, read_whole};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::uri::Security;
use crate::secret::read_secret;

#[derive(Debug)]
pub(super) struct Session(Box<ClientConnection>);

impl Session {
    /// Negotiates TLS over a socket that waits.
    pub(super) fn begin<S: Read + Write>(security: &Security, socket: &mut S) -> io::Result<Self> {
        let name = ServerName::try_from(security.name.clone());
        let name = name.map_err(|why| bad(&security.name)(why.to_string()))?;
        let session = ClientConnection::new(config(&security.folder)?, name);
        let mut session = session.map_err(io::Error::other)?;
        while session.is_handshaking() {
            let step = session.complete_io(socket);
            step.map_err(|error| io::Error::new(error.kind(), format!("TLS: {error}")))?;
        }
        Ok(Session(session.into()))
    }

    /// Receives available data; returns 0 at the end of the stream.
    pub(super) fn read<S: Read + Write>(
        &mut self,
        socket: &mut S,
        into: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        loop {
            match self.take(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            // At the end of the stream the session checks whether the server closed it cleanly.
            self.0.read_tls(socket)?;
            self.0.process_new_packets().map_err(io::Error::other)?;
            // The session may have a message to send, such as a key update.
            self.flush(socket)?;
        }
    }

    /// Takes decrypted data from the session.
    fn take(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut all = 0;
        for slice in into.iter_mut().filter(|slice| !slice.is_empty()) {
            match self.0.reader().read(slice) {
                Err(error) if all > 0 && error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
                Ok(0) => break,
                Ok(got) if got < slice.len() => return Ok(all + got),
                Ok(got) => all += got,
            }
        }
        Ok(all)
    }

    /// Accepts some of `from`, which is sent now or by the next call.
    pub(super) fn write<S: Write>(
        &mut self,
        socket: &mut S,
        from: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        self.flush(socket)?;
        // Limits the amount of data that the session buffers.
        if self.has_more() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let taken = self.0.writer().write_vectored(from)?;
        self.flush(socket)?;
        Ok(taken)
    }

    /// Returns whether data waits to be sent.
    pub(super) fn has_more(&self) -> bool {
        self.0.wants_write()
    }

    /// Sends pending data, as much as the socket accepts.
    pub(super) fn flush<S: Write>(&mut self, socket: &mut S) -> io::Result<()> {
        while self.0.wants_write() {
            match self.0.write_tls(socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends the close notification.
    pub(super) fn end<S: Write>(&mut self, socket: &mut S) {
        self.0.send_close_notify();
        // An error is ignored: the server may have closed the connection already.
        self.flush(socket).ok();
    }
}

/// Reads the certificates of a directory into a client configuration.
fn config(folder: &Path) -> io::Result<Arc<ClientConfig>> {
    let authority = folder.join("ca-cert.pem");
    let mut roots = RootCertStore::empty();
    for root in certificates(&authority)? {
        roots.add(root).map_err(|why| bad(&authority.display())(why.to_string()))?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    let (own, key) = (folder.join("client-cert.pem"), folder.join("client-key.pem"));
    if !own.exists() {
        return Ok(Arc::new(config.with_no_client_auth()));
    }
    let chain = certificates(&own)?;
    let why = bad(&key.display());
    let secret = read_secret(&key).map_err(|error| why(error.to_string()))?;
    let secret = PrivateKeyDer::from_pem_slice(&secret).map_err(|error| why(error.to_string()))?;
    let config = config.with_client_auth_cert(chain, secret);
    Ok(Arc::new(config.map_err(|why| bad(&own.display())(why.to_string()))?))
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let why = bad(&path.display());
    let text = read_whole(path, MAX_TEXT).map_err(|error| why(error.to_string()))?;
    let found = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| why(error.to_string()))?;
    if found.is_empty() { Err(why("it has no certificate".into())) } else { Ok(found) }
}

/// Returns a function that prefixes errors with their subject.
fn bad(what: &dyn std::fmt::Display) -> impl Fn(String) -> io::Error + use<> {
    let what = what.to_string();
    move |why| io::Error::other(format!("{what}: {why}"))
}
