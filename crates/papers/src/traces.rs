//! Finding the published traces in a folder.

use std::path::{Path, PathBuf};

/// The file of the trace `name` in `folder`: called so, whatever follows after a point and however
/// its letters are written. Of several the first by name.
pub fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let begin = format!("{}.", name.to_lowercase());
    let files = std::fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let called = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
        name.is_some_and(|name| name.starts_with(&begin))
    };
    files.filter(called).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_found_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["src1_0.csv.zst", "src1_0-head.csv", "Financial1.spc"] {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        let found =
            |name| find(folder.path(), name).map(|path| path.file_name().unwrap().to_owned());
        assert_eq!(found("src1_0").unwrap(), "src1_0.csv.zst");
        assert_eq!(found("financial1").unwrap(), "Financial1.spc");
        assert_eq!(found("prxy_0"), None);
        assert_eq!(find(&folder.path().join("none"), "prxy_0"), None);
    }
}
