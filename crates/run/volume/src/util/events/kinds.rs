//! The kinds of events.

use super::Level;

/// Every kind of event, with its severity, its meaning, and the required action.
/// `docs/OPERATING.md` has the same table.
pub const KINDS: [(&str, Level, &str, &str); 36] = [
    ("started", Level::Info, "the volume was opened; the text says what recovery did", "nothing"),
    ("note", Level::Info, "something to know of the start or of the server", "read it"),
    (
        "client",
        Level::Info,
        "a client broke the protocol, was too slow or was turned away",
        "nothing, if the client is not yours",
    ),
    (
        "unclean-shutdown",
        Level::Warning,
        "the run before ended otherwise than by a clean stop",
        "end its clients, then start with `--go-on` if the text says so",
    ),
    (
        "degraded",
        Level::Warning,
        "the volume runs without a member",
        "bring the member back, or replace its device",
    ),
    (
        "device-failed",
        Level::Warning,
        "a device answered a command with an error",
        "look at the device and the kernel's log",
    ),
    (
        "device-timed-out",
        Level::Error,
        "a device did not answer within its deadline",
        "look at the device and the kernel's log",
    ),
    (
        "reconnected",
        Level::Warning,
        "the connection to an NBD server broke, and was made again",
        "look at the network and the server when the count grows",
    ),
    (
        "rebuilt",
        Level::Info,
        "all that lay on a lost device was made again on the others, with parity",
        "replace the device when it suits: `hostftl device replace`",
    ),
    (
        "device-added",
        Level::Info,
        "one device more came while the volume was served",
        "nothing; clients see a new size when they connect",
    ),
    (
        "device-replaced",
        Level::Info,
        "another device came in the place of one while the volume was served",
        "nothing; `device-joined` follows, and `hostftl wait` ends when all is made anew",
    ),
    (
        "replace-cancelled",
        Level::Warning,
        "a device was not replaced: the old one stays a member, unless the text says otherwise",
        "if you did not cancel it, look at the reason and replace the device again",
    ),
    (
        "replace-rebuilds",
        Level::Warning,
        "a device can't be copied completely: the one that replaces it is rebuilt",
        "nothing; `device-replaced` follows",
    ),
    (
        "device-joined",
        Level::Info,
        "a device that came belongs to the volume",
        "nothing; `status` says what is exposed until all is made anew",
    ),
    (
        "device-removed",
        Level::Info,
        "nothing lies any more on a device that was to be removed",
        "take it away when it suits",
    ),
    (
        "removal-started",
        Level::Info,
        "a device is to be removed: its data moves to the others",
        "nothing; `hostftl wait` ends when it is removed",
    ),
    ("removal-cancelled", Level::Info, "the removal of a device was cancelled", "nothing"),
    (
        "spare-used",
        Level::Warning,
        "a spare takes the place of a lost device",
        "give the volume another spare: `hostftl device spare`",
    ),
    (
        "superblock-failed",
        Level::Error,
        "a superblock that has to record a loss can't be written",
        "look at the device and the kernel's log",
    ),
    (
        "device-not-closed",
        Level::Warning,
        "a device that was removed can't be closed by the process that serves the volume",
        "stop the volume before the device is used for something else",
    ),
    (
        "device-lost",
        Level::Error,
        "the layer goes on without a device",
        "bring the device back, or replace it",
    ),
    (
        "device-failing",
        Level::Error,
        "reads of a device fail, or do not match their checksums, repeatedly; it counts as missing",
        "replace it, or scrub the volume if the cause is gone",
    ),
    (
        "device-faulted",
        Level::Error,
        "the layer goes on without a device that failed too often: see `fault-after`",
        "replace the device",
    ),
    (
        "repaired",
        Level::Warning,
        "damaged or unreadable data of a device was rebuilt from parity; one entry per device",
        "watch the device and replace it when the count grows; `hostftl clear` acknowledges",
    ),
    ("cleared", Level::Info, "an operator acknowledged the events so far", "nothing"),
    (
        "events-not-saved",
        Level::Warning,
        "events can't be written beside the volume file",
        "make room there; until then a restart forgets them",
    ),
    (
        "corrupt",
        Level::Error,
        "data does not match its checksum and can't be rebuilt; reads of the range fail",
        "restore the range from a backup: writing it ends the error",
    ),
    (
        "scrub-complete",
        Level::Info,
        "a scrub is complete, and its repairs are durable; or it was stopped",
        "nothing; see `repaired` when it found damage",
    ),
    (
        "scrub-damage",
        Level::Error,
        "a scrub is complete and left damage that is not repaired",
        "restore the ranges that events of the kind `corrupt` name, then `hostftl clear`",
    ),
    (
        "scrub-not-saved",
        Level::Warning,
        "the position of a scrub and known damage can't be written beside the volume file",
        "make room there; until then a restart scrubs the same data again, or forgets damage",
    ),
    ("task-complete", Level::Info, "other background work is complete", "nothing"),
    (
        "sectors-lost",
        Level::Error,
        "sectors can't be read back; they are errors until they are written",
        "restore them from a backup",
    ),
    (
        "request-failed",
        Level::Warning,
        "a host got an error for a request",
        "look at the events before it",
    ),
    (
        "space-low",
        Level::Warning,
        "a volume that exports more than fits is nearly full",
        "trim, or add devices, before writes are refused",
    ),
    (
        "no-space",
        Level::Error,
        "a device or the volume has no room",
        "make room on the file system, or trim",
    ),
    (
        "failed",
        Level::Error,
        "the layer failed: writes and flushes are errors until the volume is opened again",
        "look at the events before it, then start it again",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handbook_has_every_kind() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/OPERATING.md");
        let text = std::fs::read_to_string(path).expect("the handbook is there");
        for (kind, level, meaning, todo) in KINDS {
            let row = format!("| `{kind}` | {level} | {meaning} | {todo} |");
            assert!(text.contains(&row), "docs/OPERATING.md lacks the row\n{row}");
        }
    }
}
