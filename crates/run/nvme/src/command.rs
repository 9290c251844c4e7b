//! Commands that query a drive, and the interface that sends them.

/// Maximum length of a requested page.
pub const PAGE_BYTES: usize = 4096;

/// Queue of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Admin queue of the controller.
    Admin,
    /// I/O queue of a namespace.
    Io,
}

/// Read-only command that returns a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Queue.
    pub queue: Queue,
    /// Opcode.
    pub opcode: u8,
    /// Namespace; 0 for none, all ones for all.
    pub namespace: u32,
    /// Words 10 to 15 of the command.
    pub words: [u32; 6],
    /// Length of the returned page in bytes.
    pub bytes: usize,
}

/// Number for all namespaces.
const ALL: u32 = u32::MAX;

/// Interface that sends commands to a drive.
pub trait Carrier {
    /// Sends a command and stores the returned data in `page`. Returns the first word of the
    /// completion.
    ///
    /// # Errors
    /// A message, when the drive or the system refuses.
    fn carry(&mut self, command: &Command, page: &mut [u8]) -> Result<u32, String>;
}

impl Command {
    /// Builds an Identify command for the structure `cns`.
    pub(crate) fn identify(cns: u32, namespace: u32) -> Self {
        let words = [cns, 0, 0, 0, 0, 0];
        Command { queue: Queue::Admin, opcode: 0x06, namespace, words, bytes: PAGE_BYTES }
    }

    /// Builds the Identify Controller command, which every drive supports.
    pub fn who() -> Self {
        Self::identify(1, 0)
    }

    /// Builds a Get Log Page command for `bytes` bytes; `scope` is the endurance group of pages
    /// that have one.
    pub(crate) fn log(page: u32, scope: u16, bytes: usize) -> Self {
        assert!(bytes.is_multiple_of(4) && bytes <= PAGE_BYTES, "whole words of one page");
        let dwords = bytes as u32 / 4 - 1;
        let words = [page | (dwords & 0xffff) << 16, u32::from(scope) << 16, 0, 0, 0, 0];
        Command { queue: Queue::Admin, opcode: 0x02, namespace: ALL, words, bytes }
    }

    /// Builds a Get Features command for flexible data placement in an endurance group.
    pub(crate) fn placement_feature(group: u16) -> Self {
        let words = [0x1d, group.into(), 0, 0, 0, 0];
        Command { queue: Queue::Admin, opcode: 0x0a, namespace: 0, words, bytes: 0 }
    }

    /// Builds an I/O Management Receive command for the reclaim unit handles of a namespace.
    pub(crate) fn handles(namespace: u32, bytes: usize) -> Self {
        let words = [0x01, bytes as u32 / 4 - 1, 0, 0, 0, 0];
        Command { queue: Queue::Io, opcode: 0x12, namespace, words, bytes }
    }
}

/// Describes a drive's refusal by the status of its completion.
pub fn refusal(status: u16) -> String {
    let known = match status & 0x7ff {
        0x001 => "unknown command",
        0x002 => "invalid field in command",
        0x00b => "no such namespace",
        0x00f => "wrong buffer length",
        0x029 => "FDP is disabled",
        0x109 => "no such log page",
        _ => "see the NVMe specification",
    };
    format!("the drive returned status {:03x}h: {known}", status & 0x7ff)
}
