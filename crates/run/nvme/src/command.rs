//! Commands that ask a drive, and who carries them.

/// The longest page that is asked for.
pub const PAGE_BYTES: usize = 4096;

/// Which queue a command goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// That of the controller.
    Admin,
    /// That of a namespace's reads and writes.
    Io,
}

/// A command that changes nothing and brings a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The queue.
    pub queue: Queue,
    /// The operation.
    pub opcode: u8,
    /// The namespace; 0 for none, all ones for all.
    pub namespace: u32,
    /// Words 10 to 15 of the command.
    pub words: [u32; 6],
    /// Bytes that come back.
    pub bytes: usize,
}

/// All namespaces.
const ALL: u32 = u32::MAX;

/// Who brings commands to a drive.
pub trait Carrier {
    /// Carries a command; what the drive answers is in `page` then. The result is the first word of
    /// the completion.
    ///
    /// # Errors
    /// In words, when the drive or the system refuses.
    fn carry(&mut self, command: &Command, page: &mut [u8]) -> Result<u32, String>;
}

impl Command {
    /// Identify, of the structure `cns`.
    pub(crate) fn identify(cns: u32, namespace: u32) -> Self {
        let words = [cns, 0, 0, 0, 0, 0];
        Command { queue: Queue::Admin, opcode: 0x06, namespace, words, bytes: PAGE_BYTES }
    }

    /// Who the drive is: what every drive answers.
    pub fn who() -> Self {
        Self::identify(1, 0)
    }

    /// Get Log Page, of `bytes` bytes; `scope` is the endurance group where the page has one.
    pub(crate) fn log(page: u32, scope: u16, bytes: usize) -> Self {
        assert!(bytes.is_multiple_of(4) && bytes <= PAGE_BYTES, "whole words of one page");
        let dwords = bytes as u32 / 4 - 1;
        let words = [page | (dwords & 0xffff) << 16, u32::from(scope) << 16, 0, 0, 0, 0];
        Command { queue: Queue::Admin, opcode: 0x02, namespace: ALL, words, bytes }
    }

    /// Get Features, of flexible data placement in an endurance group.
    pub(crate) fn placement_feature(group: u16) -> Self {
        let words = [0x1d, group.into(), 0, 0, 0, 0];
        Command { queue: Queue::Admin, opcode: 0x0a, namespace: 0, words, bytes: 0 }
    }

    /// I/O Management Receive, of the reclaim unit handles of a namespace.
    pub(crate) fn handles(namespace: u32, bytes: usize) -> Self {
        let words = [0x01, bytes as u32 / 4 - 1, 0, 0, 0, 0];
        Command { queue: Queue::Io, opcode: 0x12, namespace, words, bytes }
    }
}

/// A drive's refusal, by the status of its completion, in words.
pub fn refusal(status: u16) -> String {
    let known = match status & 0x7ff {
        0x001 => "it does not know the command",
        0x002 => "it does not know a field of the command",
        0x00b => "there is no such namespace",
        0x00f => "the buffer has another length than what it has to tell",
        0x029 => "flexible data placement is off",
        0x109 => "it has no such log page",
        _ => "see the NVMe specification",
    };
    format!("the drive refuses with status {:03x}h: {known}", status & 0x7ff)
}
