//! Replies to a client, or chunks of them, as a head and a body.

use hostftl_nbd_proto::flags::{STATE_HOLE, STATE_ZERO};
use hostftl_nbd_proto::{Chunk, DATA_HEAD_BYTES, SIMPLE_REPLY_BYTES, SimpleReply, data_head};
use hostftl_volume::front::{Buffer, Extent};

use crate::budget::{Budget, Granted};
use crate::fault::Fault;

/// Metadata contexts of block status, in the order of their ids.
pub(crate) const CONTEXTS: [&str; 2] = ["base:allocation", "hostftl:state"];
/// Id of `base:allocation`.
const ALLOCATION: u32 = 1;
/// Only flag of `hostftl:state`: the range is mapped.
const STATE_MAPPED: u32 = 1 << 0;

/// First bytes of a reply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReplyHead {
    bytes: [u8; DATA_HEAD_BYTES],
    len: usize,
}

impl ReplyHead {
    fn new(from: &[u8]) -> Self {
        let mut head = ReplyHead { len: from.len(), ..ReplyHead::default() };
        head.bytes[..from.len()].copy_from_slice(from);
        head
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Bytes after the head of a reply.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    /// No bytes.
    Nothing,
    /// Buffer of the volume with the data of a read.
    Lent(Buffer),
    /// Bytes created for this reply.
    Own(Vec<u8>),
    /// Joined parts of a long read, or a copy of a volume's buffer; covered by the budget.
    Granted(Granted),
}

impl ReplyBody {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            ReplyBody::Nothing => &[],
            ReplyBody::Lent(buffer) => buffer,
            ReplyBody::Own(bytes) => bytes,
            ReplyBody::Granted(granted) => granted.bytes(),
        }
    }

    /// Copies a lent buffer, if the budget has room, and returns it to the volume. Returns whether
    /// no buffer is lent any more.
    pub(crate) fn keep_own(&mut self, budget: &Budget) -> bool {
        let ReplyBody::Lent(buffer) = self else { return true };
        let Some(grant) = budget.ask_for(buffer.len() as u32) else { return false };
        *self = ReplyBody::Granted(grant.hold(buffer.to_vec()));
        true
    }
}

/// Builds a simple reply.
pub(crate) fn simple(cookie: u64, fault: Option<Fault>, body: ReplyBody) -> (ReplyHead, ReplyBody) {
    let result = fault.map_or(Ok(()), |fault| Err(fault.errno));
    let head: [u8; SIMPLE_REPLY_BYTES] = SimpleReply { cookie, result }.emit();
    (ReplyHead::new(&head), body)
}

/// Builds a chunk with data read at `offset`; zeros become a hole.
pub(crate) fn data(
    cookie: u64,
    done: bool,
    offset: u64,
    body: ReplyBody,
) -> (ReplyHead, ReplyBody) {
    let length = body.bytes().len() as u32;
    if is_zero(body.bytes()) {
        return own(|out| Chunk::Hole { offset, length }.emit(cookie, done, out));
    }
    (ReplyHead::new(&data_head(cookie, done, offset, length)), body)
}

/// Builds an error chunk, with an offset if the error belongs to one.
pub(crate) fn error(
    cookie: u64,
    done: bool,
    offset: Option<u64>,
    fault: Fault,
) -> (ReplyHead, ReplyBody) {
    let chunk = Chunk::Error { errno: fault.errno, offset, message: fault.why };
    own(|out| chunk.emit(cookie, done, out))
}

/// Builds a block status chunk for each context and marks the last one done. With `one` only the
/// first extent is included.
pub(crate) fn status(
    cookie: u64,
    contexts: impl Iterator<Item = u32>,
    extents: &[Extent],
    one: bool,
) -> (ReplyHead, ReplyBody) {
    let extents = if one { &extents[..1] } else { extents };
    own(|out| {
        let mut contexts = contexts.peekable();
        while let Some(context) = contexts.next() {
            let flags = |mapped| match (context, mapped) {
                (ALLOCATION, true) => 0,
                (ALLOCATION, false) => STATE_HOLE | STATE_ZERO,
                (_, true) => STATE_MAPPED,
                (_, false) => 0,
            };
            let pair = |extent: &Extent| (extent.bytes as u32, flags(extent.mapped));
            let extents = extents.iter().map(pair).collect();
            Chunk::Status { context, extents }.emit(cookie, contexts.peek().is_none(), out);
        }
    })
}

fn own(emit: impl FnOnce(&mut Vec<u8>)) -> (ReplyHead, ReplyBody) {
    let mut out = Vec::new();
    emit(&mut out);
    (ReplyHead::default(), ReplyBody::Own(out))
}

/// Returns whether all bytes are zero. Other data almost always differs within the first bytes, so
/// the check is cheap.
fn is_zero(bytes: &[u8]) -> bool {
    const STEP: usize = 64;
    let (steps, rest) = bytes.as_chunks::<STEP>();
    rest.iter().all(|byte| *byte == 0) && steps.iter().all(|step| *step == [0; STEP])
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_nbd_proto::{CHUNK_BYTES, ChunkHead};

    /// Returns the chunks of a reply.
    fn chunks(reply: &(ReplyHead, ReplyBody)) -> Vec<(ChunkHead, Vec<u8>)> {
        let all = [reply.0.bytes(), reply.1.bytes()].concat();
        let (mut rest, mut found) = (&all[..], Vec::new());
        while let Some((head, after)) = rest.split_first_chunk::<CHUNK_BYTES>() {
            let head = ChunkHead::parse(head).unwrap();
            let (content, after) = after.split_at(head.length as usize);
            found.push((head, content.to_vec()));
            rest = after;
        }
        found
    }

    #[test]
    fn only_zeros_become_a_hole() {
        for len in [512, 4096, 4133] {
            for place in [0, len / 2, len - 1] {
                let mut bytes = vec![0; len];
                let reply = data(1, true, 8, ReplyBody::Own(bytes.clone()));
                let (head, content) = &chunks(&reply)[0];
                let hole = Chunk::Hole { offset: 8, length: len as u32 };
                assert_eq!(Chunk::parse(head.kind, content), Ok(hole));
                bytes[place] = 1;
                let reply = data(1, true, 8, ReplyBody::Own(bytes.clone()));
                let (head, content) = &chunks(&reply)[0];
                let whole = Chunk::Data { offset: 8, bytes: &bytes };
                assert_eq!(Chunk::parse(head.kind, content), Ok(whole));
            }
        }
    }

    #[test]
    fn contexts_report_equal_extents_with_their_own_flags() {
        let extents = [Extent { bytes: 512, mapped: true }, Extent { bytes: 1024, mapped: false }];
        let parsed = |one| {
            let reply = status(5, [1, 2].into_iter(), &extents, one);
            let all = chunks(&reply);
            assert_eq!(all.iter().map(|(head, _)| head.done).collect::<Vec<_>>(), [false, true]);
            let parse =
                |(head, content): &(ChunkHead, Vec<u8>)| match Chunk::parse(head.kind, content) {
                    Ok(Chunk::Status { context, extents }) => (context, extents),
                    other => panic!("{other:?}"),
                };
            all.iter().map(parse).collect::<Vec<_>>()
        };
        let all = [(1, vec![(512, 0), (1024, 3)]), (2, vec![(512, 1), (1024, 0)])];
        assert_eq!(parsed(false), all);
        assert_eq!(parsed(true), [(1, vec![(512, 0)]), (2, vec![(512, 1)])]);
    }
}
