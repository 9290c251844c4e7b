//! Conclusions from the rows, as sentences.

pub(super) use hostftl_frontend::state;
use hostftl_sim::Row;

use crate::units::bytes;

/// Ratio of busy times below which a layer pays.
pub(super) const CLEARLY_LESS: f64 = 0.95;
/// Ratio from [`CLEARLY_LESS`] up to which a layer is a small gain.
pub(super) const A_LITTLE_LESS: f64 = 0.995;
/// Ratio above which a layer costs more than it saves.
pub(super) const CLEARLY_MORE: f64 = 1.05;

/// Groups adjacent rows by workload, drive and state.
pub(super) fn groups(rows: &[Row]) -> Vec<&[Row]> {
    let place = |row: &Row| (row.workload.clone(), row.drive.clone(), state(row).to_owned());
    rows.chunk_by(|one, other| place(one) == place(other)).collect()
}

/// Returns the title of a row of `rows`: its layer, and its drive, state and workload if they
/// differ among the rows.
pub(super) fn title(row: &Row, rows: &[Row]) -> String {
    let mut title = row.layer.clone();
    if rows.iter().any(|other| other.drive != row.drive) {
        title = format!("{title} on {}", row.drive);
    }
    if rows.iter().any(|other| state(other) != state(row)) {
        title = format!("{title} ({})", state(row));
    }
    if rows.iter().any(|other| other.workload != row.workload) {
        title = format!("{title} under {}", row.workload);
    }
    title
}

/// Returns whether `row` is a baseline of other rows.
pub(super) fn is_base(row: &Row) -> bool {
    row.layer == "passthrough" || row.base.as_ref() == Some(&row.layer)
}

/// Returns the baseline of the rows that have one: `none`, `raid5`, or `base` if both occur.
pub(super) fn base(rows: &[Row]) -> &'static str {
    let mut bases = rows.iter().filter_map(|row| row.base.as_deref());
    let is_none = |base: &str| base == "passthrough";
    match (bases.clone().all(is_none), bases.all(|base| !is_none(base))) {
        (true, _) => "none",
        (false, true) => "raid5",
        (false, false) => "base",
    }
}

/// Returns a sentence about the effect of a layer on the busy time of the drive; `None` for a
/// baseline, or without one.
pub(super) fn of_row(row: &Row, rows: &[Row]) -> Option<String> {
    let (ratio, memory) = (row.busy_ratio?, bytes(row.layer_bytes()));
    let (layer, less) = (title(row, rows), 1.0 / ratio);
    let under = match base(rows) {
        "none" => "without it",
        _ => "with the base layer",
    };
    (!is_base(row)).then(|| match ratio {
        ..CLEARLY_LESS => {
            format!(
                "{layer} divides the work of the drive by {less:.2} and uses {memory} of \
                     memory."
            )
        }
        ..A_LITTLE_LESS => {
            format!("{layer} is a small gain: {}, with {memory} of memory.", gain(ratio))
        }
        ..=CLEARLY_MORE => format!(
            "{layer} changes little: the drive works {ratio:.2} times as long as {under}, with \
             {memory} of memory."
        ),
        _ => format!(
            "{layer} does not pay here: the drive works {ratio:.2} times as long as {under}, with \
             {memory} of memory."
        ),
    })
}

/// Formats a ratio that is a small gain.
fn gain(ratio: f64) -> String {
    format!("the drive works {:.1} % less", 100.0 * (1.0 - ratio))
}

/// Returns the row of a group with the lowest ratio, if it is below [`CLEARLY_LESS`].
fn best(group: &[Row]) -> Option<&Row> {
    let pays = group.iter().filter(|row| row.busy_ratio.is_some_and(|it| it < CLEARLY_LESS));
    let less = |one: &&Row, other: &&Row| {
        one.busy_ratio.unwrap_or(1.0).total_cmp(&other.busy_ratio.unwrap_or(1.0))
    };
    pays.min_by(less)
}

/// Summarizes all rows in a sentence.
pub(super) fn of_all(rows: &[Row]) -> String {
    let groups = groups(rows);
    let related = groups.iter().any(|group| group.iter().any(|row| row.busy_ratio.is_some()));
    let winners: Vec<&Row> = groups.iter().filter_map(|group| best(group)).collect();
    let most = winners.iter().max_by(|one, other| {
        other.busy_ratio.unwrap_or(1.0).total_cmp(&one.busy_ratio.unwrap_or(1.0))
    });
    let several = rows.iter().all(|row| row.devices.len() > 1);
    let Some(most) = most else {
        let others = || rows.iter().filter(|row| !is_base(row));
        let least = others().filter_map(|row| Some((row, row.busy_ratio?)));
        let least = least.min_by(|one, other| one.1.total_cmp(&other.1));
        return match (related, others().next().is_some()) {
            (true, true) => match least {
                Some((row, ratio @ ..A_LITTLE_LESS)) => {
                    format!("At most a small gain: with {} {}.", title(row, rows), gain(ratio))
                }
                Some((row, ratio)) => format!(
                    "No layer pays here: the best is {}, with {ratio:.2} times the work.",
                    title(row, rows)
                ),
                None => "No layer pays here.".into(),
            },
            _ if several => "Relative results need `raid5` and another layer.".into(),
            _ => "Without `passthrough` and another layer there is nothing to compare.".into(),
        };
    };
    let less = 1.0 / most.busy_ratio.unwrap_or(1.0);
    let effect = format!(
        "divides the work of the drive by {less:.2} for {} of memory",
        bytes(most.layer_bytes())
    );
    match groups.len() {
        1 => format!("{} pays on {}: it {effect}.", most.layer, most.drive),
        all => format!(
            "A layer pays in {} of {all} cases; most of all {}, which {effect}.",
            winners.len(),
            title(most, rows)
        ),
    }
}
