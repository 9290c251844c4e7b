//! Verifies the claims of the experiments at the reduced size, and their golden figures.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;

use hostftl_papers::{ALL, Cell, Findings, Kind, MISSES, Options, Sheet, Size, Watch};

/// Records the reported shares.
#[derive(Default)]
struct Recorder(Mutex<Vec<f64>>);

impl Watch for Recorder {
    fn progress(&self, _what: &str, done: usize, of: usize) {
        self.0.lock().expect("no thread panics here").push(done as f64 / of as f64);
    }

    fn cancelled(&self) -> bool {
        false
    }
}

/// Tolerance of golden figures in per cent. A volume with threads is not reproducible to the last
/// digit.
const NEAR: f64 = 2.0;

/// Runs a paper and verifies every claim that is not a known miss, and the golden figures.
fn holds(name: &str) {
    let paper = ALL.iter().find(|paper| paper.name == name).expect("a paper of that name");
    let options =
        Options { size: Size::Quick, sweep: false, traces: None, threads: 2, seed: 1, commit: "" };
    let recorder = Recorder::default();
    let findings = paper.make(&options, &recorder).expect("it can be made");
    rises(&recorder.0.into_inner().expect("no thread panics here"));
    names_are_unique(&findings);
    published_figures_have_a_place(&findings);
    for sheet in &findings.sheets {
        each_figure_is_somebodys(sheet);
        println!("{}\n{}", sheet.title, sheet.heads.join(" | "));
        for row in &sheet.rows {
            println!("{}", row.iter().map(Cell::text).collect::<Vec<_>>().join(" | "));
        }
    }
    let failed: Vec<_> = findings.failed().collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(!findings.checks.is_empty());
    assert!(findings.violations.is_empty(), "{:?}", findings.violations);
    golden(name, &findings);
}

/// Verifies that progress never decreases, and ends at the whole.
fn rises(shares: &[f64]) {
    assert!(shares.len() > 2 && shares.is_sorted(), "{shares:?}");
    assert_eq!(shares.last(), Some(&1.0));
}

fn names_are_unique(findings: &Findings) {
    let in_snake_case = |name: &str| {
        let allowed = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
        !name.is_empty() && name.chars().all(allowed)
    };
    let checks: Vec<&str> = findings.checks.iter().map(|it| it.name.as_str()).collect();
    let sheets: Vec<&str> = findings.sheets.iter().map(|it| it.name.as_str()).collect();
    for names in [checks, sheets] {
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        assert!(names.iter().all(|name| in_snake_case(name)), "{names:?}");
    }
}

/// Verifies that each published figure of a claim states its page, table, figure or section.
fn published_figures_have_a_place(findings: &Findings) {
    for check in &findings.checks {
        let Some(known) = &check.published else { continue };
        let places = ["Table ", "Fig. ", "section ", "abstract", "page "];
        let placed = places.iter().any(|place| known.source.contains(place));
        assert!(placed, "{}: {:?}", check.claim, known.source);
    }
}

/// Verifies that columns of text contain no figures, including figures formatted as text.
fn each_figure_is_somebodys(sheet: &Sheet) {
    let is_figure = |text: &str| {
        let text = text.trim_start_matches('+');
        let units = [" %", " B", " KiB", " MiB"].iter().find_map(|unit| text.strip_suffix(unit));
        units.unwrap_or(text).parse::<f64>().is_ok()
    };
    for (at, head) in sheet.heads.iter().enumerate() {
        let figure = sheet.rows.iter().map(|row| row[at].text()).find(|text| is_figure(text));
        let plain = sheet.kinds[at] == Kind::Plain;
        assert!(!plain || figure.is_none(), "{}, {head}: whose is {figure:?}?", sheet.title);
    }
}

#[test]
fn all_papers_together_are_one_rising_percentage() {
    let recorder = Recorder::default();
    for part in hostftl_papers::parts(&recorder, ALL) {
        [1, 3, 2, 4].into_iter().for_each(|done| part.progress("", done, 4));
    }
    rises(&recorder.0.into_inner().expect("no thread panics here"));
}

/// The table in docs/PAPERS.md and the list of misses contain the same claims and sizes.
#[test]
fn the_page_lists_exactly_the_known_misses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = std::fs::read_to_string(root.join("docs/PAPERS.md")).expect("the page is there");
    let (_, table) = page.split_once("Claims that do not hold:\n").expect("the table is there");
    let rows = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let told: Vec<[String; 3]> = rows
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.split('|').skip(1).map(|cell| cell.trim().to_owned()))
        .map(|mut cells| std::array::from_fn(|_| cells.next().expect("three cells or more")))
        .map(|[system, claim, when]| [system.to_lowercase(), claim, when])
        .collect();
    let known = MISSES.iter().map(|it| [it.paper.to_owned(), it.claim.to_owned(), it.when()]);
    assert_eq!(told, known.collect::<Vec<_>>());
}

/// Compares the figures and names of the claims, and the names of the tables, with the golden file;
/// `HOSTFTL_GOLDEN=write` accepts the current ones.
fn golden(name: &str, findings: &Findings) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    let mut found = String::new();
    for check in &findings.checks {
        writeln!(found, "{:.4}  {}  {}", check.ours, check.name, check.claim)
            .expect("writing to a string succeeds");
    }
    for sheet in &findings.sheets {
        writeln!(found, "table  {}", sheet.name).expect("writing to a string succeeds");
    }
    if std::env::var("HOSTFTL_GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::write(&path, found).expect("the file can be written");
        return;
    }
    let golden = std::fs::read_to_string(&path).expect("the file is there");
    assert_eq!(found.lines().count(), golden.lines().count(), "claims in {}", path.display());
    for (found, golden) in found.lines().zip(golden.lines()) {
        let ((one, text), (other, was)) = (parted(found), parted(golden));
        assert_eq!(text, was);
        let (Some(one), Some(other)) = (one, other) else {
            assert_eq!(found, golden);
            continue;
        };
        let near = (one - other).abs() <= other.abs().max(0.01) * NEAR / 100.0;
        assert!(near, "{text}: {one}, golden {other}");
    }
}

/// Returns the figure of a line, if it is a claim, and the rest.
fn parted(line: &str) -> (Option<f64>, &str) {
    let (figure, text) = line.split_once("  ").expect("two columns or more");
    (figure.parse().ok(), text)
}

#[test]
fn xdp() {
    holds("xdp");
}

#[test]
fn multi_scm() {
    holds("multi-scm");
}

#[test]
fn olive() {
    holds("olive");
}

#[test]
fn hatl() {
    holds("hatl");
}

#[test]
fn fdp() {
    holds("fdp");
}

#[test]
fn scrambler() {
    holds("scrambler");
}
