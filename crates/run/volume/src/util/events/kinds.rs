//! The kinds of events.

use super::Level;

/// Every kind of event, with its severity, its meaning, and the required action.
/// `docs/OPERATING.md` has the same table.
pub const KINDS: [(&str, Level, &str, &str); 36] = [
    ("started", Level::Info, "the volume was opened", "nothing"),
    ("note", Level::Info, "information about the start or the server", "read it"),
    (
        "client",
        Level::Info,
        "a client violated the protocol, was too slow or was rejected",
        "check the client",
    ),
    (
        "unclean-shutdown",
        Level::Warning,
        "the previous run ended without a clean stop",
        "stop its clients, then start with `--reuse-export-name` if the text asks for it",
    ),
    (
        "degraded",
        Level::Warning,
        "the volume runs without a member",
        "reconnect the member, or replace its device",
    ),
    (
        "device-failed",
        Level::Warning,
        "a command of a device failed",
        "check the device and the kernel log",
    ),
    (
        "device-timed-out",
        Level::Error,
        "a command of a device timed out",
        "check the device and the kernel log",
    ),
    (
        "reconnected",
        Level::Warning,
        "the connection to an NBD server was lost and restored",
        "check the network and the server if the count grows",
    ),
    (
        "rebuilt",
        Level::Info,
        "the data of a lost device was rebuilt on the others",
        "replace the device at a convenient time: `hostftl device replace`",
    ),
    (
        "device-added",
        Level::Info,
        "a device was added to a served volume",
        "nothing; clients see the new size after reconnecting",
    ),
    (
        "device-replaced",
        Level::Info,
        "a device was replaced in a served volume",
        "nothing; `device-joined` follows, and `hostftl wait` waits for the resilver",
    ),
    (
        "replace-cancelled",
        Level::Warning,
        "a replacement was cancelled; the old device stays a member unless the text disagrees",
        "if you did not cancel it, fix the cause and replace the device again",
    ),
    (
        "replace-rebuilds",
        Level::Warning,
        "a device cannot be copied completely; its replacement is rebuilt",
        "nothing; `device-replaced` follows",
    ),
    (
        "device-joined",
        Level::Info,
        "a new or returned device is a member",
        "nothing; `status` shows the redundancy until the resilver is complete",
    ),
    ("device-removed", Level::Info, "a device was removed", "disconnect it"),
    (
        "removal-started",
        Level::Info,
        "a removal started: data moves to the other devices",
        "nothing; `hostftl wait` waits for the removal",
    ),
    ("removal-cancelled", Level::Info, "the removal of a device was cancelled", "nothing"),
    (
        "spare-used",
        Level::Warning,
        "a spare replaces a lost device",
        "add another spare: `hostftl device spare`",
    ),
    (
        "superblock-failed",
        Level::Error,
        "a superblock that must record a loss cannot be written",
        "check the device and the kernel log",
    ),
    (
        "device-not-closed",
        Level::Warning,
        "a removed device cannot be closed by the server",
        "stop the volume before using the device elsewhere",
    ),
    (
        "device-lost",
        Level::Error,
        "the volume runs without a device",
        "reconnect the device, or replace it",
    ),
    (
        "device-failing",
        Level::Error,
        "reads of a device repeatedly fail or mismatch; it counts as missing",
        "replace it, or scrub the volume after fixing the cause",
    ),
    (
        "device-faulted",
        Level::Error,
        "a device failed too often and was excluded (`fault-after`)",
        "replace the device",
    ),
    (
        "repaired",
        Level::Warning,
        "damaged or unreadable data of a device was rebuilt from parity; one entry per device",
        "replace the device if the count grows; `hostftl clear` acknowledges",
    ),
    ("cleared", Level::Info, "earlier events were acknowledged", "nothing"),
    (
        "events-not-saved",
        Level::Warning,
        "events cannot be written beside the volume file",
        "free space there; otherwise a restart loses them",
    ),
    (
        "corrupt",
        Level::Error,
        "data does not match its checksum and cannot be rebuilt; reads of the range fail",
        "restore the range from a backup; a write ends the error",
    ),
    (
        "scrub-complete",
        Level::Info,
        "a scrub is complete, with durable repairs, or was stopped",
        "nothing; `repaired` has the damage, if any",
    ),
    (
        "scrub-damage",
        Level::Error,
        "a scrub is complete and left unrepaired damage",
        "restore the ranges of the `corrupt` events, then `hostftl clear`",
    ),
    (
        "scrub-not-saved",
        Level::Warning,
        "the scrub position and known damage cannot be written beside the volume file",
        "free space there; otherwise a restart scrubs the same data again or loses known damage",
    ),
    ("task-complete", Level::Info, "other background work is complete", "nothing"),
    (
        "sectors-lost",
        Level::Error,
        "sectors are lost; reads fail until they are written",
        "restore them from a backup",
    ),
    ("request-failed", Level::Warning, "a client request failed", "see the events before it"),
    (
        "space-low",
        Level::Warning,
        "an overcommitted volume is nearly full",
        "trim, or add devices, before writes fail",
    ),
    (
        "no-space",
        Level::Error,
        "a device or the volume has no space",
        "free space on the file system, or trim",
    ),
    (
        "failed",
        Level::Error,
        "the layer failed; writes and flushes fail until the volume is reopened",
        "see the events before it, then restart the volume",
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
