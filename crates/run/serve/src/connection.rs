//! One client connection, from the handshake to the end.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hostftl_nbd_proto::{Agreement, Offer, Outcome, ProtoError, ServerHandshake};
use rustls::ServerConfig;

use crate::channel::{Channel, Socket};
use crate::inlet::Inlet;
use crate::outlet::Outlet;
use crate::reader::Reader;
use crate::registry::{HANDSHAKE, MAX_CONNECTIONS};
use crate::server::Open;
use crate::source::{Source, TICK};
use crate::table::Table;
use crate::tls::Tls;
use crate::writer;

/// Reason why a connection ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("{0}")]
    Protocol(#[from] ProtoError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("rejected: its export already has {MAX_CONNECTIONS} clients (the maximum)")]
    Full,
}

/// State of the server that a connection uses.
pub(crate) struct Service<'a> {
    /// Volumes that are served.
    pub(crate) exports: &'a [Open],
    /// NBD offers of the exports, in the same order.
    pub(crate) offers: &'a [Offer],
    pub(crate) secure: Option<Arc<ServerConfig>>,
    /// Permitted names of a client's certificate; empty permits any name.
    pub(crate) allow: &'a [String],
    pub(crate) stopping: &'a AtomicBool,
    /// Admits a client after the handshake, by the index of its export; false when the export is
    /// full.
    pub(crate) admit: &'a dyn Fn(usize) -> bool,
}

impl Service<'_> {
    /// Serves one client and returns its number of requests. Stores the index of the export in
    /// `chosen` once the client has selected it.
    pub(crate) fn serve(
        &self,
        socket: &Arc<Socket>,
        chosen: &mut usize,
    ) -> Result<u64, ConnectionError> {
        socket.watch_peer();
        socket.set_read_timeout(Some(HANDSHAKE))?;
        socket.set_write_timeout(Some(HANDSHAKE))?;
        let channel = Channel::Plain(socket);
        let mut out = Vec::new();
        let mut server = ServerHandshake::greet(&mut out);
        let mut inlet = Inlet::new(channel);
        match (negotiate(&mut server, out, &mut inlet, channel, self.offers)?, &self.secure) {
            (Outcome::Transmission(agreed), _) => {
                // The timeout wakes the reader regularly. Other threads use the socket only with
                // `NonBlocking`.
                socket.set_read_timeout(Some(TICK))?;
                socket.make_room();
                *chosen = agreed.export;
                self.transmit(inlet, channel, agreed, Some(socket.clone()))
            }
            (Outcome::StartTls, Some(config)) => {
                let tls = Tls::begin(socket, config)?;
                tls.check_names(self.allow)?;
                server.secured();
                let taken = self.serve_secure(&mut server, Channel::Secure(&tls), chosen);
                tls.end();
                taken
            }
            _ => Ok(0),
        }
    }

    /// Repeats the handshake under TLS and serves the client.
    fn serve_secure(
        &self,
        server: &mut ServerHandshake,
        channel: Channel<'_>,
        chosen: &mut usize,
    ) -> Result<u64, ConnectionError> {
        let mut inlet = Inlet::new(channel);
        match negotiate(server, Vec::new(), &mut inlet, channel, self.offers)? {
            Outcome::Transmission(agreed) => {
                channel.socket().set_read_timeout(Some(TICK))?;
                channel.socket().set_write_timeout(Some(writer::PATIENCE))?;
                *chosen = agreed.export;
                self.transmit(inlet, channel, agreed, None)
            }
            _ => Ok(0),
        }
    }

    fn transmit(
        &self,
        inlet: Inlet<Channel<'_>>,
        channel: Channel<'_>,
        agreed: Agreement,
        direct: Option<Arc<Socket>>,
    ) -> Result<u64, ConnectionError> {
        if !(self.admit)(agreed.export) {
            return Err(ConnectionError::Full);
        }
        let Open { exported, budget, throttle } = &self.exports[agreed.export];
        let outlet = Arc::new(Outlet::new(Table::new(agreed, budget.clone()), direct));
        let inlet = inlet.onto(Source::new(channel, exported.port.submitter()));
        std::thread::scope(|scope| {
            let shared = &outlet;
            let writer = std::thread::Builder::new().name("writer".into());
            writer.spawn_scoped(scope, move || writer::run(channel, shared))?;
            let (port, witness) = (&exported.port, exported.witness.as_deref());
            let (outlet, stopping) = (outlet.clone(), self.stopping);
            let export = port.export();
            Reader { inlet, port, export, outlet, stopping, witness, throttle }.run()
        })
    }
}

/// Sends `out` and negotiates until there is an outcome. A client that hangs up aborts.
fn negotiate(
    server: &mut ServerHandshake,
    mut out: Vec<u8>,
    inlet: &mut Inlet<Channel<'_>>,
    mut channel: Channel<'_>,
    offers: &[Offer],
) -> Result<Outcome, ConnectionError> {
    loop {
        let step = server.feed(offers, inlet.peek(), &mut out);
        channel.write_all(&out)?;
        channel.flush()?;
        out.clear();
        let (used, outcome) = step?;
        inlet.consume(used);
        match outcome {
            Outcome::More if inlet.more()? == 0 => return Ok(Outcome::Aborted),
            Outcome::More => {}
            over => return Ok(over),
        }
    }
}
