//! The health of the devices of a volume, and the actions that an operator should take.

use hostftl_core::DeviceSet;
use hostftl_layers::LayerConfig;

use crate::metadata::journal;
use crate::open::refusal::degraded::beyond_parity;
use crate::running::status::space::Space;
use crate::running::status::tasks::TaskStatus;
use crate::running::status::{
    DeviceStatus, FAILING, FAULTED, JOURNAL, LOST, MISSING, ONLINE, REMOVED, SPARE, Status,
    VolumeState,
};
use crate::util::counted::counted;
use crate::util::events::{Events, KINDS, Level};

/// Tasks that restore redundancy.
const REBUILDS: [&str; 2] = ["rebuild", "resilver"];

impl DeviceStatus {
    /// Returns whether a device other than a spare is missing, lost or faulted.
    pub(crate) fn is_away(&self) -> bool {
        [MISSING, LOST, FAULTED].contains(&self.health.as_str()) && self.role != SPARE
    }

    /// Returns its health as an adjective.
    fn state(&self) -> &str {
        if self.health == "errors" { "failing" } else { &self.health }
    }
}

impl Status {
    /// Returns a warning that device `index` is healthy, with the unhealthy ones, if it is.
    pub(crate) fn note_if_healthy(&self, index: u8) -> Option<String> {
        let is_good = |device: &DeviceStatus| device.health == ONLINE;
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

    /// Sets the state of the volume; `has_failed` when the layer accepts no more writes.
    pub(crate) fn set_state(&mut self, has_failed: bool) {
        let space = self.space.as_ref();
        let unreadable = space.map_or(0, |it| it.unreadable_bytes);
        let degraded = self.degraded || space.is_some_and(|it| it.degraded_bytes > 0);
        let rebuilds =
            |it: &TaskStatus| REBUILDS.contains(&it.task.as_str()) && !it.paused && !it.needs_space;
        self.state = match degraded {
            _ if has_failed || unreadable > 0 || !self.lost_ranges.is_empty() => {
                VolumeState::Faulted
            }
            // A rebuild counts even if all data has redundancy again, until it ends durably.
            _ if self.tasks.iter().any(rebuilds) => VolumeState::Rebuilding,
            true => VolumeState::Degraded,
            false => VolumeState::Online,
        };
    }

    /// Splits the capacity of the data devices: after data, reclaimable and free space come parity
    /// and, as the remainder, metadata and reserves.
    pub(super) fn set_capacity(&mut self) {
        let data = self.devices.iter().filter(|it| it.role.is_empty() && it.health != REMOVED);
        let (count, raw) = data.fold((0, 0), |(count, raw), it| (count + 1, raw + it.bytes));
        let parity = LayerConfig::parse(&self.parameters).map_or(0, |layer| layer.tolerates());
        let Some(space) = &mut self.space else { return };
        space.set_capacity(raw, count, parity.into());
    }

    /// Lists the faults that need an operator.
    pub(crate) fn set_problems(&mut self, events: &Events) {
        let mut needs = Vec::new();
        for (index, device) in self.devices.iter().enumerate() {
            let volume = &self.volume;
            let why = match device.health.as_str() {
                ONLINE | REMOVED => continue,
                "errors" => format!(
                    "had {}: check the device and the kernel log, then run `hostftl clear {volume} \
                     {index}`",
                    counted(device.errors, "failed command")
                ),
                FAILING => format!(
                    "is failing ({}): run `hostftl device replace {volume} {index} NEW`",
                    counted(device.errors, "failed command")
                ),
                word if device.role == JOURNAL && self.served_by.is_some() && !self.read_only => {
                    format!(
                        "is {word}: reconnect it, then run `hostftl device online {volume} {index}`"
                    )
                }
                // Only a writable, served volume takes a journal back; else the start finds it.
                word if device.role == JOURNAL => format!("is {word}: reconnect it"),
                word if device.role == SPARE => format!(
                    "is {word}: reconnect it and run `hostftl device online {volume} {index}`, or \
                     add another with `hostftl device spare {volume} NEW`"
                ),
                word => {
                    format!("is {word}: run `hostftl device replace {volume} {index} NEW`")
                }
            };
            needs.push(format!("device {index} ({}) {why}", device.name));
        }
        if self.export_refused {
            needs.push(format!(
                "clients can use only the export name {} until the volume is started with \
                 --reuse-export-name",
                self.export
            ));
        }
        needs.extend(self.space.as_ref().and_then(Space::need));
        needs.extend(self.space.as_ref().and_then(|it| beyond_parity(it.unreadable_bytes)));
        if !self.lost_ranges.is_empty() {
            needs.push("some ranges are unreadable: reconnect the lost device".into());
        }
        needs.extend(events.damage());
        let open = events.open_totals();
        for (kind, level, meaning, todo) in KINDS {
            let count = open.get(kind).copied().unwrap_or_default();
            // The device states and the last scrub describe these better.
            let is_known = kind.starts_with("device-") || kind == "scrub-damage";
            if level == Level::Error && count > 0 && !is_known {
                needs.push(format!("{kind}, {}: {meaning}; {todo}", counted(count, "time")));
            }
        }
        self.problems = needs;
    }

    /// Adds the removals and rebuilds that are blocked because of insufficient space.
    pub(crate) fn need_room(&mut self) {
        let space = self.space.as_ref();
        let (exposed, excess) =
            space.map_or((0, 0), |it| (it.degraded_bytes, it.trim_required_bytes));
        let rebuilds = |task: &TaskStatus| REBUILDS.contains(&task.task.as_str());
        // With a running rebuild this will resolve itself.
        if exposed > 0 && self.degraded && !self.tasks.iter().any(rebuilds) {
            let todo = match excess {
                0 => "no rebuild is running: replace the lost device".into(),
                _ => format!(
                    "the remaining devices have too little space to rebuild: trim {excess} bytes, \
                     or replace the lost device"
                ),
            };
            self.problems.push(format!("{exposed} bytes lack redundancy, and {todo}"));
        }
        for task in self.tasks.iter().filter(|task| task.needs_space) {
            self.problems.push(format!(
                "{} has no space for {} bytes: trim, add a device, or keep the device with \
                 `hostftl device remove {} DEVICE --cancel`",
                task.task, task.remaining_bytes, self.volume
            ));
        }
    }

    /// Returns notes about the devices of the set `lost` that were present at the start.
    pub(crate) fn lost_notes(&self, lost: DeviceSet) -> Vec<String> {
        let devices = (0..).zip(&self.devices);
        let was_present = |(index, device): &(u8, &DeviceStatus)| {
            lost.contains(*index) && device.health != MISSING
        };
        devices
            .filter(was_present)
            .map(|(index, device)| match device.role.as_str() {
                JOURNAL => journal::AWAY.into(),
                _ => format!(
                    "DEGRADED: device {index} ({}) was lost; the volume runs without it",
                    device.name
                ),
            })
            .collect()
    }
}
