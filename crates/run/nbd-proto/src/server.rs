//! Server side of the handshake: consumes input, and returns replies and the outcome.
//!
//! Invariants
//! - Options are answered in the order of their arrival, each completely.
//! - No bytes are consumed after the message that ends the handshake: the rest belongs to the
//!   transmission phase.
//! - Buffered input and the number of replies are limited: [`MAX_OPTION`](crate::MAX_OPTION) bytes
//!   per option, [`MAX_OPTIONS`] options per connection.

use crate::error::{Malformed, ProtoError};
use crate::flags::{FIXED_NEWSTYLE, NO_ZEROES};
use crate::offer::{Agreement, Offer, Tls, find, refuse};
use crate::option::{ClientOption, ContextQuery, ExportQuery, OptionFrame};
use crate::reply::{OptionReply, Refusal};
use crate::wire::{Cursor, Emit};

/// Maximum number of options that a client may send.
pub const MAX_OPTIONS: u32 = 64;

pub(crate) const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
pub(crate) const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// Zero bytes after the reply to `EXPORT_NAME`, unless both sides omit them.
const ZEROES: usize = 124;

/// Progress of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// More input is required.
    More,
    /// The transmission phase begins.
    Transmission(Agreement),
    /// TLS begins. The handshake continues in the TLS session, see [`ServerHandshake::secured`].
    StartTls,
    /// The client ended the connection.
    Aborted,
}

/// Handshake of one connection on the server side.
#[derive(Debug)]
pub struct ServerHandshake {
    /// Whether the zero bytes are omitted; `None` until the client's flags have arrived.
    no_zeroes: Option<bool>,
    options: u32,
    agreed: Agreement,
    /// Whether the TLS session has been established.
    secure: bool,
}

impl ServerHandshake {
    /// Starts a handshake and appends the greeting, which is sent before the client sends anything.
    pub fn greet(out: &mut Vec<u8>) -> Self {
        out.put_u64(NBDMAGIC);
        out.put_u64(IHAVEOPT);
        out.put_u16(FIXED_NEWSTYLE | NO_ZEROES);
        ServerHandshake { no_zeroes: None, options: 0, agreed: Agreement::default(), secure: false }
    }

    /// Records that the TLS session is established. Earlier agreements are discarded, because an
    /// attacker could have made them.
    pub fn secured(&mut self) {
        assert!(!self.secure, "TLS starts once");
        self.secure = true;
        self.agreed = Agreement::default();
    }

    /// Processes complete messages at the front of `input`, appends the replies to `out`, and
    /// returns the number of bytes used. The caller keeps the rest and adds further input. The
    /// offers must be the same in each call. If one requires TLS, all do.
    ///
    /// # Errors
    /// When the connection must be closed; the content of `out` should still be sent.
    pub fn feed(
        &mut self,
        offers: &[Offer],
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
            let outcome = self.answer(offers, frame, out)?;
            if outcome == Outcome::StartTls && used < input.len() {
                // Unencrypted bytes after the request could have been injected.
                return Err(ProtoError::BeforeTls);
            }
            if outcome != Outcome::More {
                return Ok((used, outcome));
            }
        }
        Ok((used, Outcome::More))
    }

    fn answer(
        &mut self,
        offers: &[Offer],
        frame: OptionFrame<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, ProtoError> {
        let number = frame.option;
        let option = match ClientOption::parse(frame) {
            Ok(option) => option,
            Err(fault) => return malformed(number, fault, out),
        };
        if offers.iter().any(|offer| offer.tls == Tls::Required) && !self.secure {
            return before_tls(&option, out);
        }
        match option {
            ClientOption::ExportName(name) => {
                let index = find(offers, name).map_err(|(_, why)| ProtoError::UnknownExport {
                    name: name.to_owned(),
                    why: why.to_owned(),
                })?;
                let offer = &offers[index];
                self.begin(index);
                out.put_u64(offer.bytes);
                out.put_u16(offer.flags(self.agreed));
                if self.no_zeroes != Some(true) {
                    out.resize(out.len() + ZEROES, 0);
                }
                return Ok(Outcome::Transmission(self.agreed));
            }
            ClientOption::Abort => {
                OptionReply::Ack.emit(number, out);
                return Ok(Outcome::Aborted);
            }
            ClientOption::List => {
                for Offer { name, description, .. } in offers {
                    OptionReply::Server { name, about: description }.emit(number, out);
                }
                OptionReply::Ack.emit(number, out);
            }
            ClientOption::Info(query) => drop(self.describe(offers, number, &query, out)),
            ClientOption::Go(query) => {
                if let Some(index) = self.describe(offers, number, &query, out) {
                    self.begin(index);
                    return Ok(Outcome::Transmission(self.agreed));
                }
            }
            ClientOption::StructuredReply => {
                self.agreed.structured = true;
                OptionReply::Ack.emit(number, out);
            }
            ClientOption::ListContexts(_) | ClientOption::SetContexts(_)
                if !self.agreed.structured =>
            {
                refuse(number, Refusal::Invalid, "request structured replies first", out);
            }
            ClientOption::ListContexts(query) => self.contexts(offers, number, &query, false, out),
            ClientOption::SetContexts(query) => self.contexts(offers, number, &query, true, out),
            ClientOption::StartTls if self.secure => {
                refuse(number, Refusal::Invalid, "TLS is already active", out);
            }
            ClientOption::StartTls => {
                refuse(number, Refusal::Unsupported, "this server does not support TLS", out);
            }
            ClientOption::Other(_) => {
                refuse(number, Refusal::Unsupported, "the option is not supported", out);
            }
        }
        Ok(Outcome::More)
    }
}

impl ServerHandshake {
    /// Selects an export. Contexts that the client selected for another export are discarded.
    fn begin(&mut self, export: usize) {
        if self.agreed.export != export {
            self.agreed = Agreement { export, contexts: 0, ..self.agreed };
        }
    }

    /// Answers `INFO` and `GO`. Returns the index of the export, if it exists.
    fn describe(
        &self,
        offers: &[Offer],
        option: u32,
        query: &ExportQuery<'_>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        match find(offers, query.name) {
            Ok(index) => {
                offers[index].describe(option, query, self.agreed, out);
                Some(index)
            }
            Err((code, why)) => {
                refuse(option, code, why, out);
                None
            }
        }
    }

    /// Answers a list or a selection of contexts.
    fn contexts(
        &mut self,
        offers: &[Offer],
        option: u32,
        query: &ContextQuery<'_>,
        chooses: bool,
        out: &mut Vec<u8>,
    ) {
        match find(offers, query.name) {
            Ok(index) => {
                let mut agreed = chooses.then_some(&mut self.agreed);
                if let Some(agreed) = &mut agreed {
                    agreed.export = index;
                }
                offers[index].emit_contexts(option, query, agreed, out);
            }
            Err((code, why)) => refuse(option, code, why, out),
        }
    }
}

/// Answers an option of a client that must start TLS first.
fn before_tls(option: &ClientOption<'_>, out: &mut Vec<u8>) -> Result<Outcome, ProtoError> {
    match option {
        ClientOption::StartTls => {
            OptionReply::Ack.emit(option.number(), out);
            Ok(Outcome::StartTls)
        }
        ClientOption::Abort => {
            OptionReply::Ack.emit(option.number(), out);
            Ok(Outcome::Aborted)
        }
        ClientOption::ExportName(_) => Err(ProtoError::Plain),
        _ => {
            refuse(option.number(), Refusal::TlsRequired, "TLS is required; start it first", out);
            Ok(Outcome::More)
        }
    }
}

/// Answers a malformed option. `EXPORT_NAME` has no error reply, so its error ends the connection.
fn malformed(option: u32, fault: Malformed, out: &mut Vec<u8>) -> Result<Outcome, ProtoError> {
    if option == ClientOption::ExportName("").number() {
        return Err(fault.into());
    }
    refuse(option, Refusal::Invalid, &fault.to_string(), out);
    Ok(Outcome::More)
}
