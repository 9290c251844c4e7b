//! What the experiments claim holds here.

use hostftl_papers::{ALL, Cell, Options, Watch};

struct Patient;

impl Watch for Patient {
    fn progress(&self, _what: &str, _done: usize, _of: usize) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// Makes a paper and demands each of its claims.
fn holds(name: &str) {
    let paper = ALL.iter().find(|paper| paper.name == name).expect("a paper of that name");
    let options = Options { full: false, sweep: false, traces: None, threads: 2, seed: 1 };
    let findings = (paper.run)(&options, &Patient).expect("it can be made");
    for sheet in &findings.sheets {
        println!("{}\n{}", sheet.title, sheet.heads.join(" | "));
        for row in &sheet.rows {
            println!("{}", row.iter().map(Cell::text).collect::<Vec<_>>().join(" | "));
        }
    }
    let missed: Vec<_> = findings.checks.iter().filter(|check| !check.holds).collect();
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(!findings.checks.is_empty());
    assert!(findings.violations.is_empty(), "{:?}", findings.violations);
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
