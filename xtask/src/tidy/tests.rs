//! One planted violation per rule, each found at its line, and clean code that passes.

use super::{manifest, source, tracked};

const CLEAN: &str = "//! Text.\n#![no_std]\n#![forbid(unsafe_code)]\n";

/// Returns the line and text of the only finding for `text` as `file`.
fn one(file: &str, text: &str) -> (usize, String) {
    let mut findings = source::check(file, text);
    assert_eq!(findings.len(), 1, "{findings:?}");
    let finding = findings.remove(0);
    (finding.line, finding.text)
}

fn assert_one(file: &str, text: &str, line: usize, word: &str) {
    let (found_at, found) = one(file, text);
    assert_eq!(found_at, line, "{found}");
    assert!(found.contains(word), "{found}");
}

#[test]
fn clean_code_passes() {
    assert_eq!(source::check("crates/ftl/core/src/lib.rs", CLEAN), []);
    let words =
        "//! A HashMap in words.\n/* unsafe */\nfn f() -> &'static str { \"todo! unsafe\" }\n";
    assert_eq!(source::check("crates/ftl/layers/src/a.rs", words), []);
}

#[test]
fn a_long_line_is_found() {
    let text = format!("//! Text.\n// {}\n", "x".repeat(98));
    assert_one("crates/study/sim/src/a.rs", &text, 2, "101 columns");
}

#[test]
fn a_long_file_is_found() {
    let text = format!("//! Text.\n{}", "\n".repeat(500));
    assert_one("crates/study/sim/src/a.rs", &text, 501, "501 lines");
}

#[test]
fn functions_over_the_limit_are_found() {
    let function = |body: usize| {
        let body = "        step();\n".repeat(body);
        format!(
            "//! Text.\nimpl A {{\n    pub fn long(\n        a: u8,\n    ) {{\n{body}    }}\n}}\n"
        )
    };
    assert_one("crates/study/sim/src/a.rs", &function(67), 3, "71 lines");
    assert_eq!(source::check("crates/study/sim/src/a.rs", &function(66)), []);
}

#[test]
fn a_missing_text_at_the_top_is_found() {
    assert_one("crates/study/sim/src/a.rs", "fn f() {}\n", 1, "no doc comment");
}

#[test]
fn unfinished_work_is_found() {
    for word in [
        concat!("to", "do!()"),
        concat!("unimpl", "emented!()"),
        concat!("db", "g!(1)"),
        concat!("// FIX", "ME later"),
        "debug_assert!(a)",
        "debug_assert_eq!(a, b)",
    ] {
        assert_one(
            "crates/study/sim/src/a.rs",
            &format!("//! Text.\nfn f() {{ {word}\n}}\n"),
            2,
            "",
        );
    }
}

#[test]
fn unsafe_is_found_outside_of_io_only() {
    let text = "//! Text.\nfn f() { unsafe { g() } }\n";
    assert_one("crates/study/sim/src/a.rs", text, 2, "`unsafe`");
    assert_eq!(source::check("crates/run/io/src/a.rs", text), []);
}

#[test]
fn clocks_threads_and_chance_are_found_in_pure_crates_only() {
    for word in ["Instant", "SystemTime", "HashMap", "HashSet", "std::time", "thread::spawn"] {
        let text = format!("//! Text.\nuse {word};\n");
        assert_one("crates/ftl/layers/src/a.rs", &text, 2, word);
        assert_eq!(source::check("crates/study/sim/src/a.rs", &text), []);
    }
}

#[test]
fn pure_crates_must_be_no_std_without_unsafe() {
    let text = CLEAN.replace("#![no_std]\n", "");
    assert_one("crates/ftl/format/src/lib.rs", &text, 1, "no_std");
    let text = CLEAN.replace("#![forbid(unsafe_code)]\n", "");
    assert_one("crates/ftl/format/src/lib.rs", &text, 1, "forbid");
}

#[test]
fn a_dependency_off_the_list_is_found() {
    let file = "crates/ftl/format/Cargo.toml";
    let listed = "[dependencies]\nhostftl-core.workspace = true\ncrc-fast.workspace = true\n";
    assert_eq!(manifest::check(file, listed), []);
    for added in ["rand = \"1\"", "rand.workspace = true", "rand = { version = \"1\" }"] {
        let findings = manifest::check(file, &format!("{listed}{added}\n"));
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].line, findings[0].text.contains("`rand`")), (4, true));
    }
    let tables = ["[dependencies.rand]\nversion = \"1\"\n", "[target.'cfg(unix)'.dependencies]\n"];
    tables.iter().for_each(|table| assert_eq!(manifest::check(file, table).len(), 1, "{table}"));
    assert_eq!(manifest::check(file, "[dev-dependencies]\nproptest.workspace = true\n"), []);
    assert_eq!(
        manifest::check("crates/study/sim/Cargo.toml", "[dependencies]\nrand = \"1\"\n"),
        []
    );
}

#[test]
fn the_mask_knows_every_literal() {
    let code = r##"a'b' "c\"d" r#"e"f"# b"g" 'h '\'' /* i /* j */ k */ l // m"##;
    let masked = super::mask::mask(code);
    assert_eq!(masked.split_whitespace().collect::<Vec<_>>(), ["a", "b", "'h", "l"]);
    assert_eq!(masked.len(), code.len());
}

#[test]
fn committed_files_are_small_with_plain_names() {
    assert_eq!(tracked::offence("tests/e2e/members.sh", 4890), None);
    let slip = tracked::offence("tests/e2e/truncate -s 96M \"$last\"", 0);
    assert!(slip.is_some_and(|finding| finding.text.contains("rename or remove")));
    let large = tracked::offence("traces/all.csv", 100 << 20);
    assert!(large.is_some_and(|finding| finding.text.contains("104857600 bytes")));
}
