//! Error for a `tier` with a missing device.

use hostftl_core::{Page, SECTOR};
use hostftl_format::tier::{ledger_at, parse_ledger};

use crate::open::stack::{Assembly, Member};
use crate::util::counted::counted;
use crate::util::error::Error;

/// Maximum number of ranges in the message.
const NAMED: usize = 16;

/// Returns the error for a tier without one of its devices, with the data that only this device
/// had.
pub(crate) fn refusal(found: &Assembly) -> Error {
    let [fast, slow] = &found.members[..] else { unreachable!("a tier has two devices") };
    let (which, lost) = match (fast, slow) {
        (None, Some(slow)) => ("fast", lost_with_fast(slow)),
        _ => ("slow", "data that is not on the fast device is lost without it".into()),
    };
    let why = found.excluded.join("; ");
    Error::Stack(format!("the {which} device of the tier is missing ({why}); {lost}"))
}

/// Describes the data that only the fast device had, according to the ledger on the slow one.
fn lost_with_fast(slow: &Member) -> String {
    let (start, sectors) = (slow.superblock.data_start, slow.superblock.data_len);
    let places = [0, 1].map(|place| ledger_at(sectors, place));
    let read = |at: u64| slow.device.read_page(start + at).unwrap_or_else(|_| Page::default());
    let pages = places.map(read);
    let read = pages.iter().zip(places);
    let read = read.filter_map(|(page, at)| parse_ledger(page, slow.superblock.volume, at).ok());
    let Some(newest) = read.max_by_key(|ledger| ledger.generation) else {
        return "its content is unknown: cannot read the ledger of the slow device".into();
    };
    let exported = slow.superblock.exported;
    // The last region may extend beyond the volume. Regions that start behind its end hold no
    // client data.
    let bytes = |(from, length): (u64, u64)| {
        let within = exported.checked_sub(from).filter(|within| *within > 0)?;
        Some((from * SECTOR as u64, length.min(within) * SECTOR as u64))
    };
    let ranges: Vec<(u64, u64)> = newest.ranges().filter_map(bytes).collect();
    if ranges.is_empty() {
        return "all flushed data is also on the slow device".into();
    }
    let all: u64 = ranges.iter().map(|(_, length)| length).sum();
    let named = ranges.iter().take(NAMED).map(|(from, length)| format!("{length} at {from}"));
    let named: Vec<String> = named.collect();
    let more = match ranges.len().saturating_sub(NAMED) {
        0 => String::new(),
        rest => format!(" and {} more", counted(rest as u64, "range")),
    };
    format!("it may have the newest version of {all} bytes: {}{more}", named.join(", "))
}
