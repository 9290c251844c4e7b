//! Repository tasks: `cargo run --release -p xtask -- tidy`, `imports`, `docs`, `prose`,
//! `parts TARGET [FOLDER]` or `fill VOLUME SIZE random|hot`.

mod docs;
mod imports;
mod parts;
mod prose;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

use imports::Form;

const USAGE: &str = "usage: cargo run --release -p xtask -- \
                     tidy | docs | imports [--table [FOLDER]|--json|--dot|--record] | \
                     prose [--table|--record] | parts TARGET [FOLDER] | \
                     fill VOLUME SIZE random|hot";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => run_tidy(),
        ["docs"] => run_docs(),
        ["imports"] => run_imports(Form::Line),
        ["imports", "--table"] => run_imports(Form::Table),
        ["imports", "--table", folder] => {
            imports::print_table(Path::new(folder)).map(|()| ExitCode::SUCCESS)
        }
        ["imports", "--json"] => run_imports(Form::Json),
        ["imports", "--dot"] => run_imports(Form::Dot),
        ["imports", "--record"] => run_imports(Form::Record),
        ["prose"] => run_prose(false, false),
        ["prose", "--table"] => run_prose(true, false),
        ["prose", "--record"] => run_prose(false, true),
        ["parts", target] => run_parts(target, None),
        ["parts", target, folder] => run_parts(target, Some(Path::new(folder))),
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

/// Writes the metadata of a full volume of the layer `log`, with holes in place of its data.
fn run_fill(args: &[String]) -> anyhow::Result<ExitCode> {
    let example = ["run", "--release", "-p", "hostftl-volume", "--example", "start", "--"];
    let status = std::process::Command::new("cargo").args(example).args(args).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the root folder of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}

/// Checks the licences of the linked packages, and writes the bill of materials and the notices.
fn run_parts(target: &str, folder: Option<&Path>) -> anyhow::Result<ExitCode> {
    let parts = parts::read(root(), target)?;
    let findings = parts::check(&parts, &std::fs::read_to_string(root().join("deny.toml"))?)?;
    findings.iter().for_each(|line| eprintln!("parts: {line}"));
    if let Some(folder) = folder {
        parts::write(&parts, env!("CARGO_PKG_VERSION"), folder)?;
    }
    println!("parts: {} third-party packages, {} findings", parts.len(), findings.len());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures the imports and prints the figures that exceed their limits.
fn run_imports(form: Form) -> anyhow::Result<ExitCode> {
    let worse = imports::run(root(), form)?;
    worse.iter().for_each(|line| eprintln!("imports: {line}"));
    Ok(if worse.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures the prose and prints the figures that exceed their limits.
fn run_prose(is_long: bool, is_recording: bool) -> anyhow::Result<ExitCode> {
    let worse = prose::run(root(), is_long, is_recording)?;
    worse.iter().for_each(|line| eprintln!("prose: {line}"));
    Ok(if worse.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks the references in the documents and prints the missing targets.
fn run_docs() -> anyhow::Result<ExitCode> {
    let repository = docs::read(root())?;
    let findings = repository.check();
    findings.iter().for_each(|finding| println!("{finding}"));
    if !findings.is_empty() {
        println!("docs: {} missing", findings.len());
        return Ok(ExitCode::FAILURE);
    }
    println!("docs: all targets in {} documents exist", repository.documents());
    Ok(ExitCode::SUCCESS)
}

/// Checks the whole repository and prints the findings.
fn run_tidy() -> anyhow::Result<ExitCode> {
    let report = tidy::check(root())?;
    report.findings.iter().for_each(|finding| println!("{finding}"));
    if report.findings.is_empty() {
        println!("tidy: {} files follow the rules", report.files);
        return Ok(ExitCode::SUCCESS);
    }
    let (number, files) = (report.findings.len(), report.files);
    let plural = if number == 1 { "" } else { "s" };
    println!("tidy: {number} finding{plural} in {files} files");
    Ok(ExitCode::FAILURE)
}
