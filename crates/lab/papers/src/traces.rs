//! Search for published traces in a folder, and the origin of workloads.

use std::path::{Path, PathBuf};

use crate::{Findings, Sheet};

/// Note of a paper whose workloads need no trace.
pub(crate) const NEEDS_NONE: &str = "The workloads of the paper are generated (fio), as are \
                                     these. The paper has no trace, and --traces has no effect.";

/// The shipped trace, for which results are expected.
pub(crate) const SHIPPED: &str = "mariadb-oltp-head";

/// Note of a paper that plays traces of the user.
pub(crate) const TOLD: &str = "Only claims on the stand-ins and on the shipped trace are known to \
                               hold. A claim on another trace that does not hold is reported, but \
                               does not end the command with an error.";

/// Origin of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The trace that the paper names.
    Real,
    /// Another recorded trace.
    Another,
    /// A synthetic workload in place of a published trace.
    StandIn,
    /// A synthetic workload where the paper has no trace either.
    Generated,
}

impl Origin {
    /// Returns the origin of the trace `name`. The database trace and the cloud volume are not the
    /// paper's.
    pub(crate) fn of(name: &str) -> Self {
        if name.starts_with("mariadb-") || name.starts_with("cloudphysics-") {
            Origin::Another
        } else {
            Origin::Real
        }
    }

    /// Returns whether it was recorded.
    pub(crate) fn is_recorded(self) -> bool {
        matches!(self, Origin::Real | Origin::Another)
    }

    /// Returns the text for the page.
    fn text(self) -> &'static str {
        match self {
            Origin::Real => "real trace",
            Origin::Another => "a real trace, not that of the paper",
            Origin::StandIn => "stand-in",
            Origin::Generated => "generated",
        }
    }
}

/// Adds the table of workloads: name in the other tables, origin, and description.
pub(crate) fn tell(
    findings: &mut Findings,
    rows: impl IntoIterator<Item = (String, Origin, String)>,
) {
    let title = "Workloads: real traces and stand-ins";
    let mut sheet = Sheet::new("workloads", title).words(["workload", "is", "description"]);
    for (name, origin, what) in rows {
        sheet.row([name.into(), origin.text().into(), what.into()]);
    }
    findings.sheets.push(sheet);
}

/// Returns the file of the trace `name` in `folder`: its name up to the first point must match, in
/// any case. Of several, the first by name is taken.
pub(crate) fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let begin = format!("{}.", name.to_lowercase());
    let files = std::fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let called = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
        name.is_some_and(|name| name.starts_with(&begin))
    };
    files.filter(called).min()
}

/// Returns a trace's path and size. The size distinguishes different traces of the same name.
pub(crate) fn file(path: &Path) -> String {
    match std::fs::metadata(path) {
        Ok(meta) => format!("{} ({} bytes)", path.display(), meta.len()),
        Err(_) => path.display().to_string(),
    }
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
