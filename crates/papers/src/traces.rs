//! Finding the published traces in a folder, and saying which rows are of them.

use std::path::{Path, PathBuf};

use crate::{Findings, Sheet};

/// Said by a paper whose workloads need no trace.
pub const NEEDS_NONE: &str = "The paper's own workloads are generated (fio), and so are these: no \
                              trace belongs to it, and --traces changes nothing.";

/// The trace that is shipped: what is known to hold is known of it.
pub const SHIPPED: &str = "mariadb-oltp-head";

/// Where a workload comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A recorded trace.
    Real,
    /// Made up in the place of a published trace that is not at hand.
    StandIn,
    /// Made up where the paper has no trace either.
    Generated,
}

impl Origin {
    /// What the page says.
    fn text(self) -> &'static str {
        match self {
            Origin::Real => "real trace",
            Origin::StandIn => "stand-in",
            Origin::Generated => "generated",
        }
    }
}

/// Adds the table of workloads: the name in the other tables, where it comes from, and what it is.
pub fn tell(findings: &mut Findings, rows: impl IntoIterator<Item = (String, Origin, String)>) {
    let title = "Workloads: which rows are real, and which stand-ins";
    let mut sheet = Sheet::new(title, &["workload", "is", "what it is"]);
    for (name, origin, what) in rows {
        sheet.row([name.into(), origin.text().into(), what.into()]);
    }
    findings.sheets.push(sheet);
}

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
