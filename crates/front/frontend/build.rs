//! Determines the commit of the program, which is recorded in results.

use std::path::Path;
use std::process::Command;

/// Returns the output of `git` with `args` in this folder; `None` without git or a repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Sources that were copied into another repository have no commit of their own.
    let ours =
        git(&["rev-parse", "--show-prefix"]).is_some_and(|it| it == "crates/front/frontend/");
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists());
        path.iter().for_each(|path| println!("cargo:rerun-if-changed={path}"));
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| ours).unwrap_or_default();
    println!("cargo:rustc-env=HOSTFTL_COMMIT={commit}");
}
