//! Commands of an operator to a running layer, and the progress of its background tasks.

use crate::DeviceSet;

/// Command of an operator. Devices are indices in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminCommand {
    /// Takes a device offline, as if it had failed.
    Offline(u8),
    /// Brings a lost device back with its contents, and resilvers its missing chunks.
    Returned {
        /// Index of the device.
        device: u8,
        /// Number of the last write of the layer that is certainly on the device, as reported by
        /// the layer's registration; 0 when there is none.
        has: u64,
    },
    /// Moves the data of a device to the others, then removes it.
    Remove(u8),
    /// Checks whether `Remove` would be accepted, without starting it.
    MayRemove(u8),
    /// Cancels an operation on a device.
    Cancel(u8),
    /// Replaces a lost device by an empty one, and resilvers its missing chunks.
    Replaced {
        /// Index of the device, which stays the same.
        device: u8,
        /// Whether the new device benefits from discards.
        discard: bool,
    },
    /// Replaces a device by another one with a complete copy. Its fault count starts again at zero.
    Copied {
        /// Index of the device, which stays the same.
        device: u8,
        /// Whether the new device benefits from discards.
        discard: bool,
    },
    /// Checks whether `Replaced` would be accepted, without starting it. The answer is
    /// [`AdminOutcome::NoChange`] when the present device must be taken offline first.
    MayReplace(u8),
    /// Controls a scrub of all valid data.
    Scrub(Scrub),
    /// Changes a parameter.
    Set(Setting),
    /// Hurries a checkpoint, so that a device that is absent from then on misses few chunks. The
    /// answer is [`AdminOutcome::Started`] when the checkpoint starts now,
    /// [`AdminOutcome::NoChange`] while an earlier one is still in progress.
    Settle,
    /// Resets the fault count of a device, after an operator has seen it.
    Clear(u8),
    /// Marks a device in use as damaged: damage of the previous run is not known to be repaired.
    Doubt {
        /// Index of the device.
        device: u8,
        /// Whether it had failed repeatedly.
        is_failing: bool,
    },
}

/// Control of a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scrub {
    /// Starts a scrub at this position. A running or paused one continues at its own position.
    /// Positions are opaque: see [`Task::place`].
    Start(u64),
    /// Pauses the scrub and keeps its position.
    Pause,
    /// Resumes a paused scrub.
    Resume,
    /// Ends the scrub at its position.
    Stop,
}

/// Parameter that can change while a layer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Share of the devices' time for background work while a host is active, in percent.
    RebuildShare(u8),
    /// Number of the victim policy.
    Gc(u16),
    /// Failed reads and mismatches after which a device is faulted; 0 for never.
    FaultAfter(u16),
}

/// Outcome of an accepted command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminOutcome {
    /// The command was executed or started; [`crate::Layer::tasks`] then reports its progress.
    Started,
    /// Nothing had to be changed.
    NoChange,
}

/// Reason why a command was refused; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The layer does not support the command.
    Unable,
    /// The command is not possible now or in this form; the text is the reason.
    Because(&'static str),
    /// This number of bytes of valid data has no space without the device.
    Full(u64),
    /// These devices have known damage that is not repaired yet, and the device is needed for the
    /// repair. Empty when the damaged device is not known.
    Damaged(DeviceSet),
}

/// Kind of background task, in order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskKind {
    /// Rebuilds the missing chunks of a lost device on the remaining devices.
    Rebuild,
    /// Writes the missing chunks of a device that was added, replaced or brought back.
    Resilver,
    /// Moves the data of a device to the others.
    Evacuate,
    /// Reads and verifies all valid data.
    Scrub,
}

impl TaskKind {
    /// All kinds, in order.
    pub const ALL: [TaskKind; 4] =
        [TaskKind::Rebuild, TaskKind::Resilver, TaskKind::Evacuate, TaskKind::Scrub];

    /// Returns the name for users.
    pub const fn name(self) -> &'static str {
        match self {
            TaskKind::Rebuild => "rebuild",
            TaskKind::Resilver => "resilver",
            TaskKind::Evacuate => "evacuate",
            TaskKind::Scrub => "scrub",
        }
    }
}

/// Progress of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Kind of task.
    pub kind: TaskKind,
    /// Whether an operator paused it.
    pub is_paused: bool,
    /// Whether it waits for space on its target devices.
    pub lacks_room: bool,
    /// Bytes of valid data, as stored on the devices, that are done.
    pub done: u64,
    /// Bytes that are left.
    pub left: u64,
    /// Position, from which a later start can continue.
    pub place: u64,
}

/// Reason why a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// The task is complete.
    Done,
    /// An operator stopped it.
    Stopped,
}

impl AdminCommand {
    /// Encodes the command as three numbers, for recordings.
    pub fn to_numbers(self) -> [u64; 3] {
        match self {
            AdminCommand::Offline(device) => [0, device.into(), 0],
            AdminCommand::Returned { device, has } => [1, device.into(), has],
            AdminCommand::Remove(device) => [2, device.into(), 0],
            AdminCommand::Cancel(device) => [3, device.into(), 0],
            AdminCommand::Scrub(Scrub::Start(place)) => [4, 0, place],
            AdminCommand::Scrub(Scrub::Pause) => [4, 1, 0],
            AdminCommand::Scrub(Scrub::Resume) => [4, 2, 0],
            AdminCommand::Scrub(Scrub::Stop) => [4, 3, 0],
            AdminCommand::MayRemove(device) => [6, device.into(), 0],
            AdminCommand::Replaced { device, discard } => [7, device.into(), discard.into()],
            AdminCommand::MayReplace(device) => [8, device.into(), 0],
            AdminCommand::Settle => [9, 0, 0],
            AdminCommand::Clear(device) => [10, device.into(), 0],
            AdminCommand::Copied { device, discard } => [11, device.into(), discard.into()],
            AdminCommand::Doubt { device, is_failing } => [12, device.into(), is_failing.into()],
            AdminCommand::Set(Setting::RebuildShare(percent)) => [5, 0, percent.into()],
            AdminCommand::Set(Setting::Gc(policy)) => [5, 1, policy.into()],
            AdminCommand::Set(Setting::FaultAfter(limit)) => [5, 2, limit.into()],
        }
    }

    /// Decodes a command; `None` for unknown numbers.
    pub fn from_numbers([code, which, value]: [u64; 3]) -> Option<Self> {
        let (device, small) = (u8::try_from(which), u16::try_from(value));
        let found = match (code, which) {
            (0, _) => AdminCommand::Offline(device.ok()?),
            (1, _) => AdminCommand::Returned { device: device.ok()?, has: value },
            (2, _) => AdminCommand::Remove(device.ok()?),
            (3, _) => AdminCommand::Cancel(device.ok()?),
            (4, 0) => AdminCommand::Scrub(Scrub::Start(value)),
            (4, 1) => AdminCommand::Scrub(Scrub::Pause),
            (4, 2) => AdminCommand::Scrub(Scrub::Resume),
            (4, 3) => AdminCommand::Scrub(Scrub::Stop),
            (5, 0) => AdminCommand::Set(Setting::RebuildShare(u8::try_from(value).ok()?)),
            (6, _) => AdminCommand::MayRemove(device.ok()?),
            (7, _) => AdminCommand::Replaced { device: device.ok()?, discard: value == 1 },
            (8, _) => AdminCommand::MayReplace(device.ok()?),
            (9, _) => AdminCommand::Settle,
            (10, _) => AdminCommand::Clear(device.ok()?),
            (11, _) => AdminCommand::Copied { device: device.ok()?, discard: value == 1 },
            (12, _) => AdminCommand::Doubt { device: device.ok()?, is_failing: value == 1 },
            (5, 1) => AdminCommand::Set(Setting::Gc(small.ok()?)),
            (5, 2) => AdminCommand::Set(Setting::FaultAfter(small.ok()?)),
            _ => return None,
        };
        (found.to_numbers() == [code, which, value]).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_encode_a_command() {
        let commands = [
            AdminCommand::Offline(3),
            AdminCommand::Returned { device: 15, has: 1 << 50 },
            AdminCommand::Remove(0),
            AdminCommand::Cancel(1),
            AdminCommand::MayRemove(7),
            AdminCommand::Replaced { device: 2, discard: true },
            AdminCommand::Replaced { device: 0, discard: false },
            AdminCommand::MayReplace(3),
            AdminCommand::Copied { device: 4, discard: true },
            AdminCommand::Settle,
            AdminCommand::Scrub(Scrub::Start(1 << 40)),
            AdminCommand::Scrub(Scrub::Pause),
            AdminCommand::Scrub(Scrub::Resume),
            AdminCommand::Scrub(Scrub::Stop),
            AdminCommand::Set(Setting::RebuildShare(30)),
            AdminCommand::Set(Setting::Gc(2)),
            AdminCommand::Set(Setting::FaultAfter(50)),
            AdminCommand::Clear(3),
            AdminCommand::Doubt { device: 1, is_failing: true },
        ];
        for command in commands {
            assert_eq!(AdminCommand::from_numbers(command.to_numbers()), Some(command));
        }
        for wrong in [
            [13, 0, 0],
            [12, 0, 2],
            [9, 1, 0],
            [7, 0, 2],
            [4, 4, 0],
            [0, 256, 0],
            [0, 1, 1],
            [5, 0, 256],
            [4, 1, 1],
        ] {
            assert_eq!(AdminCommand::from_numbers(wrong), None, "{wrong:?}");
        }
    }
}
