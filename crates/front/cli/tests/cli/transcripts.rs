//! Transcripts of commands and their output. `TRYCMD=overwrite` renews them.

#[test]
fn transcripts() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
