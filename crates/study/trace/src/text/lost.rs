//! Messages of recorders about lost events.
//!
//! | recorder | message |
//! |---|---|
//! | ftrace | `CPU:2 [LOST 4711 EVENTS]`, `# entries-in-buffer/entries-written: 40/90   #P:4` |
//! | trace-cmd | `CPU:2 [4711 EVENTS DROPPED]`, `overrun: 12` |
//! | perf | `LOST 512 events!`, `PERF_RECORD_LOST lost 512`, `lost 3 chunks!` |
//! | blktrace, blkparse | `You have 5 dropped events`, `Skips: 2 forward (31 -   0.4%)` |
//! | bcc | `Possibly lost 12 samples` |

/// Words for a loss, for lost things, and words without meaning between them.
const LOSSES: [&str; 4] = ["lost", "dropped", "overwritten", "skipped"];
const THINGS: [&str; 12] = [
    "event", "events", "sample", "samples", "chunk", "chunks", "record", "records", "message",
    "messages", "entry", "entries",
];
const FILLERS: [&str; 6] = ["were", "was", "have", "has", "been", "of"];
/// Counter at the head of ftrace's file.
const ENTRIES: &str = "entries-in-buffer/entries-written:";

/// Word prefixes of which every such message has at least one.
const HINTS: [&[u8]; 6] = [b"lost", b"dropped", b"overw", b"overrun", b"skip", b"entries-in"];

/// Returns the number of lost events that `line` reports, or `None` if it is not such a message.
pub(super) fn events(line: &[u8]) -> Option<u64> {
    // A trace of other events has millions of lines, so they must be rejected quickly.
    let is_hint = |rest: &[u8], hint: &[u8]| {
        rest.len() >= hint.len() && rest[..hint.len()].eq_ignore_ascii_case(hint)
    };
    let may_begin = |byte: u8| b"ldose".contains(&(byte | 0x20));
    let mut places = (0..line.len()).filter(|at| may_begin(line[*at]));
    if !places.any(|at| HINTS.iter().any(|hint| is_hint(&line[at..], hint))) {
        return None;
    }
    let text = String::from_utf8_lossy(line).to_ascii_lowercase();
    let text = text.trim();
    if let Some(rest) = text.strip_prefix("skips:") {
        return numbers(rest).nth(1);
    }
    if let Some(rest) = text.strip_prefix("overrun:") {
        return numbers(rest).next();
    }
    if let Some((_, rest)) = text.split_once(ENTRIES) {
        let mut both = numbers(rest);
        let (kept, written) = (both.next()?, both.next()?);
        return Some(written.saturating_sub(kept));
    }
    if let Some((_, rest)) = text.split_once("perf_record_lost") {
        return numbers(rest).next();
    }
    // ftrace does not always know the number.
    if text.contains("[lost events]") {
        return Some(1);
    }
    if !LOSSES.iter().any(|word| text.contains(word)) {
        return None;
    }
    let words: Vec<&str> = words(text).filter(|word| !FILLERS.contains(word)).collect();
    words.windows(3).find_map(|three| {
        let has = |known: &[&str]| three.iter().any(|word| known.contains(word));
        let number = three.iter().find_map(|word| number(word));
        number.filter(|_| has(&LOSSES) && has(&THINGS))
    })
}

/// Returns the words and numbers of `text`.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || ",=_".contains(letter);
    text.split(move |letter| !is_part(letter)).filter(|word| !word.is_empty())
}

/// Returns the whole numbers in `text`.
fn numbers(text: &str) -> impl Iterator<Item = u64> {
    words(text).filter_map(number)
}

/// Parses a whole number, optionally with commas between the thousands.
fn number(word: &str) -> Option<u64> {
    word.starts_with(|digit: char| digit.is_ascii_digit())
        .then(|| word.replace(',', "").parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::events;

    #[test]
    fn every_recorder_is_understood() {
        let cases: [(&str, Option<u64>); 19] = [
            ("CPU:2 [LOST 4711 EVENTS]", Some(4711)),
            ("CPU:2 [LOST EVENTS]", Some(1)),
            ("CPU:2 [4711 EVENTS DROPPED]", Some(4711)),
            ("LOST 512 events!", Some(512)),
            ("swapper 0 [000] 1.5: PERF_RECORD_LOST lost 31", Some(31)),
            ("Processed 1000 events and lost 3 chunks!", Some(3)),
            ("You have 5 dropped events", Some(5)),
            ("Skips: 0 forward (0 -   0.0%)", Some(0)),
            ("Skips: 2 forward (1,031 -   0.4%)", Some(1031)),
            ("Possibly lost 12 samples", Some(12)),
            ("# entries-in-buffer/entries-written: 40/90   #P:4", Some(50)),
            ("# entries-in-buffer/entries-written: 40/40   #P:4", Some(0)),
            ("overrun: 12", Some(12)),
            ("#                                _-----=> irqs-off", None),
            ("hello world 5", None),
            ("lost and found", None),
            ("Events Lost: 1,200", Some(1200)),
            ("7 events were lost", Some(7)),
            ("a-1 [0] 1.5: sched_stat: nr_skipped=5 dropped=7 events_queued=1", None),
        ];
        for (line, expected) in cases {
            assert_eq!(events(line.as_bytes()), expected, "{line}");
        }
    }
}
