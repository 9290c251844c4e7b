//! The client's side of the handshake: asks for one export with `GO`.
//!
//! Invariants
//! - One option is outstanding at a time, so every reply belongs to it.
//! - Nothing is consumed after the reply that ends the handshake.

use crate::error::{Malformed, ProtoError};
use crate::flags::{FIXED_NEWSTYLE, NO_ZEROES};
use crate::option::{Ask, ClientOption};
use crate::reply::{BlockSizes, Info, OptionReply, ReplyFrame};
use crate::server::{IHAVEOPT, NBDMAGIC};
use crate::wire::{Cursor, Emit};

const GREETING: usize = 18;

/// What a client knows of an export when the transmission phase begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The size in bytes.
    pub bytes: u64,
    /// Transmission flags, see [`crate::flags`].
    pub flags: u16,
    /// The block sizes, if the server said them.
    pub block: Option<BlockSizes>,
    /// The canonical name, if the server said it.
    pub name: Option<String>,
    /// Words for people, if the server said them.
    pub description: Option<String>,
}

/// Where the handshake stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientOutcome {
    /// The server has to say more.
    More,
    /// The transmission phase begins.
    Transmission(Negotiated),
}

/// The handshake of one connection, seen from the client.
#[derive(Debug)]
pub struct ClientHandshake {
    name: String,
    greeted: bool,
    export: Option<(u64, u16)>,
    found: Negotiated,
}

impl ClientHandshake {
    /// Wants the export `name`; the empty name means the server's default.
    pub fn new(name: &str) -> Self {
        let found = Negotiated { bytes: 0, flags: 0, block: None, name: None, description: None };
        ClientHandshake { name: name.to_owned(), greeted: false, export: None, found }
    }

    /// Reads whole messages from the front of `input`, appends what the client says to `out`, and
    /// says how many bytes were used. The caller keeps the rest and adds to it.
    ///
    /// # Errors
    /// When the server breaks the protocol, is too old, or refuses the export.
    pub fn feed(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, ClientOutcome), ProtoError> {
        let mut used = 0;
        if !self.greeted {
            if input.len() < GREETING {
                return Ok((0, ClientOutcome::More));
            }
            self.greet(&input[..GREETING], out)?;
            used = GREETING;
        }
        while let Some((frame, length)) = ReplyFrame::parse(&input[used..])? {
            used += length;
            match OptionReply::parse(frame)? {
                OptionReply::Info(info) => self.learn(info),
                OptionReply::Ack => {
                    let (bytes, flags) = self.export.ok_or(Malformed::Short)?;
                    let found = Negotiated { bytes, flags, ..self.found.clone() };
                    return Ok((used, ClientOutcome::Transmission(found)));
                }
                OptionReply::Refused { why, message } => {
                    let (option, code, message) = (frame.option, why.code(), message.to_owned());
                    return Err(ProtoError::Refused { option, code, message });
                }
                OptionReply::Server { .. } => return Err(Malformed::Code.into()),
            }
        }
        Ok((used, ClientOutcome::More))
    }

    fn greet(&mut self, greeting: &[u8], out: &mut Vec<u8>) -> Result<(), ProtoError> {
        let mut cursor = Cursor::new(greeting);
        for expected in [NBDMAGIC, IHAVEOPT] {
            let found = cursor.u64()?;
            if found != expected {
                return Err(ProtoError::Magic { what: "the greeting", found });
            }
        }
        let offered = cursor.u16()?;
        if offered & FIXED_NEWSTYLE == 0 {
            return Err(ProtoError::NotFixedNewstyle(offered));
        }
        out.put_u32(u32::from(offered & (FIXED_NEWSTYLE | NO_ZEROES)));
        let infos = vec![Info::BLOCK_SIZE, Info::NAME, Info::DESCRIPTION];
        ClientOption::Go(Ask { name: &self.name, infos }).emit(out);
        self.greeted = true;
        Ok(())
    }

    fn learn(&mut self, info: Info<'_>) {
        match info {
            Info::Export { bytes, flags } => self.export = Some((bytes, flags)),
            Info::BlockSize(sizes) => self.found.block = Some(sizes),
            Info::Name(name) => self.found.name = Some(name.to_owned()),
            Info::Description(text) => self.found.description = Some(text.to_owned()),
            Info::Other { .. } => {}
        }
    }
}
