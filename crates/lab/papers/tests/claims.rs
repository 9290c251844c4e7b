//! Verifies the claims of the experiments at the reduced size, and their golden figures.

use std::fmt::Write as _;
use std::path::Path;

use hostftl_papers::{ALL, Cell, Check, Kind, MISSES, Options, Sheet, Size, Watch};

struct Patient;

impl Watch for Patient {
    fn progress(&self, _what: &str, _done: usize, _of: usize) {}

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
    let findings = paper.make(&options, &Patient).expect("it can be made");
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
    let unexplained: Vec<_> = findings.unexplained().collect();
    assert!(unexplained.len() <= 1, "{unexplained:#?}");
    assert!(findings.violations.is_empty(), "{:?}", findings.violations);
    golden(name, &findings.checks);
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

/// Compares the figures of the claims with the golden file; `HOSTFTL_GOLDEN=write` accepts the
/// current ones.
fn golden(name: &str, checks: &[Check]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    let mut found = String::new();
    for check in checks {
        writeln!(found, "{:.4}  {}", check.ours, check.claim)
            .expect("writing to a string succeeds");
    }
    if std::env::var("HOSTFTL_GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::write(&path, found).expect("the file can be written");
        return;
    }
    let golden = std::fs::read_to_string(&path).expect("the file is there");
    assert_eq!(found.lines().count(), golden.lines().count(), "claims in {}", path.display());
    for (found, golden) in found.lines().zip(golden.lines()) {
        let ((one, claim), (other, was)) = (parted(found), parted(golden));
        assert_eq!(claim, was);
        let near = (one - other).abs() <= other.abs().max(0.01) * NEAR / 100.0;
        assert!(near, "{claim}: {one}, golden {other}");
    }
}

fn parted(line: &str) -> (f64, &str) {
    let (figure, claim) = line.split_once("  ").expect("a figure and a claim");
    (figure.parse().expect("a figure"), claim)
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
fn scrambler() {
    holds("scrambler");
}
