//! What the experiments claim holds here, at the reduced size; and the figures stay as they were.

use std::fmt::Write as _;
use std::path::Path;

use hostftl_papers::{ALL, Cell, Check, Findings, Options, Size, Verdict, Watch};

struct Patient;

impl Watch for Patient {
    fn progress(&self, _what: &str, _done: usize, _of: usize) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// How far a figure may be from the golden one, in per cent: a volume that runs on threads is not
/// the same to the last digit each time.
const NEAR: f64 = 2.0;

/// Makes a paper and demands each claim that is not known to miss, and the golden figures.
fn holds(name: &str) {
    let paper = ALL.iter().find(|paper| paper.name == name).expect("a paper of that name");
    let options = Options { size: Size::Quick, sweep: false, traces: None, threads: 2, seed: 1 };
    let findings = paper.make(&options, &Patient).expect("it can be made");
    for sheet in &findings.sheets {
        println!("{}\n{}", sheet.title, sheet.heads.join(" | "));
        for row in &sheet.rows {
            println!("{}", row.iter().map(Cell::text).collect::<Vec<_>>().join(" | "));
        }
    }
    let failed: Vec<_> = findings.failed().collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(!findings.checks.is_empty());
    assert!(findings.violations.is_empty(), "{:?}", findings.violations);
    missed_ones_are_told(&findings);
    golden(name, &findings.checks);
}

/// README's table names each claim that does not hold.
fn missed_ones_are_told(findings: &Findings) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("README is there");
    let missed = findings.checks.iter().filter(|check| check.verdict == Verdict::Misses);
    for check in missed {
        assert!(readme.contains(&check.claim), "README's table lacks: {}", check.claim);
    }
}

/// The figures of the claims are those in the file; `HOSTFTL_GOLDEN=write` accepts what comes out.
fn golden(name: &str, checks: &[Check]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    let mut found = String::new();
    for check in checks {
        writeln!(found, "{:.4}  {}", check.ours, check.claim).expect("a string takes everything");
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
