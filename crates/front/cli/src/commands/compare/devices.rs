//! Tables of the devices of each stack that has several, and of the placement ids that a workload
//! or a layer uses.

use comfy_table::Table;
use hostftl_report::Table as PageTable;
use hostftl_sim::{DeviceRow, PlacementRow, Row};

use super::report::{NOTHING, aligned, styled};
use super::verdict;
use crate::units::{bytes, nanos, three_digits};

/// Heads of the columns.
const HEADS: [&str; 9] = [
    "row",
    "device",
    "role",
    "sent",
    "programmed",
    "waf",
    "busy",
    "worn: mean, most",
    "host can write",
];
/// Number of leading columns with text, which are aligned left.
const WORDS: usize = 3;

/// Title of the table.
pub(super) const TITLE: &str = "Devices";

/// Explanation of the columns.
pub(super) const MEANING: &str = "sent: bytes that the layer sends to the device; waf: bytes \
                                  programmed for each of them; worn: erases per segment of flash \
                                  or writes per sector of memory, mean and maximum; host can \
                                  write: host writes of the whole stack until this device is worn \
                                  out, with even wear. The life of the stack is that of its \
                                  shortest-lived device, without a journal.";

/// Heads of the columns of placement ids.
const PLACEMENT_HEADS: [&str; 6] = ["row", "device", "id", "sent", "programmed", "waf"];

/// Title of the table of placement ids.
pub(super) const PLACEMENTS: &str = "Placement ids";

/// Explanation of its columns.
pub(super) const PLACEMENTS_MEANING: &str = "placement ids: waf is the bytes programmed for data \
                                             that was last written with this id, copies of the \
                                             drive included, per byte that the layer sent with it.";

/// Returns a line for each placement id of rows with a device that received several ids.
fn placement_lines(rows: &[Row]) -> Vec<[String; PLACEMENT_HEADS.len()]> {
    let mut lines = Vec::new();
    for row in rows {
        let title = verdict::title(row, rows);
        for (index, device) in row.devices.iter().enumerate() {
            let is_used = |it: &&PlacementRow| it.sent_bytes > 0;
            if device.placements.iter().filter(is_used).count() > 1 {
                let cells = |it| placement_cells(&title, (index, device), it);
                lines.extend(device.placements.iter().map(cells));
            }
        }
    }
    lines
}

fn placement_cells(
    name: &str,
    (index, device): (usize, &DeviceRow),
    placement: &PlacementRow,
) -> [String; PLACEMENT_HEADS.len()] {
    [
        name.to_owned(),
        format!("{index}: {}", device.drive),
        placement.id.to_string(),
        bytes(placement.sent_bytes),
        bytes(placement.programmed_bytes),
        placement.waf.map_or(NOTHING.to_owned(), |waf| format!("{waf:.3}")),
    ]
}

/// Returns the lines of all rows with several devices.
fn lines(rows: &[Row]) -> Vec<[String; HEADS.len()]> {
    let several = rows.iter().filter(|row| row.devices.len() > 1);
    let each = several.flat_map(|row| {
        let title = verdict::title(row, rows);
        row.devices.iter().enumerate().map(move |(index, device)| cells(&title, index, device))
    });
    each.collect()
}

fn cells(name: &str, index: usize, device: &DeviceRow) -> [String; HEADS.len()] {
    let figure = |value: Option<f64>, unit: &str| {
        value.map_or(NOTHING.to_owned(), |value| format!("{}{unit}", three_digits(value)))
    };
    [
        name.to_owned(),
        format!("{index}: {}", device.drive),
        device.role.to_owned(),
        bytes(device.sent_bytes),
        bytes(device.programmed_bytes),
        device.waf.map_or(NOTHING.to_owned(), |waf| format!("{waf:.3}")),
        nanos(device.busy_ns),
        format!("{}, {}", three_digits(device.worn_mean), device.worn_max),
        figure(device.host_tb, " TB"),
    ]
}

/// Returns the table for a terminal; `None` if every row has one device.
pub(super) fn table(rows: &[Row]) -> Option<Table> {
    of_lines(&HEADS, lines(rows))
}

/// Returns the table of placement ids for a terminal; `None` if no device received several.
pub(super) fn placements(rows: &[Row]) -> Option<Table> {
    of_lines(&PLACEMENT_HEADS, placement_lines(rows))
}

fn of_lines<const N: usize>(heads: &[&str; N], lines: Vec<[String; N]>) -> Option<Table> {
    let mut table = styled();
    table
        .set_header(heads.iter().enumerate().map(|(at, head)| aligned(at < WORDS, (*head).into())));
    let empty = lines.is_empty();
    let mut last = String::new();
    for mut line in lines {
        // Only the first line of a row has its name. A page has it in each line, because the lines
        // can be sorted there.
        if line[0] == last {
            line[0].clear()
        } else {
            last.clone_from(&line[0])
        }
        table.add_row(line.into_iter().enumerate().map(|(at, text)| aligned(at < WORDS, text)));
    }
    (!empty).then_some(table)
}

/// Returns the table for a page; `None` if every row has one device.
pub(super) fn page_table(rows: &[Row]) -> Option<PageTable> {
    page_of_lines(&HEADS, lines(rows))
}

/// Returns the table of placement ids for a page; `None` if no device received several.
pub(super) fn page_placements(rows: &[Row]) -> Option<PageTable> {
    page_of_lines(&PLACEMENT_HEADS, placement_lines(rows))
}

fn page_of_lines<const N: usize>(heads: &[&str], lines: Vec<[String; N]>) -> Option<PageTable> {
    let mut table = PageTable::new(heads);
    let empty = lines.is_empty();
    for line in lines {
        table.row(line);
    }
    (!empty).then_some(table)
}
