//! Packages that are linked into the program: their licences checked against `deny.toml`, a bill of
//! materials, and the notices that the licences require.

mod bill;
mod notices;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;
use spdx::{Expression, ParseMode};

/// Package of the shipped program.
const PROGRAM: &str = "hostftl-cli";
/// Registry of all dependencies.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A package that is linked into the program, or that runs when it is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    name: String,
    version: String,
    /// Licence in the package's manifest; empty if it has none.
    licence: String,
    /// Empty for a local package.
    source: String,
    /// SHA-256 of the package, from the lock file.
    checksum: Option<String>,
    /// Folder of its files.
    folder: PathBuf,
    repository: Option<String>,
}

/// Returns the packages of the program for `target`, sorted by name.
pub(crate) fn read(root: &Path, target: &str) -> anyhow::Result<Vec<Part>> {
    let args = ["metadata", "--locked", "--format-version", "1", "--filter-platform", target];
    let output = Command::new("cargo").args(args).current_dir(root).output()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    anyhow::ensure!(output.status.success(), "cargo metadata: {told}");
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?;
    list_parts(&metadata, &lock)
}

/// Returns the packages of the program from the metadata and the lock file.
fn list_parts(metadata: &Value, lock: &str) -> anyhow::Result<Vec<Part>> {
    let lock: toml::Table = lock.parse().context("Cargo.lock")?;
    let linked = linked(metadata)?;
    let mut parts = Vec::new();
    for package in list(&metadata["packages"]) {
        if !linked.contains(text(&package["id"])) || package["source"].is_null() {
            continue;
        }
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let manifest = Path::new(text(&package["manifest_path"]));
        parts.push(Part {
            name: name.into(),
            version: version.into(),
            licence: text(&package["license"]).into(),
            source: text(&package["source"]).into(),
            checksum: checksum(&lock, name, version),
            folder: manifest.parent().context("a manifest is in a folder")?.into(),
            repository: package["repository"].as_str().map(str::to_owned),
        });
    }
    parts.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(parts)
}

/// Returns the packages that the program needs to be built and to run, without those for tests.
fn linked(metadata: &Value) -> anyhow::Result<BTreeSet<&str>> {
    let is_program = |package: &&Value| text(&package["name"]) == PROGRAM;
    let program = list(&metadata["packages"]).iter().find(is_program).context(PROGRAM)?;
    let nodes = list(&metadata["resolve"]["nodes"]);
    let mut linked = BTreeSet::new();
    let mut next = vec![text(&program["id"])];
    while let Some(id) = next.pop() {
        if !linked.insert(id) {
            continue;
        }
        let node = nodes.iter().find(|node| text(&node["id"]) == id).context("a node of each")?;
        let is_needed = |dep: &&Value| list(&dep["dep_kinds"]).iter().any(|it| it["kind"] != "dev");
        next.extend(list(&node["deps"]).iter().filter(is_needed).map(|dep| text(&dep["pkg"])));
    }
    Ok(linked)
}

fn checksum(lock: &toml::Table, name: &str, version: &str) -> Option<String> {
    let of = |package: &&toml::Value| {
        let is =
            |key: &str, value: &str| package.get(key).and_then(|it| it.as_str()) == Some(value);
        is("name", name) && is("version", version)
    };
    let package = lock.get("package")?.as_array()?.iter().find(of)?;
    Some(package.get("checksum")?.as_str()?.to_owned())
}

/// Returns the violations of `deny.toml`: licences that are not allowed, and other sources.
pub(crate) fn check(parts: &[Part], deny: &str) -> anyhow::Result<Vec<String>> {
    let deny: toml::Table = deny.parse().context("deny.toml")?;
    let allowed = deny.get("licenses").and_then(|it| it.get("allow")?.as_array());
    let allowed: Vec<&str> =
        allowed.context("licenses.allow")?.iter().filter_map(|it| it.as_str()).collect();
    let mut findings = Vec::new();
    for part in parts {
        let Part { name, version, licence, source, .. } = part;
        if source != REGISTRY {
            findings.push(format!("{name} {version} comes from {source}, not from crates.io"));
        }
        match Expression::parse_mode(licence, ParseMode::LAX) {
            Ok(terms) if terms.evaluate(|term| allowed.contains(&&*term.to_string())) => {}
            Ok(_) => findings.push(format!("{name} {version}: {licence} is not in deny.toml")),
            Err(error) => findings.push(format!("{name} {version}: {licence:?}: {}", error.reason)),
        }
    }
    Ok(findings)
}

/// Writes the bill of materials and the notices into `folder`.
pub(crate) fn write(parts: &[Part], version: &str, folder: &Path) -> anyhow::Result<()> {
    let bill = serde_json::to_string_pretty(&bill::emit(parts, version))?;
    let files =
        [("hostftl.cdx.json", format!("{bill}\n")), ("third-party.txt", notices::emit(parts)?)];
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("{}", path.display()))?;
    }
    Ok(())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
