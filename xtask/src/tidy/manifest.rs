//! Rules for the manifests of pure crates: only listed dependencies, so that none introduces a
//! clock or a random order.

use super::Finding;

/// The folders of the pure crates, and the dependencies of each outside its tests.
const ALLOWED: [(&str, &[&str]); 4] = [
    ("core", &["arrayvec"]),
    ("format", &["hostftl-core", "crc-fast"]),
    ("layers", &["hostftl-core", "hostftl-format", "prefetch-index"]),
    ("compute", &["hostftl-core", "hostftl-format", "lz4_flex", "zstd-safe"]),
];

/// Returns the allowed dependencies of the crate of `file`, or `None` if the crate need not be
/// pure.
fn allowed(file: &str) -> Option<&'static [&'static str]> {
    let (folder, _) = file.strip_prefix("crates/ftl/")?.split_once('/')?;
    ALLOWED.iter().find(|(pure, _)| *pure == folder).map(|(_, list)| *list)
}

/// Returns whether `file` belongs to a pure crate: no clock, no threads, no standard library.
pub(super) fn is_pure(file: &str) -> bool {
    allowed(file).is_some()
}

/// Returns the findings in the manifest `file`.
pub(super) fn check(file: &str, text: &str) -> Vec<Finding> {
    let Some(allowed) = allowed(file) else { return Vec::new() };
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
                    "`{name}` is not allowed in a pure crate; remove it, or add it to ALLOWED in \
                     xtask/src/tidy/manifest.rs with the reason"
                ),
            });
        }
    }
    findings
}
