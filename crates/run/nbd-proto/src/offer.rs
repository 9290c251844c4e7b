//! Exports of a server, and the agreement with a client.

use crate::flags::SEND_DF;
use crate::option::{ContextQuery, ExportQuery};
use crate::reply::{BlockSizes, Info, OptionReply, Refusal};

/// TLS policy of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// TLS is not supported.
    No,
    /// Only the start of TLS is accepted without it.
    Required,
}

/// Export of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Name of the export. If it is the only one, the empty name also denotes it, unless a name is
    /// held.
    pub name: String,
    /// Alternative name.
    pub also: Option<String>,
    /// Former name that is refused.
    pub held: Option<HeldName>,
    /// Description for users.
    pub description: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Transmission flags without those that depend on the agreement, see [`crate::flags`].
    pub flags: u16,
    /// Block sizes.
    pub block: BlockSizes,
    /// Contexts of block status, at most 32; the first has the number 1, the next 2.
    pub contexts: Vec<&'static str>,
    /// TLS policy.
    pub tls: Tls,
}

/// Former name of an export that is currently refused. The empty name is refused with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldName {
    /// Refused name.
    pub name: String,
    /// Reason, which the client receives.
    pub why: String,
}

/// Result of the negotiation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Index of the export.
    pub export: usize,
    /// Whether replies are structured. Replies to reads then always are.
    pub structured: bool,
    /// Contexts that the client selected: bit 0 is the context with the number 1.
    pub contexts: u32,
}

impl Agreement {
    /// Returns the numbers of the selected contexts.
    pub fn numbers(self) -> impl Iterator<Item = u32> {
        (0..32).filter(move |bit| self.contexts & 1 << bit != 0).map(|bit| bit + 1)
    }
}

impl Offer {
    /// Checks whether `name` denotes this export if it is the only one. Returns the code and the
    /// message of the refusal otherwise.
    fn answers_to(&self, name: &str) -> Result<(), (Refusal, &str)> {
        let held = self.held.as_ref().filter(|held| name.is_empty() || name == held.name);
        match held {
            Some(held) => Err((Refusal::Policy, &held.why)),
            None if name.is_empty() || name == self.name => Ok(()),
            None if self.also.as_deref() == Some(name) => Ok(()),
            None => Err((Refusal::Unknown, "there is no such export")),
        }
    }

    /// Returns the transmission flags under an agreement.
    pub(crate) fn flags(&self, agreed: Agreement) -> u16 {
        self.flags | if agreed.structured { SEND_DF } else { 0 }
    }

    /// Answers `INFO` and `GO` for this export.
    pub(crate) fn describe(
        &self,
        option: u32,
        query: &ExportQuery<'_>,
        agreed: Agreement,
        out: &mut Vec<u8>,
    ) {
        let mut emit = |info| OptionReply::Info(info).emit(option, out);
        emit(Info::Export { bytes: self.bytes, flags: self.flags(agreed) });
        // The block sizes are sent even if not requested, because the minimum is more than one
        // byte.
        emit(Info::BlockSize(self.block));
        if query.infos.contains(&Info::NAME) {
            emit(Info::Name(&self.name));
        }
        if query.infos.contains(&Info::DESCRIPTION) {
            emit(Info::Description(&self.description));
        }
        OptionReply::Ack.emit(option, out);
    }

    /// Answers a list of contexts, or a selection if there is an agreement to store it.
    pub(crate) fn emit_contexts(
        &self,
        option: u32,
        query: &ContextQuery<'_>,
        choice: Option<&mut Agreement>,
        out: &mut Vec<u8>,
    ) {
        let listing = choice.is_none();
        let all = listing && query.queries.is_empty();
        let is_wanted = |name: &str| {
            let space = |query: &str| listing && query.ends_with(':') && name.starts_with(query);
            all || query.queries.iter().any(|query| *query == name || space(query))
        };
        let mut chosen = 0;
        for (bit, name) in self.contexts.iter().enumerate().filter(|(_, name)| is_wanted(name)) {
            // In a list the number has no meaning.
            let id = if listing { 0 } else { bit as u32 + 1 };
            OptionReply::Context { id, name }.emit(option, out);
            chosen |= 1 << bit;
        }
        if let Some(agreed) = choice {
            agreed.contexts = chosen;
        }
        OptionReply::Ack.emit(option, out);
    }
}

/// Finds the export `name`. Returns the code and the message of the refusal otherwise.
pub(crate) fn find<'a>(offers: &'a [Offer], name: &str) -> Result<usize, (Refusal, &'a str)> {
    if name.is_empty() && offers.len() > 1 {
        return Err((
            Refusal::Unknown,
            "the server has several exports; name one of them (see LIST)",
        ));
    }
    let mut refusal = (Refusal::Unknown, "there is no such export");
    for (index, offer) in offers.iter().enumerate() {
        match offer.answers_to(name) {
            Ok(()) => return Ok(index),
            Err(why) if why.0 == Refusal::Policy => refusal = why,
            Err(_) => {}
        }
    }
    Err(refusal)
}

/// Refuses an option.
pub(crate) fn refuse(option: u32, why: Refusal, message: &str, out: &mut Vec<u8>) {
    OptionReply::Refused { why, message }.emit(option, out);
}
