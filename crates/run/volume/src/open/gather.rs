//! Search for the members of a volume: which are present, which a start waits for, and whether
//! starting without a member requires consent.

use std::path::Path;
use std::time::{Duration, Instant};

use hostftl_core::DeviceSet;
use hostftl_format::assemble::Verdict;
use hostftl_format::superblock::Superblock;
use hostftl_io::{Access, IoError, cancel};
use uuid::Uuid;

use crate::metadata::config::MISSING;
use crate::open::cut::InterruptedChange;
use crate::open::names::Names;
use crate::open::stack::{Assembly, Member, Redundancy, absent, find_newest, judge, open_member};
use crate::open::stack::{order, time};
use crate::util::error::Error;

/// Interval of attempts to open an absent member.
const PAUSE: Duration = Duration::from_millis(200);

/// Commands that continue without a member permanently, and the one that only checks.
const SERVE: &str = "hostftl serve --degraded";
const READ: &str = "hostftl serve --read-only --degraded";
pub(crate) const CHECK: &str = "hostftl check --degraded";

/// Options for opening a volume.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Opens the volume without missing members.
    pub degraded: bool,
    /// Whether anything may be written to the devices, at any time.
    pub access: Access,
    /// Longest wait for absent members.
    pub wait: Duration,
    /// Command that continues without a member, for messages.
    pub command: &'static str,
    /// Deadlines of the devices' commands in seconds, by name. For other devices the volume file
    /// applies.
    pub deadlines: Vec<(String, u64)>,
    /// Receives a message about the devices that the start waits for.
    pub report: fn(&str),
}

impl OpenOptions {
    /// Returns the options for a volume that is only read.
    pub fn read_only() -> Self {
        OpenOptions { access: Access::ReadOnly, command: READ, ..OpenOptions::default() }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            degraded: false,
            access: Access::Full,
            wait: Duration::ZERO,
            command: SERVE,
            deadlines: Vec::new(),
            report: |_| {},
        }
    }
}

/// A device name without a usable member.
struct Absent<'a> {
    name: &'a String,
    error: Error,
    is_pending: bool,
}

/// Opens the devices of a volume with redundancy, and `pending` ones, whose superblocks decide
/// whether they are members; see [`crate::open::cut`]. A device that is absent or holds no member
/// is waited for, and then omitted. A device that can't be used for another reason is an error,
/// unless the volume does not need it.
pub(crate) fn gather(
    (names, pending): (&[String], &[String]),
    redundancy: Redundancy,
    options: &OpenOptions,
) -> Result<Assembly, Error> {
    let begun = Instant::now();
    let (mut members, mut coming, mut reported) = (Vec::new(), Vec::new(), false);
    let listed = names.iter().map(|name| (name, false));
    let mut waiting: Vec<_> = listed.chain(pending.iter().map(|name| (name, true))).collect();
    loop {
        let mut absent = Vec::new();
        for (name, is_pending) in std::mem::take(&mut waiting) {
            match open_member(name, options.access) {
                Ok(member) if is_pending => coming.push(member),
                Ok(member) => members.push(member),
                Err(error) => absent.push(Absent { name, error, is_pending }),
            }
        }
        // A server whose connection was aborted because of a signal is not absent.
        absent.iter().try_for_each(|it| cancel::check(it.name))?;
        let left = options.wait.saturating_sub(begun.elapsed());
        // A device that is present without a member will not become one.
        let is_away = |error: &Error| is_absence(error) && !matches!(error, Error::Device { .. });
        let may_come = absent.iter().any(|it| is_away(&it.error));
        // Waiting does not help against missing permissions or a device in use.
        let is_trouble = absent.iter().any(|it| !is_absence(&it.error));
        let are_lacking =
            || is_lacking(&InterruptedChange::preview(&members, &coming, redundancy), redundancy);
        if left.is_zero() || !may_come || is_trouble || !are_lacking() {
            return settle_for((members, coming), absent, redundancy);
        }
        if !reported {
            let list: Vec<&str> = absent.iter().map(|it| it.name.as_str()).collect();
            let (most, list) = (left.as_secs_f64().ceil(), list.join(", "));
            // Once: the list may shrink, but a line at each attempt would flood the log.
            (options.report)(&format!("waiting up to {most} s for {list} (--wait-devices)"));
            reported = true;
        }
        waiting = absent.into_iter().map(|it| (it.name, it.is_pending)).collect();
        std::thread::sleep(PAUSE.min(left));
    }
}

/// Returns whether a member is absent that is worth waiting for.
fn is_lacking(members: &[Superblock], redundancy: Redundancy) -> bool {
    match judge(members, redundancy) {
        Verdict::Complete { .. } => false,
        Verdict::Degraded { order, unsaid, .. } => {
            let journal = redundancy.journal_in(find_newest(&order, members));
            unsaid != 0 || journal.is_some_and(|it| absent(&order).contains(it))
        }
        Verdict::Missing { .. } | Verdict::Stale { .. } | Verdict::Nothing => true,
        _ => false,
    }
}

/// Assembles the volume from the members that are present.
fn settle_for(
    (members, coming): (Vec<Member>, Vec<Member>),
    mut absent: Vec<Absent>,
    redundancy: Redundancy,
) -> Result<Assembly, Error> {
    let (members, mut cut) = InterruptedChange::choose(members, coming, redundancy);
    let superblocks: Vec<Superblock> = members.iter().map(|member| member.superblock).collect();
    let lacking = is_lacking(&superblocks, redundancy);
    // A device without a superblock was read; the superblocks of the others are unknown.
    let is_unread = |it: &&Absent| it.is_pending && !matches!(it.error, Error::Device { .. });
    cut.unread.extend(absent.iter().filter(is_unread).map(|it| it.name.clone()));
    // The volume does not need this pending device.
    absent.retain(|it| lacking || !it.is_pending);
    let plain = redundancy.devices == 0 && !redundancy.journal;
    // A device of another version is never omitted, because this version cannot judge its data.
    let is_unknown = |error: &Error| matches!(error, Error::Format { .. });
    let is_trouble = |error: &Error| lacking && !is_absence(error) || is_unknown(error);
    let trouble = absent.iter().position(|it| is_trouble(&it.error));
    // Without redundancy the first error is the cause; the verdict on the rest would hide it.
    let needed = plain && lacking && !absent.is_empty();
    match trouble.or_else(|| needed.then_some(0)) {
        Some(at) => Err(absent.swap_remove(at).error),
        None => {
            let excluded = absent.iter().map(|it| it.error.to_string());
            let mut excluded: Vec<String> = excluded.collect();
            // All entries without a device have the same message.
            excluded.dedup();
            Ok(Assembly { cut, ..order(members, excluded, redundancy)? })
        }
    }
}

/// Returns whether an error means that there is no such member. Other errors concern the member
/// itself, this machine, or the use of the device.
pub(crate) fn is_absence(error: &Error) -> bool {
    match error {
        Error::Device { .. } => true,
        Error::Io(IoError::System { action, source, .. }) => match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM) => true,
            Some(
                libc::ECONNREFUSED
                | libc::ECONNRESET
                | libc::EPIPE
                | libc::ETIMEDOUT
                | libc::EHOSTDOWN
                | libc::EHOSTUNREACH
                | libc::ENETDOWN
                | libc::ENETUNREACH
                | libc::ENOTCONN,
            ) => true,
            Some(_) => false,
            // The server does not speak the protocol, or the host has no address.
            None => *action == "use the NBD server",
        },
        _ => false,
    }
}

/// Returns the error for a volume that lacks members, with the command that opens it regardless.
/// `devices` is the list of the volume file.
pub(crate) fn refusal(path: &Path, found: &Assembly, devices: &[String], command: &str) -> Error {
    let (superblock, devices) = (&found.superblock, Names::opened(devices, found).list());
    let absent = found.unrecorded & DeviceSet::first_n(superblock.count.into());
    let here: Vec<&str> = found.members.iter().flatten().map(|one| one.device.name()).collect();
    let named: Vec<String> = absent
        .iter()
        .map(|index| {
            let index = usize::from(index);
            let uuid = Uuid::from_bytes(superblock.members[index]);
            match devices.get(index).filter(|name| *name != MISSING) {
                Some(name) if !here.contains(&name.as_str()) => {
                    format!("device {index} ({name}, {uuid})")
                }
                _ => format!("device {index} ({uuid})"),
            }
        })
        .collect();
    let known = time(superblock.changed)
        .map_or(String::new(), |at| format!(", since the last change of members at {at}"));
    let why = found.excluded.join("; ");
    let way = match command {
        CHECK => format!("`{command}` examines the present devices"),
        _ => format!("`{command}` starts without it and excludes it permanently"),
    };
    Error::Stack(format!(
        "{}: {} of {} is missing ({why}); it is a member{known} and may hold newer writes than \
         {}; reconnect it, or {way}",
        path.display(),
        named.join(" and "),
        superblock.count,
        here.join(", "),
    ))
}
