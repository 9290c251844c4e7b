//! What is typed and what is printed, word by word. `TRYCMD=overwrite` accepts what is printed now.

#[test]
fn transcripts() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
