//! Tests of the prose check.

use super::source::split;
use super::table::{Measured, Row, read, record, worse};
use super::words::{Figures, count};
use super::{has_retired, retired};

#[test]
fn avoided_words_are_counted_outside_code() {
    let figures =
        count("What it says: so many, so much. Nobody lies; `what` told many. Somebody's");
    assert_eq!(figures, Figures { words: 12, found: [1, 2, 2, 1, 1] });
    let fine = Figures { words: 1000, found: [2, 0, 0, 0, 0] };
    assert!((0..5).all(|at| !fine.exceeds(at)));
    assert!(Figures { words: 1000, found: [3, 0, 0, 0, 0] }.exceeds(0));
}

#[test]
fn source_is_split_into_comments_help_messages_and_names() {
    let text = "\
//! Module.
/// Show it
#[derive(clap::Args)]
#[command(after_help = \"Example: x\")]
struct Args {
    /// Volume file
    volume: PathBuf,
}

/// Returns what.
fn run(left_out: u8) {
    // Reason.
    print!(\"cannot {what} it\"); // Behind.
}
#[cfg(test)]
mod tests {
    fn gone() { panic!(\"nobody\"); }
}
";
    let texts = split(text, false);
    assert_eq!(texts.help.trim(), "Show it\n Volume file");
    assert!(texts.comments.contains("Module") && texts.comments.contains("Returns what"));
    assert!(texts.comments.contains("Reason"));
    assert!(texts.messages.contains("cannot  it") && !texts.messages.contains("nobody"));
    assert!(texts.names.contains("left_out") && !texts.names.contains("gone"));
    assert!(split(text, true).messages.is_empty());
}

#[test]
fn retired_words_are_found_in_identifiers() {
    let glossary = "| seat | x |\n## Retired words\n\n| not | but |\n|---|---|\n\
                    | seat, left out | x |\n| row (of `log`) | stripe |\n";
    let retired = retired(glossary);
    assert_eq!(retired, ["seat", "left_out"]);
    for name in ["Seat", "seat_of", "LEFT_OUT", "is_left_out", "MySeat"] {
        assert!(has_retired(name, &retired), "{name}");
    }
    for name in ["seats", "left", "row", "outseat"] {
        assert!(!has_retired(name, &retired), "{name}");
    }
}

#[test]
fn counts_only_decrease() {
    let of = |what: u64, names: u64| {
        let figures = Figures { words: 1000, found: [what, 0, 0, 0, 0] };
        Measured::from([("io/comments".to_owned(), Row { figures, names })])
    };
    let table = read(&record(None, &of(9, 4))).unwrap();
    assert_eq!(table["io/comments"], [9, 0, 0, 0, 0, 4]);
    assert_eq!(worse(&table, &of(9, 4)), Vec::<String>::new());
    assert_eq!(worse(&table, &of(10, 4)), ["io/comments: 10 of `what`; at most 9"]);
    assert_eq!(worse(&table, &of(2, 5)), ["io/comments: 5 of `retired names`; at most 4"]);
    let table = read(&record(Some(&table), &of(5, 7))).unwrap();
    assert_eq!(table["io/comments"], [5, 0, 0, 0, 0, 4], "only better counts are recorded");
    let table = read(&record(Some(&table), &of(2, 0))).unwrap();
    assert!(table.is_empty(), "a text that reaches the goals has no row");
    assert!(read("io 1 2").is_err() && read("io a b c d e f").is_err());
}
