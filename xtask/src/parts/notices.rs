//! Notices that licences require: each text once, with its packages.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::Part;

/// Prefixes of the names of files with a licence.
const NAMES: [&str; 4] = ["LICEN", "COPYING", "NOTICE", "UNLICENSE"];

/// Returns all texts.
pub(super) fn emit(parts: &[Part]) -> anyhow::Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut out = String::from(
        "HostFTL is linked with the packages below. Each has its licence, and the texts that it \
         ships.\n\n",
    );
    for part in parts {
        let name = format!("{} {}", part.name, part.version);
        out.push_str(&format!("{name}: {}\n", part.licence));
        for text in texts_in(&part.folder)? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|a, b| a.1.cmp(&b.1));
    for (text, names) in texts {
        let rule = "=".repeat(80);
        out.push_str(&format!("\n{rule}\n{}\n{rule}\n\n{}\n", names.join(", "), text.trim_end()));
    }
    Ok(out)
}

/// Returns the licences that a package ships.
fn texts_in(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|begin| name.starts_with(begin)) {
            let bytes = fs::read(&path).with_context(|| format!("{}", path.display()))?;
            texts.push(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"));
        }
    }
    texts.sort();
    Ok(texts)
}
