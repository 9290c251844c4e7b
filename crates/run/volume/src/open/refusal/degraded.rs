//! Effect of a missing device on the data of a volume. It is known only after recovery of the
//! layer: a joining device may lack chunks that need the missing one for their rebuild.

use hostftl_core::Gauges;

/// Start of each note on a volume that was opened without a device.
const RUNS_WITHOUT: &str = "DEGRADED: running without device";

/// Start of each note on an omitted device; its name follows.
pub(crate) const EXCLUDED: &str = "left out: ";

/// Returns the start of the note on a volume that was opened without device `index`.
pub(crate) fn without(index: usize) -> String {
    format!("{RUNS_WITHOUT} {index} ")
}

/// Returns the note on a volume that was opened without its spare, device `index`.
pub(crate) fn spare_is_missing(index: usize) -> String {
    format!("spare device {index} is missing; it holds no data")
}

/// Returns the effect according to the superblocks alone, which follows a semicolon in the note:
/// whether the data of the device was rebuilt on the others, and whether the loss of another device
/// is tolerated.
pub(crate) fn at_rest(is_out: bool, may_lose_more: bool) -> &'static str {
    match (is_out, may_lose_more) {
        (true, _) => "its data was rebuilt on the other devices",
        (false, true) => {
            "one more device can fail without data loss, unless a new device is incomplete"
        }
        (false, false) => "another device failure loses data",
    }
}

/// Replaces the effect according to the superblocks by that according to the layer, in each of
/// `notes` about a missing device.
pub(crate) fn redundancy_note(notes: &mut [String], gauges: &Gauges) {
    let means = meaning(gauges);
    for note in notes.iter_mut().filter(|note| note.starts_with(RUNS_WITHOUT)) {
        note.truncate(note.find("; ").unwrap_or(note.len()));
        note.push_str(&means);
    }
}

fn meaning(gauges: &Gauges) -> String {
    match (beyond_parity(gauges.unreadable), gauges.may_lose) {
        (Some(why), _) => format!("; {why}"),
        (None, 0) => "; all data is available, but another device failure loses data".into(),
        (None, 1) => {
            "; all data is available, and one more device can fail without data loss".into()
        }
        (None, more) => {
            format!("; all data is available, and {more} more devices can fail without data loss")
        }
    }
}

/// Returns a warning if `bytes` of data have more missing chunks than the redundancy can rebuild.
pub(crate) fn beyond_parity(bytes: u64) -> Option<String> {
    (bytes > 0).then(|| {
        format!(
            "up to {bytes} bytes are unreadable: a new device is incomplete and others are lost, \
             reconnect a lost device and run `hostftl device online`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layer_state_takes_precedence_over_superblocks() {
        let of = |gauges: Gauges| {
            let note = format!("{}of 3, which it lost; {}", without(0), at_rest(false, true));
            let mut notes = [note, "left out: x; y".into()];
            redundancy_note(&mut notes, &gauges);
            assert_eq!(notes[1], "left out: x; y");
            assert_eq!(notes[0].matches("; ").count(), 1, "{}", notes[0]);
            notes[0].clone()
        };
        let may_lose = |may_lose| of(Gauges { may_lose, ..Gauges::default() });
        assert!(may_lose(0).contains("all data is available, but"));
        assert!(may_lose(1).contains("one more device can fail"));
        assert!(may_lose(2).contains("2 more devices can fail"));
        let unreadable = of(Gauges { unreadable: 4096, ..Gauges::default() });
        assert!(unreadable.contains("up to 4096 bytes are unreadable"), "{unreadable}");
    }
}
