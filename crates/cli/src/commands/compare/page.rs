//! The rows as one page that a storage engineer can show to the boss.

use std::fs;
use std::path::Path;

use anyhow::Context;
use hostftl_report::{Page, Table};
use hostftl_sim::Row;

use super::report::summary_columns;
use super::{charts, verdict};
use crate::units::{bytes, count, counted};

/// Writes the page to `path`; `again` is the command that makes it again.
///
/// # Errors
/// When the file can't be written.
pub fn write(rows: &[Row], seed: u64, again: &str, path: &Path) -> anyhow::Result<()> {
    let mut page = Page::new("Which layer pays?");
    page.lead(&verdict::of_all(rows));
    for group in verdict::groups(rows) {
        section(&mut page, group);
    }
    page.section("Again");
    page.paragraph(&format!(
        "hostftl {}, seed {seed}; the same command gives the same digits on every machine. The \
         digest of a row stands for everything that the layer and the drive did.",
        env!("CARGO_PKG_VERSION")
    ));
    page.code(again);
    let mut digests = Table::new(&["row", "digest", "steps"]);
    for row in rows {
        digests.row([verdict::title(row, rows), row.digest.clone(), count(row.steps)]);
    }
    page.table(&digests);
    fs::write(path, page.finish())
        .with_context(|| format!("{}: can't write the page", path.display()))
}

/// Everything about one drive under one workload.
fn section(page: &mut Page, rows: &[Row]) {
    let first = &rows[0];
    page.section(&format!("{} on {}", first.workload, first.drive));
    page.paragraph(&format!(
        "The host writes {}, reads {}, flushes {}, and can address {}. State of the drive \
         before: {}.",
        bytes(first.host_write_bytes),
        bytes(first.host_read_bytes),
        counted(first.flushes, "time"),
        bytes(first.exported_bytes),
        first.warm,
    ));
    for remark in &first.remarks {
        page.paragraph(&format!("About the workload: {remark}."));
    }
    let columns = summary_columns();
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let mut table = Table::new(&heads);
    let least = |row: &&Row| row.busy_ratio.is_some();
    let best = rows.iter().filter(least).min_by(|one, other| {
        one.busy_ratio.unwrap_or(1.0).total_cmp(&other.busy_ratio.unwrap_or(1.0))
    });
    for row in rows {
        table.row(columns.iter().map(|(_, text)| text(row)));
        if best.is_some_and(|best| std::ptr::eq(best, row)) {
            table.strong();
        }
    }
    page.table(&table);
    rows.iter().filter_map(|row| verdict::of_row(row, rows)).for_each(|text| {
        page.paragraph(&text);
    });
    page.figures(charts::all(rows));
}
