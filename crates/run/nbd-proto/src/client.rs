//! Client side of the handshake. It requests TLS, structured replies and contexts if configured,
//! and then one export with `GO`.
//!
//! Invariants
//! - One option is outstanding at a time, so every reply belongs to it.
//! - No bytes are consumed after the reply that ends the handshake.

use crate::error::{Malformed, ProtoError};
use crate::flags::{FIXED_NEWSTYLE, NO_ZEROES};
use crate::option::{ClientOption, ContextQuery, ExportQuery};
use crate::reply::{BlockSizes, Info, OptionReply, ReplyFrame};
use crate::server::{IHAVEOPT, NBDMAGIC};
use crate::wire::{Cursor, Emit};

const GREETING: usize = 18;

/// Properties of an export at the start of the transmission phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// Size in bytes.
    pub bytes: u64,
    /// Transmission flags, see [`crate::flags`].
    pub flags: u16,
    /// Block sizes, if the server sent them.
    pub block: Option<BlockSizes>,
    /// Canonical name, if the server sent it.
    pub name: Option<String>,
    /// Description for users, if the server sent it.
    pub description: Option<String>,
    /// Whether replies are structured. Replies to reads then always are.
    pub structured: bool,
    /// Selected contexts of block status, with their numbers.
    pub contexts: Vec<(u32, String)>,
}

/// Progress of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientOutcome {
    /// More input is required.
    More,
    /// The rest uses TLS. The caller starts a session and calls `feed` again, even without input.
    Secure,
    /// The transmission phase begins.
    Transmission(Negotiated),
}

/// Requests of a client, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Tls,
    Structured,
    Contexts,
    Go,
}

/// Handshake of one connection on the client side.
#[derive(Debug)]
pub struct ClientHandshake {
    name: String,
    /// Requested contexts; `None` if structured replies are not requested either.
    wanted: Option<Vec<String>>,
    /// Whether the export must use TLS.
    secure: bool,
    /// Last request to the server; `None` before its greeting.
    asked: Option<Step>,
    /// Whether TLS was agreed on, and the next request is due.
    turned: bool,
    export: Option<(u64, u16)>,
    found: Negotiated,
}

impl ClientHandshake {
    /// Requests the export `name`; the empty name is the server's default.
    pub fn new(name: &str) -> Self {
        let found = Negotiated::default();
        ClientHandshake {
            name: name.to_owned(),
            wanted: None,
            secure: false,
            asked: None,
            turned: false,
            export: None,
            found,
        }
    }

    /// Requires TLS before anything about the export is sent. A server without TLS is an error.
    pub fn secure(self) -> Self {
        ClientHandshake { secure: true, ..self }
    }

    /// Requests structured replies and, if the server supports them, these contexts of block
    /// status. An export without them is accepted.
    pub fn structured(self, contexts: &[&str]) -> Self {
        let wanted = Some(contexts.iter().map(|name| (*name).to_owned()).collect());
        ClientHandshake { wanted, ..self }
    }

    /// Processes complete messages at the front of `input`, appends the client's messages to `out`,
    /// and returns the number of bytes used. The caller keeps the rest and adds further input.
    ///
    /// # Errors
    /// When the server violates the protocol, is too old, or refuses the export.
    pub fn feed(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, ClientOutcome), ProtoError> {
        let mut used = 0;
        if self.asked.is_none() {
            if input.len() < GREETING {
                return Ok((0, ClientOutcome::More));
            }
            self.greet(&input[..GREETING], out)?;
            used = GREETING;
        }
        if std::mem::take(&mut self.turned) {
            self.send_option(self.first(), out);
        }
        while let Some((frame, length)) = ReplyFrame::parse(&input[used..])? {
            used += length;
            match OptionReply::parse(frame)? {
                OptionReply::Info(info) => self.learn(info),
                OptionReply::Context { id, name } => {
                    self.found.contexts.push((id, name.to_owned()))
                }
                OptionReply::Ack if self.asked == Some(Step::Tls) => {
                    if used < input.len() {
                        // Unencrypted bytes after the reply could have been injected.
                        return Err(ProtoError::BeforeTls);
                    }
                    self.turned = true;
                    return Ok((used, ClientOutcome::Secure));
                }
                OptionReply::Ack if self.asked == Some(Step::Structured) => {
                    self.found.structured = true;
                    self.send_option(Step::Contexts, out);
                }
                OptionReply::Ack if self.asked == Some(Step::Contexts) => {
                    self.send_option(Step::Go, out)
                }
                OptionReply::Ack => {
                    let (bytes, flags) = self.export.ok_or(Malformed::Short)?;
                    let found = Negotiated { bytes, flags, ..self.found.clone() };
                    return Ok((used, ClientOutcome::Transmission(found)));
                }
                OptionReply::Refused { .. }
                    if matches!(self.asked, Some(Step::Structured | Step::Contexts)) =>
                {
                    // Structured replies and contexts are optional.
                    self.found.contexts.clear();
                    self.send_option(Step::Go, out);
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
                return Err(ProtoError::Magic { part: "the greeting", found });
            }
        }
        let offered = cursor.u16()?;
        if offered & FIXED_NEWSTYLE == 0 {
            return Err(ProtoError::NotFixedNewstyle(offered));
        }
        out.put_u32(u32::from(offered & (FIXED_NEWSTYLE | NO_ZEROES)));
        let first = if self.secure { Step::Tls } else { self.first() };
        self.send_option(first, out);
        Ok(())
    }

    /// Returns the first request about the export.
    fn first(&self) -> Step {
        if self.wanted.is_some() { Step::Structured } else { Step::Go }
    }

    /// Sends the option of a step.
    fn send_option(&mut self, step: Step, out: &mut Vec<u8>) {
        let wanted = self.wanted.as_deref().unwrap_or_default();
        let none = step == Step::Contexts && wanted.is_empty();
        let (name, step) = (&*self.name, if none { Step::Go } else { step });
        match step {
            Step::Tls => ClientOption::StartTls.emit(out),
            Step::Structured => ClientOption::StructuredReply.emit(out),
            Step::Contexts => {
                let queries = wanted.iter().map(String::as_str).collect();
                ClientOption::SetContexts(ContextQuery { name, queries }).emit(out);
            }
            Step::Go => {
                let infos = vec![Info::BLOCK_SIZE, Info::NAME, Info::DESCRIPTION];
                ClientOption::Go(ExportQuery { name, infos }).emit(out);
            }
        }
        self.asked = Some(step);
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
