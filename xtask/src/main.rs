//! Repository chores: `cargo run --release -p xtask -- tidy`, or `fill VOLUME SIZE random|hot`.

mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run --release -p xtask -- tidy|fill VOLUME SIZE random|hot";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => run_tidy(),
        ["fill", ..] => run_fill(&args),
        _ => Err(anyhow::anyhow!(USAGE)),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Writes the metadata of a full volume of the layer `log`, its data as holes.
fn run_fill(args: &[String]) -> anyhow::Result<ExitCode> {
    let example = ["run", "--release", "-p", "hostftl-volume", "--example", "start", "--"];
    let status = std::process::Command::new("cargo").args(example).args(args).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks the whole repository and prints what breaks a rule.
fn run_tidy() -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace");
    let report = tidy::check(root)?;
    report.findings.iter().for_each(|finding| println!("{finding}"));
    if report.findings.is_empty() {
        println!("tidy: {} files follow the rules", report.files);
        return Ok(ExitCode::SUCCESS);
    }
    println!("tidy: {} findings in {} files", report.findings.len(), report.files);
    Ok(ExitCode::FAILURE)
}
