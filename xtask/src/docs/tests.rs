//! Existing targets pass, and each missing target is found.

use std::collections::BTreeMap;

use super::Repository;

const HACKING: &str = "# Hacking\n\n## Where is …?\n\n### `log`'s rows, and more\n";

/// Returns the findings for a document `docs/layers/log.md` with that text.
fn found(text: &str) -> Vec<(usize, String)> {
    let sources = ["crates/ftl/layers/src/log/row.rs", "scripts/demo.sh"];
    let documents = BTreeMap::from([
        ("docs/HACKING.md".to_owned(), HACKING.to_owned()),
        ("docs/layers/log.md".to_owned(), text.to_owned()),
    ]);
    let names = sources.into_iter().map(String::from).chain(documents.keys().cloned()).collect();
    let repository = Repository { names, documents };
    repository.check().into_iter().map(|it| (it.line, it.text)).collect()
}

#[test]
fn existing_references_pass() {
    let text = "[a](../HACKING.md) [b](../HACKING.md#where-is-) [c](https://example.org/x#y)\n\
                [d](#here) [e](../HACKING.md#logs-rows-and-more) [f](../../scripts/demo.sh)\n\
                `row.rs` `log/row.rs` `layers/src/log/row.rs` `a *.rs file`\n## Here\n";
    assert_eq!(found(text), []);
}

#[test]
fn code_is_not_read() {
    assert_eq!(found("```\n[a](gone.md) `gone.rs`\n```\n"), []);
}

#[test]
fn missing_targets_are_found() {
    for (text, word) in [
        ("[a](HACKING.md)", "docs/layers/HACKING.md does not exist"),
        ("[a](../HACKING.md#where-was-)", "no heading #where-was-"),
        ("[a](#gone)", "no heading #gone"),
        ("`log/column.rs`", "source file `log/column.rs` does not exist"),
        ("`w.rs`", "source file `w.rs` does not exist"),
    ] {
        let findings = found(&format!("# Title\n\n{text}\n"));
        assert!(matches!(&findings[..], [(3, it)] if it.contains(word)), "{text}: {findings:?}");
    }
}
