//! What a server exports, and what it and a client have agreed on.

use crate::flags::SEND_DF;
use crate::option::{Ask, Wish};
use crate::reply::{BlockSizes, Info, OptionReply, Refusal};

/// Whether a server does TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// It does not.
    No,
    /// Nothing but starting it works without.
    Required,
}

/// One thing that a server exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The name; where it is the only offer the empty name means the same, unless that is held
    /// back.
    pub name: String,
    /// Another name of it.
    pub also: Option<String>,
    /// What is refused though clients may know it.
    pub held: Option<Held>,
    /// Words for people.
    pub description: String,
    /// The size in bytes.
    pub bytes: u64,
    /// Transmission flags without those that need an agreement, see [`crate::flags`].
    pub flags: u16,
    /// The block sizes.
    pub block: BlockSizes,
    /// The contexts of block status, at most 32; the first has the number 1, the next 2.
    pub contexts: Vec<&'static str>,
    /// Whether there is TLS.
    pub tls: Tls,
}

/// A name that an export had, and has no more for now; the empty name is refused with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The name.
    pub name: String,
    /// What a client is told that asks for it.
    pub why: String,
}

/// What the two sides have agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Which of the server's offers it is about.
    pub export: usize,
    /// Replies come in chunks, those to reads always.
    pub structured: bool,
    /// The contexts that the client wants: bit 0 is the one with the number 1.
    pub contexts: u32,
}

impl Agreement {
    /// The numbers of the contexts that block status tells.
    pub fn numbers(self) -> impl Iterator<Item = u32> {
        (0..32).filter(move |bit| self.contexts & 1 << bit != 0).map(|bit| bit + 1)
    }
}

impl Offer {
    /// Whether `name` means this export where it is the only one; else the code and the words of
    /// the refusal.
    fn answers_to(&self, name: &str) -> Result<(), (Refusal, &str)> {
        let held = self.held.as_ref().filter(|held| name.is_empty() || name == held.name);
        match held {
            Some(held) => Err((Refusal::Policy, &held.why)),
            None if name.is_empty() || name == self.name => Ok(()),
            None if self.also.as_deref() == Some(name) => Ok(()),
            None => Err((Refusal::Unknown, "there is no such export")),
        }
    }

    /// The transmission flags under an agreement.
    pub(crate) fn flags(&self, agreed: Agreement) -> u16 {
        self.flags | if agreed.structured { SEND_DF } else { 0 }
    }

    /// Answers `INFO` and `GO` for this export.
    pub(crate) fn describe(
        &self,
        option: u32,
        ask: &Ask<'_>,
        agreed: Agreement,
        out: &mut Vec<u8>,
    ) {
        let mut tell = |info| OptionReply::Info(info).emit(option, out);
        tell(Info::Export { bytes: self.bytes, flags: self.flags(agreed) });
        // Sent unasked as well, because the smallest block is more than one byte.
        tell(Info::BlockSize(self.block));
        if ask.infos.contains(&Info::NAME) {
            tell(Info::Name(&self.name));
        }
        if ask.infos.contains(&Info::DESCRIPTION) {
            tell(Info::Description(&self.description));
        }
        OptionReply::Ack.emit(option, out);
    }

    /// Answers a list of contexts, or a choice when there is an agreement to put it in.
    pub(crate) fn tell_contexts(
        &self,
        option: u32,
        wish: &Wish<'_>,
        choice: Option<&mut Agreement>,
        out: &mut Vec<u8>,
    ) {
        let listing = choice.is_none();
        let all = listing && wish.queries.is_empty();
        let is_wanted = |name: &str| {
            let space = |query: &str| listing && query.ends_with(':') && name.starts_with(query);
            all || wish.queries.iter().any(|query| *query == name || space(query))
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

/// Which of `offers` is meant by `name`; else the code and the words of the refusal.
pub(crate) fn find<'a>(offers: &'a [Offer], name: &str) -> Result<usize, (Refusal, &'a str)> {
    if name.is_empty() && offers.len() > 1 {
        return Err((Refusal::Unknown, "there are several exports: name one; LIST tells which"));
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

/// Says no to an option.
pub(crate) fn refuse(option: u32, why: Refusal, message: &str, out: &mut Vec<u8>) {
    OptionReply::Refused { why, message }.emit(option, out);
}
