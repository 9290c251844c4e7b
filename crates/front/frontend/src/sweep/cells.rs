//! The folder of cells: a Parquet file of one line for each, under a name that stands for all that
//! decides about the line.
//!
//! Invariants
//! - A file with a cell's name is whole: it is written under another name and renamed.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use hostftl_report::Sheet;
use twox_hash::XxHash3_64;

use crate::program;
use crate::wrong::Wrong;

/// See the module text.
#[derive(Clone, Debug)]
pub struct Cells {
    folder: PathBuf,
}

/// The name of the cell that is made from what `about` says by this program: 128 bits of XXH3.
pub(super) fn name(about: &str) -> String {
    let text = format!("{}\n{about}", program::name());
    let half = |seed| XxHash3_64::oneshot_with_seed(seed, text.as_bytes());
    format!("{:016x}{:016x}.parquet", half(0), half(1))
}

impl Cells {
    /// The cells in `folder`, which is made where it is missing, and can be written to.
    ///
    /// # Errors
    /// When it can't.
    pub fn open(folder: &Path) -> Result<Self, Wrong> {
        let cells = Cells { folder: folder.to_owned() };
        fs::create_dir_all(folder).map_err(|why| cells.wrong(folder, why))?;
        let probe = cells.aside("probe");
        let tried = File::create(&probe).and_then(|_| fs::remove_file(&probe));
        tried.map_err(|why| cells.wrong(folder, why))?;
        Ok(cells)
    }

    fn wrong(&self, path: &Path, why: impl std::fmt::Display) -> Wrong {
        Wrong::failed(format!("{}: can't keep cells: {why}", path.display()))
    }

    /// A path in the folder that nobody else writes to.
    fn aside(&self, name: &str) -> PathBuf {
        static PARTS: AtomicU64 = AtomicU64::new(0);
        let number = PARTS.fetch_add(1, Ordering::Relaxed);
        self.folder.join(format!(".{name}.{}-{number}.part", std::process::id()))
    }

    /// Whether the cell `name` is there.
    pub fn has(&self, name: &str) -> bool {
        self.folder.join(name).is_file()
    }

    /// Keeps the cell `name`, whole or not at all.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn keep(&self, name: &str, bytes: &[u8]) -> Result<(), Wrong> {
        let (part, path) = (self.aside(name), self.folder.join(name));
        let write = || {
            let mut file = File::create(&part)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&part, &path)
        };
        write().map_err(|why| {
            let _ = fs::remove_file(&part);
            self.wrong(&path, why)
        })
    }

    /// The cell `name`.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn read(&self, name: &str) -> Result<Sheet, Wrong> {
        let path = self.folder.join(name);
        let read = fs::read(&path).map_err(|why| why.to_string());
        let sheet = read.and_then(|bytes| Sheet::of_parquet(bytes).map_err(|why| why.to_string()));
        let sheet = sheet.and_then(|sheet| match sheet.rows() {
            1 => Ok(sheet),
            rows => Err(format!("{rows} lines where one is expected")),
        });
        sheet.map_err(|why| {
            let path = path.display();
            Wrong::failed(format!("{path}: no cell: {why}; remove it, and sweep with --resume"))
        })
    }
}
