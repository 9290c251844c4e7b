//! What it means for its data that a volume runs without a device. The layer knows that once it has
//! recovered: a device that came may lack what the lost one alone could bring.

use hostftl_core::Gauges;

/// How each note begins of a volume that was opened without a device.
const RUNS_WITHOUT: &str = "DEGRADED: the volume runs without device";

/// How each note begins of a device that was left out; its name follows.
pub(crate) const LEFT_OUT: &str = "left out: ";

/// How the note begins of a volume that was opened without device `index`.
pub(crate) fn without(index: usize) -> String {
    format!("{RUNS_WITHOUT} {index} ")
}

/// The note of a volume that was opened without its spare, which is device `index`.
pub(crate) fn spare_is_missing(index: usize) -> String {
    format!("the spare, device {index}, is missing: no data lies on it")
}

/// What it means by the superblocks alone, which stands behind a semicolon: whether what lay on it
/// is on the others, and whether parity would make up for one more.
pub(crate) fn at_rest(is_out: bool, may_lose_more: bool) -> &'static str {
    match (is_out, may_lose_more) {
        (true, _) => "what lay on it was made again on the others",
        (false, true) => {
            "the loss of one more device would lose nothing, unless one that came lacks something"
        }
        (false, false) => "the loss of another device would lose data",
    }
}

/// Puts what it means in the place of what the superblocks say, in each of `notes` that says that
/// a device is not there.
pub(crate) fn say_what_it_means(notes: &mut [String], gauges: &Gauges) {
    let means = meaning(gauges);
    for note in notes.iter_mut().filter(|note| note.starts_with(RUNS_WITHOUT)) {
        note.truncate(note.find("; ").unwrap_or(note.len()));
        note.push_str(&means);
    }
}

fn meaning(gauges: &Gauges) -> String {
    match (beyond_parity(gauges.unreadable), gauges.may_lose) {
        (Some(why), _) => format!("; {why}"),
        (None, 0) => {
            "; everything is served, but the loss of another device would lose data".into()
        }
        (None, 1) => {
            "; everything is served, and the loss of one more device would lose nothing".into()
        }
        (None, more) => {
            format!("; everything is served, and the loss of {more} more would lose nothing")
        }
    }
}

/// What must be said when that many `bytes` lie where more is missing than parity makes up for.
pub(crate) fn beyond_parity(bytes: u64) -> Option<String> {
    (bytes > 0).then(|| {
        format!(
            "up to {bytes} bytes can't be read, because a device that came lacks what others are \
             lost for: bring a lost device itself back, with `hostftl device online`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_layer_knows_comes_in_the_place_of_what_superblocks_say() {
        let of = |gauges: Gauges| {
            let note = format!("{}of 3, which it lost; {}", without(0), at_rest(false, true));
            let mut notes = [note, "left out: x; y".into()];
            say_what_it_means(&mut notes, &gauges);
            assert_eq!(notes[1], "left out: x; y");
            assert_eq!(notes[0].matches("; ").count(), 1, "{}", notes[0]);
            notes[0].clone()
        };
        let may_lose = |may_lose| of(Gauges { may_lose, ..Gauges::default() });
        assert!(may_lose(0).contains("everything is served, but"));
        assert!(may_lose(1).contains("one more device would lose nothing"));
        assert!(may_lose(2).contains("2 more would lose nothing"));
        let unreadable = of(Gauges { unreadable: 4096, ..Gauges::default() });
        assert!(unreadable.contains("up to 4096 bytes can't be read"), "{unreadable}");
    }
}
