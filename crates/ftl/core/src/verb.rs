//! What an operator wants of a layer that serves, and how far the layer is with it.

/// What an operator wants. Devices are indices in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Do without a device from now on, as if it had failed.
    Offline(u8),
    /// A device is back that was done without, with what it had: make what it lacks.
    Returned {
        /// The index.
        device: u8,
        /// The last of what the layer wrote that the device has for sure, as the registration of
        /// the layer tells it; 0 when that is nothing.
        has: u64,
    },
    /// Move what lies on a device elsewhere, then do without it.
    Remove(u8),
    /// Whether that would be taken: nothing is begun.
    MayRemove(u8),
    /// Leave off what was begun with a device.
    Cancel(u8),
    /// Another device, which holds nothing, came in the place of one that is done without: make
    /// what it lacks.
    Replaced {
        /// The index, which stays the same.
        device: u8,
        /// Whether the new device gains from knowing what is free.
        discard: bool,
    },
    /// Another device holds a complete copy of this one and took its place. Its failures so far do
    /// not count for the new one.
    Copied {
        /// The index, which stays the same.
        device: u8,
        /// Whether the new device gains from knowing what is free.
        discard: bool,
    },
    /// Whether another device may come in the place of this one: nothing is begun.
    /// [`Answer::WasSo`] when the one that is there has to be done without first.
    MayReplace(u8),
    /// Read and check everything that is live.
    Scrub(Scrub),
    /// Another value of a parameter.
    Set(Setting),
    /// Write down soon where all data is, so that a device that is away from then on lacks little:
    /// [`Answer::Begun`] when that is begun now, [`Answer::WasSo`] while it goes on since before.
    Settle,
    /// Forget how often a device failed: an operator has seen it.
    Clear(u8),
    /// A device that is in use had damage, not known to be repaired, when the volume was served
    /// before.
    Doubt {
        /// The index.
        device: u8,
        /// Whether it had failed repeatedly.
        is_failing: bool,
    },
}

/// What is to become of a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scrub {
    /// Begin one at this place; one that is under way or rests goes on where it is. Places are the
    /// layer's own: see [`Task::place`].
    Start(u64),
    /// Rest, and keep the place.
    Pause,
    /// Go on after a rest.
    Resume,
    /// End it where it is.
    Stop,
}

/// A parameter that can change while a layer serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// How much of the devices' time background work may take beside a host, in percent.
    RebuildShare(u8),
    /// The victim policy that has this number among the layers'.
    Gc(u16),
    /// Failed reads and mismatches after which a device is given up; 0 for never.
    FaultAfter(u16),
}

/// What came of a verb that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done, or begun: then [`crate::Layer::tasks`] tells how far it is.
    Begun,
    /// There was nothing to do: it was so already.
    WasSo,
}

/// Why a verb was not taken; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This layer can't do that.
    Unable,
    /// It can't now, or not so; the text says why.
    Because(&'static str),
    /// So many bytes of what lives have no room without the device.
    Full(u64),
    /// Known damage of these devices, a set of bits, is not repaired yet, and the device is needed
    /// for that. Empty where it is not known which one is damaged.
    Damaged(u16),
}

/// Work that goes on in the background, in the order in which it is done.
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
    /// All, in order.
    pub const ALL: [TaskKind; 4] =
        [TaskKind::Rebuild, TaskKind::Resilver, TaskKind::Evacuate, TaskKind::Scrub];

    /// The word for users.
    pub const fn name(self) -> &'static str {
        match self {
            TaskKind::Rebuild => "rebuild",
            TaskKind::Resilver => "resilver",
            TaskKind::Evacuate => "evacuate",
            TaskKind::Scrub => "scrub",
        }
    }
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// What it does.
    pub kind: TaskKind,
    /// Whether an operator lets it rest.
    pub is_paused: bool,
    /// Whether it can't go on for now because there is too little room where it moves to.
    pub lacks_room: bool,
    /// Bytes that are done, and that are left: what is live, as it lies on the devices.
    pub done: u64,
    /// See `done`.
    pub left: u64,
    /// Where it is, for a start that goes on there.
    pub place: u64,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// All is done.
    Done,
    /// Somebody ended it before.
    Stopped,
}

impl Verb {
    /// The verb as three numbers, for recordings.
    pub fn to_numbers(self) -> [u64; 3] {
        match self {
            Verb::Offline(device) => [0, device.into(), 0],
            Verb::Returned { device, has } => [1, device.into(), has],
            Verb::Remove(device) => [2, device.into(), 0],
            Verb::Cancel(device) => [3, device.into(), 0],
            Verb::Scrub(Scrub::Start(place)) => [4, 0, place],
            Verb::Scrub(Scrub::Pause) => [4, 1, 0],
            Verb::Scrub(Scrub::Resume) => [4, 2, 0],
            Verb::Scrub(Scrub::Stop) => [4, 3, 0],
            Verb::MayRemove(device) => [6, device.into(), 0],
            Verb::Replaced { device, discard } => [7, device.into(), discard.into()],
            Verb::MayReplace(device) => [8, device.into(), 0],
            Verb::Settle => [9, 0, 0],
            Verb::Clear(device) => [10, device.into(), 0],
            Verb::Copied { device, discard } => [11, device.into(), discard.into()],
            Verb::Doubt { device, is_failing } => [12, device.into(), is_failing.into()],
            Verb::Set(Setting::RebuildShare(percent)) => [5, 0, percent.into()],
            Verb::Set(Setting::Gc(policy)) => [5, 1, policy.into()],
            Verb::Set(Setting::FaultAfter(limit)) => [5, 2, limit.into()],
        }
    }

    /// The verb that has these numbers; none when there is none.
    pub fn from_numbers([verb, which, value]: [u64; 3]) -> Option<Self> {
        let (device, small) = (u8::try_from(which), u16::try_from(value));
        let found = match (verb, which) {
            (0, _) => Verb::Offline(device.ok()?),
            (1, _) => Verb::Returned { device: device.ok()?, has: value },
            (2, _) => Verb::Remove(device.ok()?),
            (3, _) => Verb::Cancel(device.ok()?),
            (4, 0) => Verb::Scrub(Scrub::Start(value)),
            (4, 1) => Verb::Scrub(Scrub::Pause),
            (4, 2) => Verb::Scrub(Scrub::Resume),
            (4, 3) => Verb::Scrub(Scrub::Stop),
            (5, 0) => Verb::Set(Setting::RebuildShare(u8::try_from(value).ok()?)),
            (6, _) => Verb::MayRemove(device.ok()?),
            (7, _) => Verb::Replaced { device: device.ok()?, discard: value == 1 },
            (8, _) => Verb::MayReplace(device.ok()?),
            (9, _) => Verb::Settle,
            (10, _) => Verb::Clear(device.ok()?),
            (11, _) => Verb::Copied { device: device.ok()?, discard: value == 1 },
            (12, _) => Verb::Doubt { device: device.ok()?, is_failing: value == 1 },
            (5, 1) => Verb::Set(Setting::Gc(small.ok()?)),
            (5, 2) => Verb::Set(Setting::FaultAfter(small.ok()?)),
            _ => return None,
        };
        (found.to_numbers() == [verb, which, value]).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_is_its_numbers() {
        let verbs = [
            Verb::Offline(3),
            Verb::Returned { device: 15, has: 1 << 50 },
            Verb::Remove(0),
            Verb::Cancel(1),
            Verb::MayRemove(7),
            Verb::Replaced { device: 2, discard: true },
            Verb::Replaced { device: 0, discard: false },
            Verb::MayReplace(3),
            Verb::Copied { device: 4, discard: true },
            Verb::Settle,
            Verb::Scrub(Scrub::Start(1 << 40)),
            Verb::Scrub(Scrub::Pause),
            Verb::Scrub(Scrub::Resume),
            Verb::Scrub(Scrub::Stop),
            Verb::Set(Setting::RebuildShare(30)),
            Verb::Set(Setting::Gc(2)),
            Verb::Set(Setting::FaultAfter(50)),
            Verb::Clear(3),
            Verb::Doubt { device: 1, is_failing: true },
        ];
        for verb in verbs {
            assert_eq!(Verb::from_numbers(verb.to_numbers()), Some(verb));
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
            assert_eq!(Verb::from_numbers(wrong), None, "{wrong:?}");
        }
    }
}
