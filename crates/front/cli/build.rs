//! What `hostftl --version` can't know by itself: the commit and the target that it was built from.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=HOSTFTL_COMMIT");
    let told = std::env::var("HOSTFTL_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = told.or_else(checked_out).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=HOSTFTL_COMMIT={commit}");
    let target = std::env::var("TARGET").expect("cargo says for which target it builds");
    println!("cargo::rustc-env=HOSTFTL_TARGET={target}");
    let mut features: Vec<String> = std::env::vars()
        .filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase()))
        .collect();
    features.sort();
    println!("cargo::rustc-env=HOSTFTL_FEATURES={}", features.join(" "));
}

/// The commit that is checked out, where this is a repository.
fn checked_out() -> Option<String> {
    // Each commit and each checkout adds a line to this file.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    let log = Path::new(&log);
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// What git prints, without its end of line.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
