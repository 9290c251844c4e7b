//! The health of the devices of a volume, and the actions that an operator should take.

use crate::metadata::journal;
use crate::open::refusal::degraded::beyond_parity;
use crate::running::status::space::Space;
use crate::running::status::tasks::TaskStatus;
use crate::running::status::{
    DeviceStatus, FAILING, FAULTED, JOURNAL, LOST, MISSING, REMOVED, SPARE, Status,
};
use crate::util::counted::counted;
use crate::util::events::{Events, KINDS, Level};

impl DeviceStatus {
    /// Whether the volume does without it, which has data on it.
    pub(crate) fn is_away(&self) -> bool {
        [MISSING, LOST, FAULTED].contains(&self.health.as_str()) && self.role != SPARE
    }

    /// Its health as it follows "is".
    fn state(&self) -> &str {
        if self.health == "errors" { "failing" } else { &self.health }
    }
}

impl Status {
    /// Returns a warning that device `index` is healthy, with the unhealthy ones, if it is.
    pub(crate) fn note_if_healthy(&self, index: u8) -> Option<String> {
        let is_good = |device: &DeviceStatus| device.health == "good";
        let one = self.devices.get(usize::from(index)).filter(|one| is_good(one))?;
        let others = self.devices.iter().filter(|it| !is_good(it) && it.health != REMOVED);
        let others =
            others.map(|it| format!("; device {} ({}) is {}", it.number, it.name, it.state()));
        Some(format!(
            "warning: device {index} ({}) is healthy{}",
            one.name,
            others.collect::<String>()
        ))
    }

    /// Lists the faults that need an operator.
    pub(crate) fn set_needs(&mut self, events: &Events) {
        let mut needs = Vec::new();
        for (index, device) in self.devices.iter().enumerate() {
            let why = match device.health.as_str() {
                "good" | REMOVED => continue,
                "errors" => format!("{} failed: look at it", counted(device.errors, "command")),
                FAILING => format!(
                    "is failing ({}): `hostftl device replace {} {index} NEW` puts another in its \
                     place",
                    counted(device.errors, "failed command"),
                    self.volume
                ),
                word if device.role == JOURNAL && self.served_by.is_some() && !self.read_only => {
                    format!(
                        "is {word}: bring it back, and `hostftl device online {} {index}` takes it",
                        self.volume
                    )
                }
                word if device.role == JOURNAL => format!("is {word}: bring it back"),
                word if device.role == SPARE => format!(
                    "is {word}: bring it back with `hostftl device online {} {index}`, or add \
                     another with `hostftl device spare`",
                    self.volume
                ),
                word => format!(
                    "is {word}: `hostftl device replace {} {index} NEW` puts another in its place",
                    self.volume
                ),
            };
            needs.push(format!("device {index} ({}) {why}", device.name));
        }
        if self.held {
            let name = &self.export;
            needs.push(format!("clients get it as {name} alone until it is started with --go-on"));
        }
        needs.extend(self.space.as_ref().and_then(Space::need));
        needs.extend(self.space.as_ref().and_then(|it| beyond_parity(it.unreadable_bytes)));
        if !self.lost_ranges.is_empty() {
            needs.push("ranges can't be read: bring the lost device back".into());
        }
        needs.extend(events.damage());
        let open = events.open_totals();
        for (kind, level, meaning, todo) in KINDS {
            let count = open.get(kind).copied().unwrap_or_default();
            // The state of the devices, and the last scrub, say this better.
            let is_known = kind.starts_with("device-") || kind == "scrub-damage";
            if level == Level::Error && count > 0 && !is_known {
                needs.push(format!("{kind}, {}: {meaning}; {todo}", counted(count, "time")));
            }
        }
        self.needs_hand = needs;
    }

    /// Lists removals and rebuilds that stand still for want of room.
    pub(crate) fn need_room(&mut self) {
        let space = self.space.as_ref();
        let (exposed, excess) = space.map_or((0, 0), |it| (it.exposed_bytes, it.excess_bytes));
        let rebuilds = |task: &TaskStatus| ["protect", "join"].contains(&task.task.as_str());
        if exposed > 0 && self.degraded && !self.tasks.iter().any(rebuilds) {
            let todo = match excess {
                0 => "nothing is rebuilt: replace the lost device".into(),
                _ => format!(
                    "the remaining devices have no room to rebuild them: trim {excess} bytes, or \
                     replace the lost device"
                ),
            };
            self.needs_hand.push(format!("{exposed} bytes lack redundancy, and {todo}"));
        }
        for task in self.tasks.iter().filter(|task| task.lacks_room) {
            self.needs_hand.push(format!(
                "{} has no room for {} bytes: trim, add a device, or keep the device with \
                 `hostftl device remove {} DEVICE --cancel`",
                task.task, task.left_bytes, self.volume
            ));
        }
    }

    /// The faults of the devices of the set `lost` that were there at the start.
    pub(crate) fn of_lost(&self, lost: u16) -> Vec<String> {
        let gone = self
            .devices
            .iter()
            .enumerate()
            .filter(|(index, device)| lost >> index & 1 == 1 && device.health != MISSING);
        gone.map(|(index, device)| match device.role.as_str() {
            JOURNAL => journal::AWAY.into(),
            _ => format!(
                "DEGRADED: device {index} ({}) was lost; the volume goes on without it",
                device.name
            ),
        })
        .collect()
    }
}
