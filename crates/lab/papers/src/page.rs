//! Findings of one or several papers as an HTML page.

use hostftl_report::{Page, Table};

use crate::check::{Band, Check, Known, Verdict};
use crate::findings::Findings;
use crate::sheet::{Kind, Sheet};

/// Returns the page of one paper.
pub fn page(findings: &Findings) -> String {
    let mut page = Page::new(&findings.title);
    page.lead(&findings.lead);
    tell(&mut page, findings);
    kinds(&mut page);
    page.finish()
}

/// Returns one page of several papers.
pub fn pages(all: &[Findings]) -> String {
    let mut page = Page::new("Published systems, repeated");
    let took: f64 = all.iter().filter_map(|it| it.made.as_ref()).map(|made| made.took_s).sum();
    let (held, of) =
        all.iter().map(Findings::held).fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    page.lead(&format!("{held} of {of} claims hold; the page took {took:.0} s."));
    let mut table = Table::new(&[
        "system",
        "claims",
        "hold",
        "known misses",
        "misses on a given trace",
        "fail",
        "seconds",
    ]);
    for it in all {
        let (held, of) = it.held();
        let failed = it.failed().count();
        let count = |verdict| it.checks.iter().filter(|it| it.verdict == verdict).count();
        let (missed, told) = (count(Verdict::Misses), count(Verdict::Told));
        let took = it.made.as_ref().map_or("–".into(), |made| format!("{:.0}", made.took_s));
        let counts = [of, held, missed, told, failed].map(|count| count.to_string());
        table.row([it.title.clone()].into_iter().chain(counts).chain([took]));
    }
    page.table(&table);
    kinds(&mut page);
    for it in all {
        page.chapter(&it.title).paragraph(&it.lead);
        tell(&mut page, it);
    }
    page.finish()
}

/// Adds the legend of the colours.
fn kinds(page: &mut Page) {
    let kinds = [Kind::Published, Kind::Computed, Kind::Ours].map(Kind::class);
    let mut table = Table::new(&kinds).words().coloured(&kinds);
    table.row([
        "printed in the paper, with its table, figure or section",
        "from a closed form or an independent model without shared code",
        "result of this experiment",
    ]);
    page.section("Three kinds of figures").table(&table);
}

fn tell(page: &mut Page, findings: &Findings) {
    if !findings.checks.is_empty() {
        page.section("Claims").table(&claims(&findings.checks));
    }
    page.figures(findings.figures.iter().cloned());
    for sheet in &findings.sheets {
        page.section(&sheet.title).table(&table(sheet));
    }
    for (title, texts) in [
        ("Configuration", &findings.setting),
        ("Notes", &findings.notes),
        ("Violated laws: do not rely on these figures", &findings.violations),
    ] {
        if !texts.is_empty() {
            page.section(title);
            texts.iter().for_each(|text| {
                page.paragraph(text);
            });
        }
    }
    if let Some(made) = &findings.made {
        page.section("All figures above, as bars").code(&made.lines());
    }
}

fn table(sheet: &Sheet) -> Table {
    let classes: Vec<&str> = sheet.kinds.iter().map(|kind| kind.class()).collect();
    let mut table = Table::new(&sheet.heads).coloured(&classes);
    for row in &sheet.rows {
        table.row(row.iter().map(|cell| cell.text()));
    }
    table
}

fn claims(checks: &[Check]) -> Table {
    let classes = Check::KINDS.map(Kind::class);
    let mut table = Table::new(&Check::HEADS).words().coloured(&classes);
    for check in checks {
        table.row(check.cells());
    }
    table
}

impl Check {
    /// Heads of a table of claims.
    pub const HEADS: [&str; 8] =
        ["claim", "published", "computed", "ours", "difference", "must be", "holds", "why"];
    /// Kinds of its columns.
    pub const KINDS: [Kind; 8] = [
        Kind::Plain,
        Kind::Published,
        Kind::Computed,
        Kind::Ours,
        Kind::Difference,
        Kind::Plain,
        Kind::Plain,
        Kind::Plain,
    ];

    /// Returns a cell for each head.
    pub fn cells(&self) -> [String; 8] {
        let known = |known: &Option<Known>| match known {
            Some(known) => format!("{} ({})", digits(known.value), known.source),
            None => "–".into(),
        };
        let band = match self.band {
            Band::Within(low, high) => format!("{} to {}", digits(low), digits(high)),
            Band::AtLeast(low) => format!("at least {}", digits(low)),
            Band::AtMost(high) => format!("at most {}", digits(high)),
        };
        let verdict = match self.verdict {
            Verdict::Holds => "yes",
            Verdict::Misses => "no, as known",
            Verdict::Told => "no, on the given trace",
            Verdict::Fails => "no, but it held before",
            Verdict::HoldsNow => "yes, but it is listed as a miss",
        };
        [
            self.claim.clone(),
            known(&self.published),
            known(&self.computed),
            digits(self.ours),
            self.difference_percent.map_or("–".into(), |it| format!("{it:+.1} %")),
            band,
            verdict.into(),
            self.why.clone().unwrap_or_default(),
        ]
    }
}

/// Formats with up to four decimals, without trailing zeros.
fn digits(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{Made, Options, Size};
    use crate::sheet::Cell;

    fn findings() -> Findings {
        let mut findings = Findings::new("A system");
        let mut sheet =
            Sheet::new("gain", "Gain").words(["case"]).published(["published"]).ours(["ours"]);
        sheet.row(["reads".into(), Cell::Number(1.5, 2), Cell::Number(1.25, 2)]);
        findings.sheets.push(sheet);
        let known = Known::new(2.0, "Table 4");
        let check = Check::near_published("gain", "gain", known, 1.25, 10.0).because("no cache");
        findings.checks.push(check.listed());
        let size = Size::Full;
        let options =
            Options { size, sweep: false, traces: None, threads: 2, seed: 7, commit: "0123abcd" };
        findings.made = Some(Made::new("a", &options, 61.0));
        findings
    }

    #[test]
    fn a_page_shows_claims_misses_and_its_command() {
        let text = page(&findings());
        for part in [
            "A system",
            "<td class=\"published\">1.50</td>",
            "2 (Table 4)",
            "1.8 to 2.2",
            "no, as known",
            "no cache",
            "hostftl paper a --seed 7 --full",
            env!("CARGO_PKG_VERSION"),
            "commit 0123abcd",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(findings().held(), (0, 1));
    }

    #[test]
    fn one_page_has_all_papers() {
        let text = pages(&[findings(), Findings { title: "Another".into(), ..findings() }]);
        assert!(text.contains("0 of 2 claims hold"));
        assert!(text.contains(">A system</h2>") && text.contains(">Another</h2>"));
    }
}
