//! Rules for the manifests of the pure crates: only dependencies on the list, so that nothing
//! brings a clock or a random order in by the back door.

use super::{Finding, is_pure};

/// What each pure crate may depend on outside of its tests.
const ALLOWED: [(&str, &[&str]); 4] = [
    ("crates/core/Cargo.toml", &[]),
    ("crates/format/Cargo.toml", &["hostftl-core", "crc-fast"]),
    ("crates/layers/Cargo.toml", &["hostftl-core", "hostftl-format"]),
    ("crates/work/Cargo.toml", &["hostftl-core", "hostftl-format", "lz4_flex", "zstd-safe"]),
];

/// The offences in the manifest `file`.
pub fn check(file: &str, text: &str) -> Vec<Finding> {
    if !is_pure(file) {
        return Vec::new();
    }
    let allowed = ALLOWED.iter().find(|(name, _)| *name == file).map_or(&[][..], |(_, list)| list);
    let mut section = "";
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            section = line;
        }
        let name = match section {
            "[dependencies]" => line.split(['.', '=', ' ']).next().unwrap_or_default(),
            _ if line.starts_with("[dependencies.") => &line[14..line.len() - 1],
            _ if line.starts_with("[target.") && line.contains("dependencies") => line,
            _ => "",
        };
        if name.is_empty() || name.starts_with(['[', '#']) && !name.starts_with("[target") {
            continue;
        }
        if !allowed.contains(&name) {
            findings.push(Finding {
                file: file.into(),
                line: index + 1,
                text: format!(
                    "`{name}` is not on the list of a pure crate; do without it, or add it to \
                     ALLOWED in xtask/src/tidy/manifest.rs and say why"
                ),
            });
        }
    }
    findings
}
