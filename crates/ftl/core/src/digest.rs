//! Digest of a layer's outputs. Two runs with the same inputs must have the same digest.

use crate::command::{About, Command, Piece, Target};
use crate::layer::Output;
use crate::words::{BLOCK, Nanos};

/// FNV-1a over the outputs of a layer, in order, with their times. Pages of metadata are digested
/// in lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamDigest(u64);

impl Default for StreamDigest {
    fn default() -> Self {
        StreamDigest(0xcbf2_9ce4_8422_2325)
    }
}

impl StreamDigest {
    /// Returns the digest so far.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }

    /// Adds a page in four lanes, which the processor computes at the same time.
    fn page(&mut self, page: &[u8; BLOCK]) {
        let mut lanes = [0, 1, 2, 3].map(|lane| StreamDigest(self.0 ^ lane));
        let (words, _) = page.as_chunks::<8>();
        for words in words.as_chunks::<4>().0 {
            for (lane, word) in lanes.iter_mut().zip(words) {
                lane.word(u64::from_le_bytes(*word));
            }
        }
        lanes.into_iter().for_each(|lane| self.word(lane.0));
    }

    /// Adds an output made at `now`. Buffer ids are omitted, because each driver assigns its own.
    #[inline]
    pub fn absorb(&mut self, now: Nanos, output: &Output) {
        self.word(now);
        match output {
            Output::Submit(token, command) => {
                self.word(token.0);
                self.command(command);
            }
            Output::Reply(reply) => {
                self.word(0x100);
                self.word(reply.ticket.id());
                self.word(reply.result.is_ok().into());
            }
            Output::Reclaim(payload) => self.word(0x200 + u64::from(payload.sectors())),
            Output::Event(_) => self.word(0x300),
        }
    }

    #[inline]
    fn command(&mut self, command: &Command) {
        let mut place = |kind: u64, device: u8, lba: u64, sectors: u64| {
            self.word(kind << 8 | u64::from(device));
            self.word(lba);
            self.word(sectors);
        };
        match command {
            Command::Read { device, lba, into, .. } => {
                place(1, *device, *lba, into.sectors().into());
                self.word(matches!(into, Target::Meta { .. }).into());
            }
            Command::Program { device, lba, gather, tally, placement } => {
                let length = u64::from(*placement) << 32 | u64::from(tally.total());
                place(2, *device, *lba, length);
                gather.iter().for_each(|piece| self.piece(piece));
            }
            Command::Reset { device, lba, sectors } => place(3, *device, *lba, *sectors),
            Command::Mark { device, lba, bad } => place(11, *device, *lba, u64::from(*bad)),
            Command::Flush { device } => place(4, *device, 0, 0),
            Command::Report { device, about, into } => {
                let from = match about {
                    About::Collectible => u64::MAX,
                    About::Segments(from) => u64::from(*from),
                };
                place(10, *device, from, into.pages().len() as u64);
            }
            Command::Place { from, into } => {
                place(5, 0, into.from().into(), into.bytes().into());
                self.piece(from);
            }
            Command::Peek { from, .. } => place(12, 0, from.from().into(), from.bytes().into()),
            Command::Pack { from, seed, .. } => place(6, 0, *seed, from.bytes().into()),
            Command::Unpack { from, crc, .. } => place(7, 0, (*crc).into(), from.bytes().into()),
            Command::Digest { from, seed } => place(8, 0, *seed, from.bytes().into()),
            Command::Move { parts, into, .. } => {
                place(11, 0, parts.len() as u64, into.bytes().into());
                parts.iter().for_each(|part| self.word(u64::from(part.from) << 32 | part.seed));
            }
            Command::Fold { from, into, .. } => {
                place(9, 0, from.len() as u64, into.bytes().into());
            }
        }
    }

    #[inline]
    fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Data(view) => self.word(u64::from(view.from()) << 32 | u64::from(view.bytes())),
            Piece::Zeros(bytes) => self.word(1 << 63 | u64::from(*bytes)),
            Piece::Meta { buf, pages } => {
                for page in &buf.pages()[..*pages as usize] {
                    self.page(&page.0);
                }
            }
        }
    }
}
