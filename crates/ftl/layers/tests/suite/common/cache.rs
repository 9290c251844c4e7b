//! The volatile write cache of a device: a power cut reverts writes that no flush has covered.

use hostftl_core::Token;

/// Overwritten sectors with their earlier contents.
#[derive(Debug)]
struct Overwritten {
    number: u64,
    device: u8,
    /// Offset in bytes from the beginning of the disk.
    at: usize,
    held: Vec<u8>,
}

/// Writes that a power cut reverts.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    list: Vec<Overwritten>,
    written: u64,
    /// Flushes in progress, with the last write that was complete when each was submitted.
    flushes: Vec<(Token, u64)>,
}

impl Cache {
    /// Records the contents of a range that a device is about to overwrite.
    pub(crate) fn overwrites(&mut self, device: u8, at: usize, held: &[u8]) {
        self.written += 1;
        self.list.push(Overwritten { number: self.written, device, at, held: held.to_vec() });
    }

    /// Notes the submission of a flush.
    pub(crate) fn flush_sent(&mut self, token: Token) {
        self.flushes.push((token, self.written));
    }

    /// Notes the completion of a flush, which makes earlier writes of the device durable.
    pub(crate) fn flushed(&mut self, token: Token, device: u8) {
        let at = self.flushes.iter().position(|(other, _)| *other == token).expect("it was sent");
        let (_, covered) = self.flushes.swap_remove(at);
        self.list.retain(|it| it.device != device || it.number > covered);
    }

    /// Reverts all uncovered writes at a power cut.
    pub(crate) fn lose(self, disk: &mut [u8]) {
        for Overwritten { at, held, .. } in self.list.into_iter().rev() {
            disk[at..at + held.len()].copy_from_slice(&held);
        }
    }
}
