//! One client from its first byte to its last.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::Duration;

use hostftl_nbd_proto::{Agreement, Offer, Outcome, ProtoError, ServerHandshake};
use hostftl_volume::front::Port;

use crate::inlet::Inlet;
use crate::reader::Reader;
use crate::table::Table;
use crate::writer;

/// How long a client may be silent while it negotiates.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a connection ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("{0}")]
    Protocol(#[from] ProtoError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Serves one client; returns how many requests it made.
///
/// # Errors
/// When the client breaks the protocol or the connection.
pub(crate) fn serve(
    stream: &UnixStream,
    port: &Port,
    offer: &Offer,
    stopping: &AtomicBool,
) -> Result<u64, ConnectionError> {
    let mut inlet = Inlet::new(stream);
    stream.set_read_timeout(Some(PATIENCE))?;
    let Some(agreed) = handshake(&mut inlet, stream, offer)? else { return Ok(0) };
    stream.set_read_timeout(None)?;
    let table = Table::new(agreed);
    let (reply, answers) = channel();
    std::thread::scope(|scope| {
        let (shared, answers) = (&table, answers);
        scope.spawn(move || writer::run(stream, shared, &answers));
        Reader { inlet, port, table: &table, reply, agreed, stopping }.run()
    })
}

/// Negotiates; what was agreed on when the transmission phase follows.
fn handshake(
    inlet: &mut Inlet<&UnixStream>,
    mut stream: &UnixStream,
    offer: &Offer,
) -> Result<Option<Agreement>, ConnectionError> {
    let mut out = Vec::new();
    let mut server = ServerHandshake::greet(&mut out);
    loop {
        let step = server.feed(offer, inlet.peek(), &mut out);
        stream.write_all(&out)?;
        out.clear();
        let (used, outcome) = step?;
        inlet.consume(used);
        match outcome {
            Outcome::More if inlet.more()? == 0 => return Ok(None),
            Outcome::More => {}
            Outcome::Transmission(agreed) => return Ok(Some(agreed)),
            Outcome::Aborted => return Ok(None),
            Outcome::StartTls => unreachable!("TLS is not offered"),
        }
    }
}
