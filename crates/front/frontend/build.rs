//! Finds the commit that the program is built from, which results name.

use std::path::Path;
use std::process::Command;

/// What git prints for `args` in this folder; nothing without git or a repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // A copy of the sources within somebody else's repository has no commit.
    let ours =
        git(&["rev-parse", "--show-prefix"]).is_some_and(|it| it == "crates/front/frontend/");
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists());
        path.iter().for_each(|path| println!("cargo:rerun-if-changed={path}"));
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| ours).unwrap_or_default();
    println!("cargo:rustc-env=HOSTFTL_COMMIT={commit}");
}
