//! Findings as a page for people.

use hostftl_report::{Page, Table};

use crate::check::{Band, Check};
use crate::findings::Findings;
use crate::sheet::Sheet;

/// The page's whole text; `command` is what makes it again.
pub fn page(findings: &Findings, command: &str) -> String {
    let mut page = Page::new(&findings.title);
    page.lead(&findings.lead);
    page.figures(findings.figures.iter().cloned());
    for sheet in &findings.sheets {
        page.section(&sheet.title).table(&table(sheet));
    }
    if !findings.checks.is_empty() {
        page.section("Claims").table(&claims(&findings.checks));
    }
    for (title, texts) in [
        ("How it was made", &findings.setting),
        ("What to know", &findings.notes),
        ("Broken laws: do not trust these figures", &findings.violations),
    ] {
        if !texts.is_empty() {
            page.section(title);
            texts.iter().for_each(|text| {
                page.paragraph(text);
            });
        }
    }
    page.section("Again").code(command);
    page.finish()
}

fn table(sheet: &Sheet) -> Table {
    let mut table = Table::new(&sheet.heads);
    for row in &sheet.rows {
        table.row(row.iter().map(|cell| cell.text()));
    }
    table
}

fn claims(checks: &[Check]) -> Table {
    let mut table = Table::new(&["claim", "published", "ours", "band", "holds"]).words();
    for check in checks {
        table.row(check.cells());
    }
    table
}

impl Check {
    /// What it says in five cells: the claim, what was published, ours, the band, and whether it
    /// holds or why not.
    pub fn cells(&self) -> [String; 5] {
        let band = match self.band {
            Band::Within(low, high) => format!("{} to {}", digits(low), digits(high)),
            Band::AtLeast(low) => format!("at least {}", digits(low)),
            Band::AtMost(high) => format!("at most {}", digits(high)),
        };
        let verdict = match (self.holds, &self.why) {
            (true, _) => "yes".into(),
            (false, Some(why)) => format!("no: {why}"),
            (false, None) => "no".into(),
        };
        let published = self.published.map_or("–".into(), digits);
        [self.what.clone(), published, digits(self.ours), band, verdict]
    }
}

/// Up to four digits behind the point, without zeros at the end.
fn digits(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::Cell;

    #[test]
    fn a_page_shows_claims_and_what_they_miss() {
        let mut findings = Findings::new("A system");
        let mut sheet = Sheet::new("Gain", &["case", "ours"]);
        sheet.row(["reads".into(), Cell::Number(1.25, 2)]);
        findings.sheets.push(sheet);
        findings.checks.push(Check::near("gain", 2.0, 1.25, 10.0).because("no cache"));
        let text = page(&findings, "hostftl paper a");
        for part in ["A system", "1.25", "1.8 to 2.2", "no: no cache", "hostftl paper a"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(findings.held(), (0, 1));
    }
}
