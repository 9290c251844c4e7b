//! Transcripts of commands and their output. `TRYCMD=overwrite` renews them.

#[test]
fn transcripts() {
    let cases = trycmd::TestCases::new();
    cases.case("tests/cmd/*.trycmd");
    if !cfg!(feature = "paper") {
        for name in ["compare", "models", "paper"] {
            cases.skip(format!("tests/cmd/{name}.trycmd"));
        }
    }
}
