//! Passes the commit, the target and the features of the build to `hostftl --version`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=HOSTFTL_COMMIT");
    let given = std::env::var("HOSTFTL_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(checked_out).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=HOSTFTL_COMMIT={commit}");
    let target = std::env::var("TARGET").expect("cargo sets TARGET");
    println!("cargo::rustc-env=HOSTFTL_TARGET={target}");
    let mut features: Vec<String> = std::env::vars()
        .filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase()))
        .filter(|name| name != "default")
        .collect();
    features.sort();
    println!("cargo::rustc-env=HOSTFTL_FEATURES={}", features.join(" "));
}

/// Returns the first 12 digits of the current commit; `None` outside a repository or without git.
fn checked_out() -> Option<String> {
    // Each commit and each checkout appends a line to this file, so it triggers a rebuild.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    let log = Path::new(&log);
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// Runs git and returns its output without the end of line; `None` if it fails.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
