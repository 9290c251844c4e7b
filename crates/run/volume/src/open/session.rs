//! End of the last process that served the volume, and the export name of the current session.
//!
//! A client that reconnects automatically after its server died (`nbd-client -persist`, qemu with
//! `reconnect-delay`) assumes that acknowledged writes are present. If acknowledged, unflushed
//! writes may be lost, such a client must not get a successful reply to a flush. So the export name
//! has a generation: after an unclean end the plain name is refused until the operator permits its
//! reuse.
//!
//! # Invariants
//! - A *serving* mark is durable before the first client is accepted, and a *stopped* mark is
//!   written once everything is durable.
//! - Only a start that serves clients writes marks.

pub(crate) mod ack_log;
pub(crate) mod previous_run;

use std::fs;
use std::slice;

use hostftl_core::DeviceSet;
use hostftl_format::page::Fault;
use hostftl_format::session::{Mark, PLACES, mark_sector};
use hostftl_io::{Backing, Device, IoError};
use uuid::Uuid;

use crate::metadata::config::Config;
use crate::open::options::{Acks, Reach, Service, StartOptions};
use crate::open::session::ack_log::PreviousLog;
use crate::util::error::Error;

/// End of the last run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// The volume was never served.
    None,
    /// The volume was served, but no mark can be read.
    Damaged,
    /// The run left this mark.
    Mark(Mark),
}

/// Identity of this machine and its current boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MachineBoot {
    machine: [u8; 16],
    boot: [u8; 16],
}

/// A session of a volume that is about to be served, or is served.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    volume: [u8; 16],
    mark: Mark,
    /// Number of the previous run, or 0.
    last: u64,
    unclean: Option<&'static str>,
}

/// Export names of a volume after a clean or an unclean end.
pub(crate) struct ServedNames {
    /// Name that clients use.
    pub name: String,
    /// Alias of that name.
    pub also: Option<String>,
    /// Name that is refused for now, and the reason for clients.
    pub held: Option<(String, String)>,
    /// Whether writes that the last server acknowledged may be lost.
    pub forgot: bool,
}

/// Mark of a run whose end is unknown: the next run treats it as unclean.
const UNKNOWN: Mark = Mark {
    number: 1,
    run: 1,
    serving: true,
    through: false,
    beyond: true,
    generation: 1,
    plain: 1,
    machine: [0; 16],
    boot: [0; 16],
};
/// Start of the notes on an unclean end.
pub(crate) const UNCLEAN: &str = "the last run ended uncleanly";
/// Reasons why the last run lost nothing that a client relies on.
const DURABLE: &str = "writes were acknowledged when durable, so no data is lost";
const REBOOTED: &str = "the machine was restarted, so no client remains";
/// Warning that acknowledged writes may be lost.
const UNFLUSHED: &str = "acknowledged writes without a flush may be lost";
/// Reason why an unclean end lost nothing: the acknowledgement log.
const KEPT: &str = "acknowledged writes are in memory that outlived the server, so no data is lost";

impl Last {
    /// Reads the marks on the devices that are present and not in the set `lost`.
    pub(crate) fn read(config: &Config, devices: &[Device], lost: DeviceSet) -> Self {
        last(config.uuid.into_bytes(), devices, lost)
    }

    /// Returns the number of the run, or 0.
    pub(crate) fn run(&self) -> u64 {
        match self {
            Last::Mark(mark) => mark.run,
            _ => 0,
        }
    }
}

impl Session {
    /// Returns the session that follows the `last` run; `None` when clients are not served. `kept`
    /// means that all acknowledged writes of that run were preserved.
    pub(crate) fn next(
        options: &StartOptions,
        config: &Config,
        last: Last,
        kept: bool,
    ) -> Option<Self> {
        let service = options.service?;
        let volume = config.uuid.into_bytes();
        let through = options.acks == Acks::Media;
        let (mark, unclean) = decide(last, MachineBoot::now(), service, through, kept);
        Some(Session { volume, mark, last: last.run(), unclean })
    }

    /// Returns the number of the run.
    pub(crate) fn run(&self) -> u64 {
        self.mark.run
    }

    /// Returns the number of the previous run, or 0.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the boot ID of the machine.
    pub(crate) fn boot(&self) -> [u8; 16] {
        self.mark.boot
    }

    /// Marks the volume as serving on every device.
    pub(crate) fn serving(&self, devices: &[Device], lost: DeviceSet) -> Result<(), IoError> {
        write(&self.mark, self.volume, devices, lost)
    }

    /// Marks a clean stop on every device: everything is durable, and no clients are served.
    pub(crate) fn stopped(&self, devices: &[Device], lost: DeviceSet) -> Result<(), IoError> {
        // The mark with the highest number counts.
        let number = self.mark.number + 1;
        write(&Mark { number, serving: false, ..self.mark }, self.volume, devices, lost)
    }

    /// Returns whether the last run did not stop cleanly.
    pub(crate) fn is_unclean(&self) -> bool {
        self.unclean.is_some()
    }

    /// Returns the names under which a volume with the name `plain` is served.
    pub(crate) fn names(&self, plain: &str) -> ServedNames {
        ServedNames {
            name: self.name(plain),
            also: self.also(plain),
            held: self.refusal(plain).map(|why| (plain.to_owned(), why)),
            forgot: self.unclean == Some(UNFLUSHED),
        }
    }

    /// Returns the current export name of the volume `plain`.
    fn name(&self, plain: &str) -> String {
        if self.mark.plain == self.mark.generation {
            plain.into()
        } else {
            self.with_generation(plain)
        }
    }

    /// Returns the alias of the export name.
    fn also(&self, plain: &str) -> Option<String> {
        let named = self.mark.generation > 1 && self.mark.plain == self.mark.generation;
        named.then(|| self.with_generation(plain))
    }

    fn with_generation(&self, plain: &str) -> String {
        format!("{plain}@{}", self.mark.generation)
    }

    /// Returns the reason for clients that use the plain name, if that is refused.
    fn refusal(&self, plain: &str) -> Option<String> {
        (self.mark.plain != self.mark.generation).then(|| {
            format!(
                "the server died since generation {} of {plain}, and acknowledged writes without \
                 a flush may be lost; check dependent data, then use the name {}, or start the \
                 server with --reuse-export-name",
                self.mark.plain,
                self.with_generation(plain)
            )
        })
    }

    /// Describes an unclean end of the last run and its consequence.
    pub(crate) fn note(&self, plain: &str) -> Option<String> {
        let unclean = self.unclean.map(|why| format!("{UNCLEAN}: {why}"));
        let held = self.refusal(plain).map(|_| {
            format!(
                "clients can use only the name {}; stop the earlier clients, check their last \
                 writes, and start with --reuse-export-name for the plain name",
                self.with_generation(plain)
            )
        });
        let parts: Vec<String> = unclean.into_iter().chain(held).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Describes an unclean end of the last run of a volume that is not served.
pub(crate) fn unclean_end(config: &Config, devices: &[Device]) -> Result<Option<String>, Error> {
    let last = Last::read(config, devices, DeviceSet::EMPTY);
    let left = find_log(config, &last)?;
    // An empty log means that every acknowledged write had been flushed.
    let left = left.map(|left| if left.count() > 0 { left.waits() } else { KEPT.into() });
    let word = match last {
        Last::Mark(Mark { serving: false, .. }) | Last::None => return Ok(None),
        Last::Mark(Mark { through: true, .. }) => DURABLE.into(),
        _ => left.unwrap_or(UNFLUSHED.into()),
    };
    Ok(Some(format!("{UNCLEAN}: {word}")))
}

/// Writes a mark of an unknown end if the devices have no mark, so that the next run treats the
/// last one as unclean.
pub(crate) fn forget_end(volume: Uuid, devices: &[Device]) -> Result<(), IoError> {
    // An existing mark already describes the end and must not be replaced by a worse one.
    if last(volume.into_bytes(), devices, DeviceSet::EMPTY) != Last::None {
        return Ok(());
    }
    write(&UNKNOWN, volume.into_bytes(), devices, DeviceSet::EMPTY)
}

/// Writes the newest mark of the other devices to a new one, while the volume is not served.
pub(crate) fn carry_over(volume: Uuid, devices: &[Device], new: &Device) -> Result<(), IoError> {
    let mark = match last(volume.into_bytes(), devices, DeviceSet::EMPTY) {
        Last::None => return Ok(()),
        // The new device must not look as if the volume had never been served.
        Last::Damaged => UNKNOWN,
        Last::Mark(mark) => mark,
    };
    write(&mark, volume.into_bytes(), slice::from_ref(new), DeviceSet::EMPTY)
}

/// Returns the acknowledgement log of the last run, if that run died since the machine was booted.
pub(crate) fn find_log(config: &Config, last: &Last) -> Result<Option<PreviousLog>, Error> {
    let here = MachineBoot::now();
    match last {
        // The log is in memory: after a reboot or on another machine it cannot be that of the last
        // server.
        Last::Mark(mark)
            if mark.serving && (mark.machine, mark.boot) == (here.machine, here.boot) =>
        {
            PreviousLog::find(config.uuid, mark.run, here.boot)
        }
        _ => Ok(None),
    }
}

/// Returns the mark of this run before its clients connect, and a description of an unclean end of
/// the last one. `kept` means that all its acknowledged writes were preserved.
fn decide(
    last: Last,
    here: MachineBoot,
    service: Service,
    through: bool,
    kept: bool,
) -> (Mark, Option<&'static str>) {
    let (number, run, generation, plain) = match last {
        Last::Mark(mark) => (mark.number, mark.run, mark.generation, mark.plain),
        _ => (0, 0, 1, 1),
    };
    let unclean = match last {
        Last::Mark(mark) if mark.serving && kept => Some(KEPT),
        Last::Mark(mark) if mark.serving => Some(loss(&mark, here)),
        Last::Damaged => Some(UNFLUSHED),
        _ => None,
    };
    // Only a possible loss of acknowledged writes requires a new name.
    let generation = generation.saturating_add(u32::from(unclean == Some(UNFLUSHED)));
    let mark = Mark {
        number: number + 1,
        run: run + 1,
        serving: true,
        through,
        beyond: service.reach == Reach::Beyond,
        generation,
        plain: if service.reuse_export_name { generation } else { plain },
        machine: here.machine,
        boot: here.boot,
    };
    (mark, unclean)
}

/// Returns the loss that an uncleanly ended run may have caused for clients that still exist.
fn loss(mark: &Mark, here: MachineBoot) -> &'static str {
    // An ID that cannot be read is zero. Two unknown IDs must not count as equal.
    let known = ![mark.machine, mark.boot, here.machine, here.boot].contains(&[0; 16]);
    let rebooted = known && mark.machine == here.machine && mark.boot != here.boot;
    // A reboot ends only the clients on this machine; clients `beyond` it may still wait.
    match (mark.through, rebooted && !mark.beyond) {
        (true, _) => DURABLE,
        (false, true) => REBOOTED,
        (false, false) => UNFLUSHED,
    }
}

impl MachineBoot {
    fn now() -> Self {
        let read = |path| -> [u8; 16] {
            let text = fs::read_to_string(path).unwrap_or_default();
            Uuid::parse_str(text.trim()).map_or([0; 16], Uuid::into_bytes)
        };
        let machine = read("/etc/machine-id");
        MachineBoot { machine, boot: read("/proc/sys/kernel/random/boot_id") }
    }
}

/// Returns the devices that can have a mark.
fn members(devices: &[Device], lost: DeviceSet) -> impl Iterator<Item = &Device> {
    let all = (0..).zip(devices);
    let there = all.filter(move |(index, device)| {
        !lost.contains(*index) && !matches!(device.backing(), Backing::Absent | Backing::Memory)
    });
    there.map(|(_, device)| device)
}

fn last(volume: [u8; 16], devices: &[Device], lost: DeviceSet) -> Last {
    let (mut newest, mut damaged): (Option<Mark>, bool) = (None, false);
    for device in members(devices, lost) {
        for at in PLACES {
            let found = device.read_page(at).map(|page| Mark::parse(&page, volume, at));
            match found {
                Ok(Ok(mark)) if newest.is_none_or(|newest| newest.number < mark.number) => {
                    newest = Some(mark);
                }
                Ok(Ok(_) | Err(Fault::Foreign)) => {}
                // A damaged mark matters only if no sound one is found.
                Ok(Err(Fault::Damaged)) | Err(_) => damaged = true,
            }
        }
    }
    match newest {
        Some(mark) => Last::Mark(mark),
        None if damaged => Last::Damaged,
        None => Last::None,
    }
}

fn write(
    mark: &Mark,
    volume: [u8; 16],
    devices: &[Device],
    lost: DeviceSet,
) -> Result<(), IoError> {
    let page = mark.emit(volume);
    // Consecutive marks alternate between two sectors, so a torn write leaves the previous one
    // intact.
    let write = |device: &Device| {
        device.write_page(mark_sector(mark.number), &page).and_then(|()| device.sync())
    };
    let results: Vec<_> = members(devices, lost).map(write).collect();
    // One durable mark suffices, because the newest one counts.
    if results.iter().any(Result::is_ok) {
        Ok(())
    } else {
        results.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: MachineBoot = MachineBoot { machine: [1; 16], boot: [2; 16] };
    const AGAIN: MachineBoot = MachineBoot { machine: [1; 16], boot: [3; 16] };
    const THERE: MachineBoot = MachineBoot { machine: [4; 16], boot: [5; 16] };
    const LOCAL: Service = Service { reach: Reach::Machine, reuse_export_name: false };
    const REMOTE: Service = Service { reach: Reach::Beyond, reuse_export_name: false };
    const GO_ON: Service = Service { reach: Reach::Machine, reuse_export_name: true };

    fn stopped(mark: Mark) -> Last {
        Last::Mark(Mark { number: mark.number + 1, serving: false, ..mark })
    }

    fn session(mark: Mark) -> Session {
        Session { volume: [7; 16], mark, last: 0, unclean: None }
    }

    #[test]
    fn clean_stops_change_no_name() {
        let mut last = Last::None;
        for run in 1..5 {
            let (mark, unclean) = decide(last, HERE, LOCAL, false, false);
            assert_eq!((mark.run, mark.generation, mark.plain), (run, 1, 1));
            assert_eq!(unclean, None);
            let now = session(mark);
            assert_eq!((now.name("v"), now.also("v"), now.refusal("v")), ("v".into(), None, None));
            last = stopped(mark);
        }
    }

    #[test]
    fn an_unclean_shutdown_reserves_the_export_name_until_consent() {
        let (first, _) = decide(Last::None, HERE, LOCAL, false, false);
        let (second, unclean) = decide(Last::Mark(first), HERE, LOCAL, false, false);
        assert_eq!(unclean, Some(UNFLUSHED));
        let now = session(second);
        assert_eq!((now.name("v"), now.also("v")), ("v@2".into(), None));
        assert!(now.refusal("v").unwrap().contains("v@2"));
        // A clean stop in between does not confirm anything: the old clients may still exist.
        let (third, unclean) = decide(stopped(second), HERE, LOCAL, false, false);
        assert_eq!((session(third).name("v"), unclean), ("v@2".into(), None));
        assert!(session(third).note("v").unwrap().contains("--reuse-export-name"));
        // Each unclean end changes the name: clients of the second run can't use the third name.
        let (fourth, _) = decide(Last::Mark(third), HERE, LOCAL, false, false);
        assert_eq!(session(fourth).name("v"), "v@3");
        // The confirmation lasts, and the name with the generation remains an alias.
        let (fifth, _) = decide(stopped(fourth), HERE, GO_ON, false, false);
        assert_eq!(session(fifth).name("v"), "v");
        assert_eq!(session(fifth).also("v"), Some("v@3".into()));
        let (sixth, _) = decide(stopped(fifth), HERE, LOCAL, false, false);
        assert_eq!((session(sixth).name("v"), session(sixth).refusal("v")), ("v".into(), None));
    }

    #[test]
    fn the_word_right_after_a_death_is_not_for_names_with_a_generation() {
        let (first, _) = decide(Last::None, HERE, LOCAL, false, false);
        let (second, _) = decide(Last::Mark(first), HERE, LOCAL, false, false);
        let (third, _) = decide(Last::Mark(second), HERE, GO_ON, false, false);
        let now = session(third);
        assert_eq!((now.name("v"), now.also("v")), ("v".into(), Some("v@3".into())));
    }

    #[test]
    fn durable_acknowledgements_lose_nothing() {
        let (first, _) = decide(Last::None, HERE, REMOTE, true, false);
        let (second, unclean) = decide(Last::Mark(first), HERE, REMOTE, false, false);
        assert_eq!((unclean, second.generation), (Some(DURABLE), 1));
    }

    #[test]
    fn preserved_acknowledged_writes_lose_nothing() {
        let (first, _) = decide(Last::None, HERE, REMOTE, false, false);
        let (second, unclean) = decide(Last::Mark(first), HERE, REMOTE, false, true);
        assert_eq!((unclean, second.generation), (Some(KEPT), 1));
        let (third, unclean) = decide(stopped(second), HERE, REMOTE, false, false);
        assert_eq!((unclean, third.generation), (None, 1));
    }

    #[test]
    fn a_reboot_ends_local_clients_only() {
        for (service, here, expected) in [
            (LOCAL, AGAIN, 1),
            (REMOTE, AGAIN, 2),
            (LOCAL, HERE, 2),
            // On another machine the clients of the first run may still exist, and reconnect.
            (LOCAL, THERE, 2),
            (LOCAL, MachineBoot { boot: [0; 16], ..HERE }, 2),
        ] {
            let (first, _) = decide(Last::None, HERE, service, false, false);
            // The clients of the previous run matter, regardless of those permitted now.
            let (second, _) = decide(Last::Mark(first), here, LOCAL, false, false);
            assert_eq!(second.generation, expected, "{service:?} {here:?}");
        }
    }

    #[test]
    fn an_unreadable_mark_is_not_a_clean_shutdown() {
        let (mark, unclean) = decide(Last::Damaged, HERE, LOCAL, false, false);
        assert_eq!((mark.generation, mark.plain, unclean), (2, 1, Some(UNFLUSHED)));
    }
}
