//! The server's side of the handshake: bytes in, bytes out, and what came of it.
//!
//! Invariants
//! - Options are answered in the order in which they came, each completely.
//! - Nothing is consumed after the message that ends the handshake: the rest belongs to the
//!   transmission phase.
//! - What is buffered and answered is bounded: [`MAX_OPTION`](crate::MAX_OPTION) bytes an option,
//!   [`MAX_OPTIONS`] options a connection.

use crate::error::{Malformed, ProtoError};
use crate::flags::{FIXED_NEWSTYLE, NO_ZEROES};
use crate::option::{Ask, ClientOption, OptionFrame};
use crate::reply::{BlockSizes, Info, OptionReply, Refusal};
use crate::wire::{Cursor, Emit};

/// The most options that a client may send.
pub const MAX_OPTIONS: u32 = 64;

pub(crate) const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
pub(crate) const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// The zero bytes after the answer to `EXPORT_NAME`, unless both sides do without.
const ZEROES: usize = 124;

/// What a server exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The name; the empty name means the same export.
    pub name: String,
    /// Words for people.
    pub description: String,
    /// The size in bytes.
    pub bytes: u64,
    /// Transmission flags, see [`crate::flags`].
    pub flags: u16,
    /// The block sizes.
    pub block: BlockSizes,
}

/// Where the handshake stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The client has to say more.
    More,
    /// The transmission phase begins.
    Transmission,
    /// The client said goodbye.
    Aborted,
}

/// The handshake of one connection, seen from the server.
#[derive(Debug)]
pub struct ServerHandshake {
    /// Set once the client's flags are known; says whether it does without the zero bytes.
    no_zeroes: Option<bool>,
    options: u32,
}

impl ServerHandshake {
    /// Begins: appends the greeting, which goes out before the client says a word.
    pub fn greet(out: &mut Vec<u8>) -> Self {
        out.put_u64(NBDMAGIC);
        out.put_u64(IHAVEOPT);
        out.put_u16(FIXED_NEWSTYLE | NO_ZEROES);
        ServerHandshake { no_zeroes: None, options: 0 }
    }

    /// Reads whole messages from the front of `input`, appends the answers to `out`, and says how
    /// many bytes were used. The caller keeps the rest and adds to it.
    ///
    /// # Errors
    /// When the connection can't go on; what is in `out` should still be sent.
    pub fn feed(
        &mut self,
        offer: &Offer,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Outcome), ProtoError> {
        let mut used = 0;
        if self.no_zeroes.is_none() {
            let Ok(flags) = Cursor::new(input).u32() else { return Ok((0, Outcome::More)) };
            if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
                return Err(ProtoError::ClientFlags(flags));
            }
            self.no_zeroes = Some(flags & u32::from(NO_ZEROES) != 0);
            used = 4;
        }
        while let Some((frame, length)) = OptionFrame::parse(&input[used..])? {
            used += length;
            self.options += 1;
            if self.options > MAX_OPTIONS {
                return Err(ProtoError::TooManyOptions);
            }
            let outcome = self.answer(offer, frame, out)?;
            if outcome != Outcome::More {
                return Ok((used, outcome));
            }
        }
        Ok((used, Outcome::More))
    }

    fn answer(
        &self,
        offer: &Offer,
        frame: OptionFrame<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, ProtoError> {
        let number = frame.option;
        let option = match ClientOption::parse(frame) {
            Ok(option) => option,
            Err(fault) => return malformed(number, fault, out),
        };
        match option {
            ClientOption::ExportName(name) => {
                if !offer.answers_to(name) {
                    return Err(ProtoError::UnknownExport(name.to_owned()));
                }
                out.put_u64(offer.bytes);
                out.put_u16(offer.flags);
                if self.no_zeroes != Some(true) {
                    out.resize(out.len() + ZEROES, 0);
                }
                Ok(Outcome::Transmission)
            }
            ClientOption::Abort => {
                OptionReply::Ack.emit(number, out);
                Ok(Outcome::Aborted)
            }
            ClientOption::List if !frame.data.is_empty() => {
                malformed(number, Malformed::Trailing, out)
            }
            ClientOption::List => {
                let server = OptionReply::Server { name: &offer.name, about: &offer.description };
                server.emit(number, out);
                OptionReply::Ack.emit(number, out);
                Ok(Outcome::More)
            }
            ClientOption::Info(ask) => {
                offer.describe(number, &ask, out);
                Ok(Outcome::More)
            }
            ClientOption::Go(ask) if offer.describe(number, &ask, out) => Ok(Outcome::Transmission),
            ClientOption::Go(_) => Ok(Outcome::More),
            ClientOption::Other(_) => {
                refuse(number, Refusal::Unsupported, "this server does not know the option", out);
                Ok(Outcome::More)
            }
        }
    }
}

impl Offer {
    /// Whether `name` means this export.
    fn answers_to(&self, name: &str) -> bool {
        name.is_empty() || name == self.name
    }

    /// Answers `INFO` and `GO`; false when the export is unknown.
    fn describe(&self, option: u32, ask: &Ask<'_>, out: &mut Vec<u8>) -> bool {
        if !self.answers_to(ask.name) {
            refuse(option, Refusal::Unknown, "there is no such export", out);
            return false;
        }
        let mut tell = |info| OptionReply::Info(info).emit(option, out);
        tell(Info::Export { bytes: self.bytes, flags: self.flags });
        // Sent unasked as well, because the smallest block is more than one byte.
        tell(Info::BlockSize(self.block));
        if ask.infos.contains(&Info::NAME) {
            tell(Info::Name(&self.name));
        }
        if ask.infos.contains(&Info::DESCRIPTION) {
            tell(Info::Description(&self.description));
        }
        OptionReply::Ack.emit(option, out);
        true
    }
}

/// Answers an option that can't be read; `EXPORT_NAME` has no error reply, so that one ends it all.
fn malformed(option: u32, fault: Malformed, out: &mut Vec<u8>) -> Result<Outcome, ProtoError> {
    if option == ClientOption::ExportName("").number() {
        return Err(fault.into());
    }
    refuse(option, Refusal::Invalid, &fault.to_string(), out);
    Ok(Outcome::More)
}

fn refuse(option: u32, why: Refusal, message: &str, out: &mut Vec<u8>) {
    OptionReply::Refused { why, message }.emit(option, out);
}
